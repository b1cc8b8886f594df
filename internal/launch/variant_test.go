package launch

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fakeMPI is the source of a library with MPI functions.
func fakeMPI(names ...string) string {
	var s strings.Builder
	for _, name := range append(names, "PMPI_Init", "MPI_Init") {
		fmt.Fprintf(&s, "int %s(void) { return 0; }\n", name)
	}
	return s.String()
}

// TestChooseShim: the smallest variant that has all functions of the library, which is
// that of the program, of the launcher, of LD_LIBRARY_PATH, or of the system.
func TestChooseShim(t *testing.T) {
	dir := t.TempDir()
	shared := []string{"-shared", "-fPIC"}
	shim := build(t, dir, "libmpishim.so", fakeMPI("MPI_Send", "MPI_Send_c", "MPI_Pready", "MPI_New"), shared...)
	small := build(t, dir, "libmpishim-3.1.so", fakeMPI("MPI_Send"), shared...)
	nolarge := build(t, dir, "libmpishim-4.0-nolarge.so", fakeMPI("MPI_Send", "MPI_Pready"), shared...)
	large := build(t, dir, "libmpishim-4.0.so", fakeMPI("MPI_Send", "MPI_Send_c", "MPI_Pready"), shared...)
	build(t, dir, "libmpishim-rt.so", fakeMPI(), shared...) // not a variant

	// prefix is an installation of an MPI with a launcher.
	prefix := func(name, library, source string) (launcher, program string) {
		for _, sub := range []string{"bin", "lib"} {
			if err := os.MkdirAll(filepath.Join(dir, name, sub), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		lib := build(t, filepath.Join(dir, name, "lib"), library, source, append(shared, "-Wl,-soname,"+library)...)
		program = build(t, filepath.Join(dir, name, "bin"), "app", "int MPI_Init(void);int main(void){return MPI_Init();}", lib, "-Wl,-rpath,"+filepath.Dir(lib))
		return build(t, filepath.Join(dir, name, "bin"), "mpirun", "int main(void){return 0;}"), program
	}
	const open = "int ompi_mpi_comm_world;\n"
	run4, app4 := prefix("openmpi4", "libmpi.so.40", open+fakeMPI("MPI_Send", "MPI_Own"))
	run5, app5 := prefix("openmpi5", "libmpi.so.40", open+fakeMPI("MPI_Send", "MPI_Pready"))
	runM, appM := prefix("mpich", "libmpi.so.12", fakeMPI("MPI_Send", "MPI_Send_c"))
	_, appN := prefix("new", "libmpi.so.12", fakeMPI("MPI_Send", "MPI_New"))
	script := filepath.Join(dir, "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	path := func(app string) []string {
		return []string{"LD_LIBRARY_PATH=" + dir + ":" + filepath.Join(filepath.Dir(filepath.Dir(app)), "lib")}
	}
	cases := []struct {
		name     string
		kind     Kind
		launcher string
		words    []string
		env      []string
		want     string
	}{
		{"program", OpenMPI, run4, []string{"-n", "4", app4}, nil, small},
		{"program of another place", OpenMPI, run4, []string{app5, "-x"}, nil, nolarge},
		{"wrapped", Slurm, "/srun", []string{"/bin/true", appM}, nil, large},
		{"alone", Direct, appM, nil, nil, large},
		{"newest", Hydra, runM, []string{appN}, nil, shim},
		{"two programs", Hydra, runM, []string{app4, ":", app5}, nil, nolarge},
		{"launcher 4", OpenMPI, run4, []string{script}, nil, small},
		{"launcher 5", OpenMPI, run5, []string{"python3", "x.py"}, nil, nolarge},
		{"launcher of the other family", Hydra, runM, []string{script}, nil, large},
		{"search path", OpenMPI, run4, []string{script}, path(app5), nolarge},
		{"launcher and search path", OpenMPI, run5, []string{script}, path(app4), nolarge},
		{"environment of the program", OpenMPI, run4, []string{run5, script}, nil, nolarge},
		{"search path of another family", OpenMPI, run4, []string{script}, path(appM), small},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := ChooseShim(shim, c.kind, c.launcher, append([]string{c.launcher}, c.words...), c.env); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
	if got := ChooseShim(app4, OpenMPI, run4, []string{run4, app4}, nil); got != app4 {
		t.Errorf("without variants: %s", got)
	}
}

// TestAllowSanitizer: only a program with the address sanitizer is told to do without
// its check, and what the user has told it stays.
func TestAllowSanitizer(t *testing.T) {
	dir := t.TempDir()
	const empty = "int main(void){return 0;}"
	plain, checked := build(t, dir, "plain", empty), build(t, dir, "checked", empty, "-fsanitize=address")
	for _, c := range []struct {
		words []string
		env   []string
		want  string
	}{
		{[]string{"mpirun", "-n", "2", plain}, []string{"ASAN_OPTIONS=x=1"}, ""},
		{[]string{"mpirun", "-n", "2", checked}, nil, "ASAN_OPTIONS=verify_asan_link_order=0"},
		{[]string{checked}, []string{"ASAN_OPTIONS=x=1"}, "ASAN_OPTIONS=x=1:verify_asan_link_order=0"},
		{[]string{"mpirun", "-x", "ASAN_OPTIONS=verify_asan_link_order=0", checked}, nil, ""},
	} {
		if got, err := AllowSanitizer(c.words, c.env); got != c.want || err != nil {
			t.Errorf("%v: %q, %v, want %q", c.words, got, err, c.want)
		}
	}
	if got, err := AllowSanitizer([]string{"mpirun", "-x", "ASAN_OPTIONS=x=1", checked}, nil); got != "" || err == nil {
		t.Errorf("options on the command line: %q, %v", got, err)
	}
}
