package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/format"
	"hash/fnv"
	"os"
	"regexp"
	"strconv"
	"strings"
)

// layout is spec/segment.json.
type layout struct {
	Version   struct{ Major, Minor int }
	Constants [][3]any
	Enums     []struct {
		Name   string
		Values [][3]any
	}
	Structs []structure
}

type structure struct {
	Name   string
	Size   int
	Doc    string
	Fields [][3]string
}

// field is one member with its place worked out.
type field struct {
	name, doc, elem string
	count           int // array length, 0 for a plain member
	offset, size    int
}

var fieldType = regexp.MustCompile(`^(char|u8|u16|u32|i32|u64|i64|f64)(?:\[(\d+)\])?$`)

var cTypes = map[string]string{"char": "char", "u8": "uint8_t", "u16": "uint16_t", "u32": "uint32_t", "i32": "int32_t", "u64": "uint64_t", "i64": "int64_t", "f64": "double"}

var goTypes = map[string]string{"char": "byte", "u8": "uint8", "u16": "uint16", "u32": "uint32", "i32": "int32", "u64": "uint64", "i64": "int64", "f64": "float64"}

var widths = map[string]int{"char": 1, "u8": 1, "u16": 2, "u32": 4, "i32": 4, "u64": 8, "i64": 8, "f64": 8}

func readLayout(path string) (*layout, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	l := &layout{}
	if err := json.Unmarshal(text, l); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, s := range l.Structs {
		if _, err := s.place(); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return l, nil
}

// place computes the offset of every field; it refuses hidden padding.
func (s *structure) place() ([]field, error) {
	var fields []field
	offset := 0
	for _, f := range s.Fields {
		m := fieldType.FindStringSubmatch(f[0])
		if m == nil {
			return nil, fmt.Errorf("struct %s: field %s has unknown type %q", s.Name, f[1], f[0])
		}
		n := 0
		if m[2] != "" {
			n, _ = strconv.Atoi(m[2])
		}
		width := widths[m[1]]
		if offset%width != 0 {
			return nil, fmt.Errorf("struct %s: field %s at offset %d is not aligned to %d", s.Name, f[1], offset, width)
		}
		size := width * max(n, 1)
		fields = append(fields, field{f[1], f[2], m[1], n, offset, size})
		offset += size
	}
	if offset > s.Size {
		return nil, fmt.Errorf("struct %s: fields take %d bytes of %d", s.Name, offset, s.Size)
	}
	return fields, nil
}

// hash is the FNV-1a of names, types and places: equal where bytes mean the
// same, whatever the comments say.
func (l *layout) hash() uint64 {
	h := fnv.New64a()
	for _, s := range l.Structs {
		fields, _ := s.place()
		fmt.Fprintf(h, "%s:%d\n", s.Name, s.Size)
		for _, f := range fields {
			fmt.Fprintf(h, "%s %s %d %d\n", f.name, f.elem, f.count, f.offset)
		}
	}
	return h.Sum64()
}

func (l *layout) emit(out output) {
	out["c/include/segment.gen.h"] = l.emitC()
	out["segment/layout_gen.go"] = l.emitGo()
}

func (l *layout) emitC() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "/* %s */\n", notice)
	b.WriteString("#ifndef MPITRACE_SEGMENT_GEN_H\n#define MPITRACE_SEGMENT_GEN_H\n\n#include <stddef.h>\n#include <stdint.h>\n\n")
	fmt.Fprintf(&b, "#define MPITRACE_SEGMENT_MAJOR %d\n#define MPITRACE_SEGMENT_MINOR %d\n#define MPITRACE_LAYOUT_HASH UINT64_C(0x%016x)\n\n", l.Version.Major, l.Version.Minor, l.hash())
	for _, c := range l.Constants {
		fmt.Fprintf(&b, "/* %s */\n#define MPITRACE_%s (%v)\n", c[2], c[0], intText(c[1]))
	}
	for _, e := range l.Enums {
		fmt.Fprintf(&b, "\nenum mt_%s {\n", e.Name)
		for _, v := range e.Values {
			fmt.Fprintf(&b, "    MPITRACE_%s_%s = %v, /* %s */\n", strings.ToUpper(e.Name), v[0], intText(v[1]), v[2])
		}
		b.WriteString("};\n")
	}
	for _, s := range l.Structs {
		fields, _ := s.place()
		fmt.Fprintf(&b, "\n/* %s */\nstruct mt_seg_%s {\n", s.Doc, s.Name)
		end := 0
		for _, f := range fields {
			array := ""
			if f.count > 0 {
				array = fmt.Sprintf("[%d]", f.count)
			}
			fmt.Fprintf(&b, "    %s %s%s; /* %s */\n", cTypes[f.elem], f.name, array, f.doc)
			end = f.offset + f.size
		}
		if end < s.Size {
			fmt.Fprintf(&b, "    uint8_t padding[%d];\n", s.Size-end)
		}
		b.WriteString("};\n")
		fmt.Fprintf(&b, "_Static_assert(sizeof(struct mt_seg_%s) == %d, \"%s\");\n", s.Name, s.Size, s.Name)
		for _, f := range fields {
			fmt.Fprintf(&b, "_Static_assert(offsetof(struct mt_seg_%s, %s) == %d, \"%s.%s\");\n", s.Name, f.name, f.offset, s.Name, f.name)
		}
	}
	b.WriteString("\n#endif\n")
	return b.Bytes()
}

