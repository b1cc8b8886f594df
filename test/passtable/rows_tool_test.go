package passtable

// toolRows run the basic programs with another preloaded library in front of
// the shim and behind it; without the shim the other library runs alone.
func toolRows() []row {
	others := []struct {
		name, what, library, program string
	}{
		{"tool_c", "a PMPI tool for C", "tool_c.c", "basic.c"},
		{"tool_fortran", "a PMPI tool that wraps the Fortran names", "tool_fortran.c", "basic_mpif.f"},
		{"preload", "an allocator in LD_PRELOAD", "preload_other.c", "basic.c"},
	}
	var rows []row
	for _, other := range others {
		base := row{program: other.program, ranks: 2, want: basicWant()}
		front, behind := base, base
		front.name, front.what, front.front = other.name+"_front", other.what+", in front of the shim", other.library
		behind.name, behind.what, behind.behind = other.name+"_behind", other.what+", behind the shim", other.library
		rows = append(rows, front, behind)
	}
	return rows
}
