package symbols

import (
	"cmp"
	"debug/dwarf"
	"slices"
)

// unitRange says which compilation unit holds a range of addresses.
type unitRange struct {
	start, end uint64
	offset     dwarf.Offset
}

// readUnits lists the address ranges of all compilation units by address.
func readUnits(data *dwarf.Data) []unitRange {
	var out []unitRange
	for r := data.Reader(); ; r.SkipChildren() {
		entry, err := r.Next()
		if entry == nil || err != nil {
			break
		}
		if entry.Tag != dwarf.TagCompileUnit && entry.Tag != dwarf.TagSkeletonUnit {
			continue
		}
		ranges, err := data.Ranges(entry)
		if err != nil {
			continue
		}
		for _, span := range ranges {
			if span[0] < span[1] {
				out = append(out, unitRange{span[0], span[1], entry.Offset})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b unitRange) int { return cmp.Compare(a.start, b.start) })
	return out
}

// unit is the compilation unit that holds an address, nil if none does.
func (m *module) unit(address uint64) *dwarf.Entry {
	i, found := slices.BinarySearchFunc(m.units, address, func(u unitRange, a uint64) int { return cmp.Compare(u.start, a) })
	if !found {
		i--
	}
	if i < 0 || address >= m.units[i].end {
		return nil
	}
	r := m.dwarf.Reader()
	r.Seek(m.units[i].offset)
	entry, err := r.Next()
	if err != nil {
		return nil
	}
	return entry
}

// lookup finds function and line of an address.
func (m *module) lookup(address uint64) Place {
	place := Place{Function: m.symbol(address), Note: m.note}
	if m.dwarf == nil {
		return place
	}
	err := guard("debug information", func() error { return m.lookupDWARF(address, &place) })
	if err != nil {
		place.Note = err.Error()
	} else if place.Line == 0 {
		place.Note = "no line information for this part of the program: compile it with -g"
	}
	return place
}

func (m *module) lookupDWARF(address uint64, place *Place) error {
	unit := m.unit(address)
	if unit == nil {
		return nil
	}
	lines, err := m.dwarf.LineReader(unit)
	if err != nil || lines == nil {
		return err
	}
	if row, ok := m.rows(unit.Offset, lines).at(address); ok {
		place.File, place.Line = row.file.Name, row.line
	}
	frames := m.frames(unit, address, lines.Files())
	if len(frames) > 0 {
		place.Function = cmp.Or(frames[0].Function, place.Function)
		place.Inlined = frames[1:]
	}
	return nil
}

// lineRow says where the code of a range of addresses came from.
type lineRow struct {
	start, end uint64
	file       *dwarf.LineFile
	line       int
}

// lineTable is the line table of a unit by address.
type lineTable []lineRow

// rows reads the line table of a unit once. A table has a sequence per section
// of code (.text, .text.startup, .text.unlikely), in any order, so it has to be
// read to its end before an address can be sought in it.
func (m *module) rows(unit dwarf.Offset, lines *dwarf.LineReader) lineTable {
	if table, ok := m.tables[unit]; ok {
		return table
	}
	var table lineTable
	var last, next dwarf.LineEntry
	open := false
	for lines.Next(&next) == nil {
		if open && last.Address < next.Address && last.File != nil {
			table = append(table, lineRow{last.Address, next.Address, last.File, last.Line})
		}
		last, open = next, !next.EndSequence
	}
	slices.SortStableFunc(table, func(a, b lineRow) int { return cmp.Compare(a.start, b.start) })
	if m.tables == nil {
		m.tables = map[dwarf.Offset]lineTable{}
	}
	m.tables[unit] = table
	return table
}

// at is the row that holds an address. Line 0 stands for code that no line of
// the source stands for.
func (t lineTable) at(address uint64) (lineRow, bool) {
	i, found := slices.BinarySearchFunc(t, address, func(r lineRow, a uint64) int { return cmp.Compare(r.start, a) })
	if !found {
		i--
	}
	if i < 0 || address >= t[i].end || t[i].line == 0 {
		return lineRow{}, false
	}
	return t[i], true
}

// scope is one DIE on the way from the unit down to an address.
type scope struct {
	entry *dwarf.Entry
	name  string // of namespaces and modules around it
}

// frames is the function at an address and those it was inlined into,
// innermost first.
func (m *module) frames(unit *dwarf.Entry, address uint64, files []*dwarf.LineFile) []Frame {
	r := m.dwarf.Reader()
	r.Seek(unit.Offset)
	if _, err := r.Next(); err != nil {
		return nil
	}
	path := m.descend(r, address, "", 0)
	if path == nil {
		path = m.scan(unit, address)
	}
	var out []Frame
	call := Frame{}
	for i := len(path) - 1; i >= 0; i-- {
		frame := call
		frame.Function = m.entryName(path[i].entry, path[i].name, 0)
		out = append(out, frame)
		call = Frame{}
		if file, ok := path[i].entry.Val(dwarf.AttrCallFile).(int64); ok && file >= 0 && int(file) < len(files) && files[file] != nil {
			call.File = files[file].Name
		}
		if line, ok := path[i].entry.Val(dwarf.AttrCallLine).(int64); ok {
			call.Line = int(line)
		}
	}
	return out
}

// depthLimit bounds the recursion into nested scopes of damaged files.
const depthLimit = 64

// descend follows the scopes that hold the address; r stands at the children
// of one. The result is outermost first.
func (m *module) descend(r *dwarf.Reader, address uint64, prefix string, depth int) []scope {
	if depth > depthLimit {
		return nil
	}
	for {
		entry, err := r.Next()
		if err != nil || entry == nil || entry.Tag == 0 {
			return nil
		}
		switch entry.Tag {
		case dwarf.TagNamespace, dwarf.TagModule, dwarf.TagClassType, dwarf.TagStructType:
			if !entry.Children {
				continue
			}
			if path := m.descend(r, address, prefix+m.scopeName(entry)+"::", depth+1); path != nil {
				return path
			}
			continue
		case dwarf.TagSubprogram, dwarf.TagInlinedSubroutine, dwarf.TagLexDwarfBlock:
			if !m.holds(entry, address) {
				break
			}
			var inner []scope
			if entry.Children {
				inner = m.descend(r, address, prefix, depth+1)
			}
			if entry.Tag == dwarf.TagLexDwarfBlock {
				if inner == nil {
					inner = []scope{} // found, and nothing inlined
				}
				return inner
			}
			return append([]scope{{entry, prefix}}, inner...)
		}
		r.SkipChildren()
	}
}

// scan looks at every function of the unit: those nested in another one, as
// the internal procedures of Fortran, lie outside its addresses.
func (m *module) scan(unit *dwarf.Entry, address uint64) []scope {
	r := m.dwarf.Reader()
	r.Seek(unit.Offset)
	if _, err := r.Next(); err != nil {
		return nil
	}
	for {
		entry, err := r.Next()
		if err != nil || entry == nil || entry.Tag == dwarf.TagCompileUnit {
			return nil
		}
		if entry.Tag == dwarf.TagSubprogram && m.holds(entry, address) {
			path := []scope{{entry, ""}}
			if entry.Children {
				path = append(path, m.descend(r, address, "", 0)...)
			}
			return path
		}
	}
}

func (m *module) holds(entry *dwarf.Entry, address uint64) bool {
	ranges, err := m.dwarf.Ranges(entry)
	if err != nil {
		return false
	}
	for _, span := range ranges {
		if span[0] <= address && address < span[1] {
			return true
		}
	}
	return false
}

func (m *module) scopeName(entry *dwarf.Entry) string {
	if name, ok := entry.Val(dwarf.AttrName).(string); ok {
		return name
	}
	return "(anonymous)"
}

// entryName is the name of a function; that of an inlined or out-of-line copy
// is found at its origin.
func (m *module) entryName(entry *dwarf.Entry, prefix string, depth int) string {
	if name, ok := entry.Val(dwarf.AttrName).(string); ok {
		return prefix + name
	}
	if depth > depthLimit {
		return ""
	}
	for _, attr := range []dwarf.Attr{dwarf.AttrAbstractOrigin, dwarf.AttrSpecification} {
		if offset, ok := entry.Val(attr).(dwarf.Offset); ok {
			r := m.dwarf.Reader()
			r.Seek(offset)
			if origin, err := r.Next(); err == nil && origin != nil {
				// The linkage name knows the namespaces around the origin.
				if linkage, ok := origin.Val(dwarf.AttrLinkageName).(string); ok {
					if name := readable(linkage); name != linkage {
						return name
					}
				}
				return m.entryName(origin, prefix, depth+1)
			}
		}
	}
	return ""
}
