package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"sort"
	"strings"
)

// largeBit is added to the id of a function for its large-count form.
const largeBit = 1024

// largeSince is the version of MPI in which the large-count forms came.
const largeSince = "4.0"

// api is spec/mpi.json.
type api struct {
	Functions      []apiFunction
	Variants       []variant
	NotIntercepted [][2]string `json:"not_intercepted"`
	calls          []call      // both forms of every function, by id
}

type apiFunction struct {
	ID        int
	Name      string
	Returns   string
	Class     string
	Large     bool
	Removed   string
	Since     string // version of MPI, empty for what 3.1 has
	Args      [][]string
	LargeArgs [][]string `json:"large_args"`
}

// call is one entry point: a function in its plain or its large-count form.
type call struct {
	ID             int
	Name           string // MPI_Send, MPI_Send_c
	Returns, Class string
	Large          bool
	Removed        string
	Since          string // "4.0"; empty for what MPI 3.1 has
	Args           []argument
}

// variant is a build of the shim that exports the functions of one version of MPI.
type variant struct {
	Name         string // of the file: libmpishim-NAME.so
	MPI          string // version: "3.1"
	WithoutLarge bool   `json:"without_large"`
}

// has tells whether the variant exports a function.
func (v variant) has(c call) bool {
	return c.Since <= v.MPI && !(c.Large && v.WithoutLarge)
}

// argument of a call: its C type, its name and what it is for.
type argument struct{ Type, Name, Role string }

// variadic says that the argument stands for "...".
func (a argument) variadic() bool { return a.Type == "..." }

// classes are the shapes that a wrapper can have; spec/README.md says what
// each counts.
var classes = map[string]bool{}

func init() {
	for _, c := range strings.Fields(`local quick convert init finalize abort pcontrol session_init session_finalize
		send isend send_init recv irecv recv_init sendrecv isendrecv mrecv imrecv probe mprobe improbe
		wait waitall waitany waitsome test testall testany testsome start startall request_free cancel grequest
		coll icoll coll_init comm_new comm_inew comm_free comm_set_name type_new type_free type_set_name
		rma rrma rma_sync win_new win_free io iio`) {
		classes[c] = true
	}
}

func readAPI(path string) (*api, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	a := &api{}
	if err := json.Unmarshal(text, a); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := a.expand(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return a, nil
}

// expand fills calls and checks ids, names and classes.
func (a *api) expand() error {
	ids, names := map[int]string{}, map[string]bool{}
	for _, f := range a.Functions {
		if f.ID <= 0 || f.ID >= largeBit {
			return fmt.Errorf("%s: id %d is not in 1..%d", f.Name, f.ID, largeBit-1)
		}
		if other, ok := ids[f.ID]; ok {
			return fmt.Errorf("%s: id %d is that of %s", f.Name, f.ID, other)
		}
		ids[f.ID] = f.Name
		if names[f.Name] {
			return fmt.Errorf("%s stands twice", f.Name)
		}
		names[f.Name] = true
		if !classes[f.Class] {
			return fmt.Errorf("%s: unknown class %q", f.Name, f.Class)
		}
		forms := []bool{false}
		if f.Large {
			forms = append(forms, true)
		}
		for _, large := range forms {
			c := call{ID: f.ID, Name: f.Name, Returns: f.Returns, Class: f.Class, Large: large, Removed: f.Removed, Since: f.Since}
			raw := f.Args
			if large {
				c.ID += largeBit
				c.Name += "_c"
				c.Since = max(c.Since, largeSince)
				if f.LargeArgs != nil {
					raw = f.LargeArgs
				}
			}
			for _, r := range raw {
				if len(r) < 2 {
					return fmt.Errorf("%s: argument %q needs a type and a name", f.Name, r)
				}
				arg := argument{Type: r[0], Name: r[1]}
				if small, big, ok := strings.Cut(r[0], "|"); ok {
					arg.Type = small
					if large {
						arg.Type = big
					}
				}
				if len(r) > 2 {
					arg.Role = r[2]
				}
				c.Args = append(c.Args, arg)
			}
			a.calls = append(a.calls, c)
		}
	}
	sort.Slice(a.calls, func(i, j int) bool { return a.calls[i].ID < a.calls[j].ID })
	return nil
}

// byRole returns the argument with the role, or false.
func (c *call) byRole(role string) (argument, bool) {
	for _, arg := range c.Args {
		if arg.Role == role {
			return arg, true
		}
	}
	return argument{}, false
}

func (a *api) emit(out output) {
	out["c/include/calls.gen.h"] = a.emitEnum()
	out["segment/calls_gen.go"] = a.emitGo()
	out["docs/functions.md"] = a.emitTable()
	out["c/gen/entries.gen.S"] = a.emitEntries()
	out["c/gen/exports.map"] = emitExports(a.calls)
	for _, v := range a.Variants {
		out["c/gen/exports-"+v.Name+".map"] = emitExports(slices.DeleteFunc(slices.Clone(a.calls), func(c call) bool { return !v.has(c) }))
	}
	out["c/gen/wrappers.gen.c"] = a.emitWrappers()
	out["c/gen/names.gen.c"] = a.emitNames()
	out["c/gen/types.gen.h"] = a.emitTypes()
	out["c/test/prototypes.gen.h"] = a.emitPrototypes()
}

func (a *api) emitEnum() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "/* %s */\n#ifndef MPITRACE_CALLS_GEN_H\n#define MPITRACE_CALLS_GEN_H\n\n", notice)
	fmt.Fprintf(&b, "/* The functions of MPI; the large-count form of n is n | MPITRACE_CALL_LARGE. */\nenum mt_call_id {\n    MPITRACE_CALL_NONE = 0,\n    MPITRACE_CALL_LARGE = %d,\n", largeBit)
	last := 0
	for _, c := range a.calls {
		fmt.Fprintf(&b, "    MPITRACE_CALL_%s = %d,\n", strings.TrimPrefix(c.Name, "MPI_"), c.ID)
		last = max(last, c.ID)
	}
	fmt.Fprintf(&b, "};\n\n/* one more than the largest id */\n#define MPITRACE_CALL_LIMIT (%d)\n#define MPITRACE_CALL_COUNT (%d)\n\n#endif\n", last+1, len(a.calls))
	return b.Bytes()
}

func (a *api) emitGo() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "// %s\n\npackage segment\n\n// CallLarge is added to the id of a function for its large-count form.\nconst CallLarge = %d\n\n// functions of MPI by id: name and class, as in spec/mpi.json.\nvar functions = map[Call]struct{ name, class string }{\n", notice, largeBit)
	for _, c := range a.calls {
		fmt.Fprintf(&b, "%d: {%q, %q},\n", c.ID, c.Name, c.Class)
	}
	b.WriteString("}\n")
	return gofmt(b.Bytes())
}

func (a *api) emitTable() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "<!-- %s -->\n# Intercepted functions\n\n%d entry points of MPI 4.1, each under its `MPI_` and its `PMPI_` name. An MPI library that lacks one is served without it.\n\n| id | function | class | large-count form |\n|---|---|---|---|\n", notice, len(a.calls))
	for _, f := range a.Functions {
		large := ""
		if f.Large {
			large = f.Name + "_c"
		}
		fmt.Fprintf(&b, "| %d | %s | %s | %s |\n", f.ID, f.Name, f.Class, large)
	}
	b.WriteString("\n## Not intercepted\n\n| symbol | why |\n|---|---|\n")
	for _, n := range a.NotIntercepted {
		fmt.Fprintf(&b, "| %s | %s |\n", n[0], n[1])
	}
	return b.Bytes()
}
