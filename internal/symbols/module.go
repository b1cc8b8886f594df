package symbols

import (
	"bytes"
	"cmp"
	"debug/dwarf"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// module is what is known of one file and its separate debug file.
type module struct {
	tables    map[dwarf.Offset]lineTable // of units looked into
	note      string                     // why there are no lines
	functions []function
	dwarf     *dwarf.Data
	units     []unitRange
}

// function is an entry of a symbol table.
type function struct {
	start, end uint64
	name       string
}

// load reads the module and its debug information; what fails goes into note.
func (r *Resolver) load(path, buildID string) *module {
	m := &module{}
	var notes []error
	candidates := append([]string{path}, r.byBuildID(buildID)...)
	for i := 0; i < len(candidates); i++ {
		err := guard(candidates[i], func() error {
			links, err := m.read(candidates[i], buildID)
			if i == 0 && err == nil {
				candidates = append(candidates, r.byLink(path, links)...)
			}
			return err
		})
		switch {
		case errors.Is(err, fs.ErrNotExist) && i > 0:
		case err != nil:
			notes = append(notes, err)
		}
		if m.dwarf != nil {
			return m
		}
	}
	switch {
	case len(notes) > 0:
		m.note = notes[0].Error()
	case len(m.functions) > 0:
		m.note = path + " has no line information: compile with -g"
	default:
		m.note = path + " is stripped: no symbols"
	}
	return m
}

// byBuildID is the separate debug files that the build id names.
func (r *Resolver) byBuildID(buildID string) []string {
	if len(buildID) < 4 {
		return nil
	}
	var out []string
	for _, dir := range r.debugDirs {
		out = append(out, filepath.Join(dir, ".build-id", buildID[:2], buildID[2:]+".debug"))
	}
	return out
}

// byLink is the separate debug files that a debug link names.
func (r *Resolver) byLink(path, link string) []string {
	if link == "" || link != filepath.Base(link) {
		return nil
	}
	dir := filepath.Dir(path)
	out := []string{filepath.Join(dir, link), filepath.Join(dir, ".debug", link)}
	for _, root := range r.debugDirs {
		out = append(out, filepath.Join(root, dir, link))
	}
	return out
}

// read adds what one file knows; link is the name of its separate debug file.
func (m *module) read(path, buildID string) (link string, err error) {
	raw, err := openRegular(path)
	if err != nil {
		return "", err
	}
	defer raw.Close()
	file, err := elf.NewFile(raw)
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	if found := readBuildID(file); buildID != "" && found != buildID {
		return "", fmt.Errorf("%s is another build (build id %s) than the one that ran (%s)", path, cmp.Or(found, "none"), buildID)
	}
	if functions := readFunctions(file); len(functions) > len(m.functions) {
		m.functions = functions
	}
	if file.Section(".debug_info") != nil || file.Section(".zdebug_info") != nil {
		data, err := file.DWARF()
		if err != nil {
			return "", fmt.Errorf("%s: %w", path, err)
		}
		if units := readUnits(data); len(units) > 0 {
			m.dwarf, m.units = data, units
		}
	}
	if section := file.Section(".gnu_debuglink"); section != nil {
		if data, err := section.Data(); err == nil {
			name, _, _ := bytes.Cut(data, []byte{0})
			link = string(name)
		}
	}
	return link, nil
}

// openRegular opens a regular file; it does not wait for a pipe.
func openRegular(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s: is not a regular file", path)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// noteLimit bounds what is read of a note segment.
const noteLimit = 1 << 20

// readBuildID is the GNU build id in hexadecimal, empty if there is none.
func readBuildID(file *elf.File) string {
	for _, section := range file.Sections {
		if section.Type == elf.SHT_NOTE && section.FileSize <= noteLimit {
			if data, err := section.Data(); err == nil {
				if id := findBuildID(file, data); id != "" {
					return id
				}
			}
		}
	}
	for _, prog := range file.Progs {
		if prog.Type == elf.PT_NOTE && prog.Filesz <= noteLimit {
			data := make([]byte, prog.Filesz)
			if _, err := io.ReadFull(prog.Open(), data); err == nil {
				if id := findBuildID(file, data); id != "" {
					return id
				}
			}
		}
	}
	return ""
}

// findBuildID walks the notes in data.
func findBuildID(file *elf.File, data []byte) string {
	const gnuBuildID = 3
	for len(data) >= 12 {
		nameBytes := uint64(file.ByteOrder.Uint32(data))
		descBytes := uint64(file.ByteOrder.Uint32(data[4:]))
		kind := file.ByteOrder.Uint32(data[8:])
		data = data[12:]
		desc := (nameBytes + 3) &^ 3
		end := desc + descBytes
		if end > uint64(len(data)) {
			return ""
		}
		if kind == gnuBuildID && string(data[:nameBytes]) == "GNU\x00" {
			return hex.EncodeToString(data[desc:end])
		}
		data = data[min((end+3)&^3, uint64(len(data))):]
	}
	return ""
}

// readFunctions is the functions of both symbol tables by address.
func readFunctions(file *elf.File) []function {
	symbols, _ := file.Symbols() // a stripped file has none
	dynamic, _ := file.DynamicSymbols()
	var out []function
	for _, s := range append(symbols, dynamic...) {
		if elf.ST_TYPE(s.Info) == elf.STT_FUNC && s.Section != elf.SHN_UNDEF && s.Value != 0 {
			out = append(out, function{s.Value, s.Value + s.Size, s.Name})
		}
	}
	slices.SortStableFunc(out, func(a, b function) int { return cmp.Compare(a.start, b.start) })
	return out
}

// symbol is the name of the function that holds an address by the symbol
// tables.
func (m *module) symbol(address uint64) string {
	i, found := slices.BinarySearchFunc(m.functions, address, func(f function, a uint64) int { return cmp.Compare(f.start, a) })
	if !found {
		i--
	}
	// Several names may share an address, and an alias may be shorter.
	for j := i; j >= 0 && j > i-8; j-- {
		f := m.functions[j]
		if address < f.end || f.start == f.end && j == i {
			return readable(f.name)
		}
	}
	return ""
}