func (l *layout) emitGo() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "// %s\n\npackage segment\n\nimport \"structs\"\n\n", notice)
	fmt.Fprintf(&b, "// Version and layout of the segment that this package reads.\nconst (\nVersionMajor = %d\nVersionMinor = %d\nLayoutHash uint64 = 0x%016x\n)\n\n", l.Version.Major, l.Version.Minor, l.hash())
	b.WriteString("// Limits and special values; spec/segment.json says what each means.\nconst (\n")
	for _, c := range l.Constants {
		fmt.Fprintf(&b, "%s = %v // %s\n", camel(strings.ToLower(c[0].(string))), intText(c[1]), c[2])
	}
	b.WriteString(")\n")
	for _, e := range l.Enums {
		name := camel(e.Name)
		fmt.Fprintf(&b, "\n// %s values.\nconst (\n", name)
		for _, v := range e.Values {
			fmt.Fprintf(&b, "%s%s = %v // %s\n", name, camel(strings.ToLower(v[0].(string))), intText(v[1]), v[2])
		}
		b.WriteString(")\n")
	}
	for _, s := range l.Structs {
		fields, _ := s.place()
		fmt.Fprintf(&b, "\n// %s: %s\ntype %s struct {\n_ structs.HostLayout\n", "Raw"+camel(s.Name), s.Doc, "Raw"+camel(s.Name))
		end := 0
		for _, f := range fields {
			array := ""
			if f.count > 0 {
				array = fmt.Sprintf("[%d]", f.count)
			}
			fmt.Fprintf(&b, "%s %s%s // %s\n", camel(f.name), array, goTypes[f.elem], f.doc)
			end = f.offset + f.size
		}
		if end < s.Size {
			fmt.Fprintf(&b, "_ [%d]byte\n", s.Size-end)
		}
		b.WriteString("}\n")
	}
	b.WriteString("\n// placement is what spec/segment.json says of one field; the test compares it with the compiler.\ntype placement struct {\nname string\nsize, offset uintptr\n}\n\nvar placements = map[string]struct {\nsize uintptr\nfields []placement\n}{\n")
	for _, s := range l.Structs {
		fields, _ := s.place()
		fmt.Fprintf(&b, "%q: {%d, []placement{\n", "Raw"+camel(s.Name), s.Size)
		for _, f := range fields {
			fmt.Fprintf(&b, "{%q, %d, %d},\n", camel(f.name), f.size, f.offset)
		}
		b.WriteString("}},\n")
	}
	b.WriteString("}\n")
	return gofmt(b.Bytes())
}

// gofmt formats generated Go; text that does not parse is a defect here.
func gofmt(text []byte) []byte {
	out, err := format.Source(text)
	if err != nil {
		panic(fmt.Sprintf("%v in generated text:\n%s", err, text))
	}
	return out
}

func intText(v any) string {
	if f, ok := v.(float64); ok {
		return strconv.FormatInt(int64(f), 10)
	}
	return fmt.Sprint(v)
}

var initialisms = map[string]string{"id": "ID", "pid": "PID", "uid": "UID", "tid": "TID", "mpi": "MPI", "ns": "NS", "kib": "KiB", "crc32": "CRC32", "tsc": "TSC", "vdso": "VDSO", "cntvct": "CNTVCT", "openmpi": "OpenMPI", "mpich": "MPICH"}

// camel turns a snake_case word of the spec into a Go name.
func camel(s string) string {
	parts := strings.Split(s, "_")
	for i, p := range parts {
		if u, ok := initialisms[p]; ok {
			parts[i] = u
		} else if p != "" {
			parts[i] = strings.ToUpper(p[:1]) + p[1:]
		}
	}
	return strings.Join(parts, "")
}
