package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/mpitrace/mpitrace/internal/golden"
)

func load(t *testing.T) *api {
	t.Helper()
	a, err := readAPI("../../spec/mpi.json")
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (a *api) find(t *testing.T, name string) *call {
	t.Helper()
	for i := range a.calls {
		if a.calls[i].Name == name {
			return &a.calls[i]
		}
	}
	t.Fatalf("%s is not in spec/mpi.json", name)
	return nil
}

// TestWrappers compares the wrappers of representative calls with golden
// files; -update writes them.
func TestWrappers(t *testing.T) {
	a := load(t)
	for _, name := range []string{"MPI_Send", "MPI_Irecv", "MPI_Waitall", "MPI_Alltoallw_c", "MPI_Comm_split", "MPI_Comm_rank", "MPI_Init_thread", "MPI_Pcontrol", "MPI_Comm_f2c"} {
		single := &api{calls: []call{*a.find(t, name)}}
		text := single.emitWrappers()
		golden.Compare(t, name+".txt", text[bytes.Index(text, []byte("MT_NAME("+name+")")):])
	}
}

func TestSpecRefusals(t *testing.T) {
	one := func(f apiFunction) *api { return &api{Functions: []apiFunction{f}} }
	for _, test := range []struct {
		name, want string
		api        *api
	}{
		{"id out of range", "is not in 1..", one(apiFunction{ID: 1024, Name: "MPI_X", Class: "local"})},
		{"unknown class", "unknown class", one(apiFunction{ID: 1, Name: "MPI_X", Class: "nonsense"})},
		{"argument without name", "needs a type and a name", one(apiFunction{ID: 1, Name: "MPI_X", Class: "local", Args: [][]string{{"int"}}})},
		{"id twice", "is that of", &api{Functions: []apiFunction{{ID: 1, Name: "MPI_X", Class: "local"}, {ID: 1, Name: "MPI_Y", Class: "local"}}}},
		{"name twice", "stands twice", &api{Functions: []apiFunction{{ID: 1, Name: "MPI_X", Class: "local"}, {ID: 2, Name: "MPI_X", Class: "local"}}}},
	} {
		err := test.api.expand()
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want an error with %q", test.name, err, test.want)
		}
	}
}

func TestLayoutRefusesHiddenPadding(t *testing.T) {
	s := structure{Name: "x", Size: 16, Fields: [][3]string{{"u32", "a", ""}, {"u64", "b", ""}}}
	if _, err := s.place(); err == nil || !strings.Contains(err.Error(), "not aligned") {
		t.Errorf("got %v, want a refusal", err)
	}
	s = structure{Name: "x", Size: 4, Fields: [][3]string{{"u64", "a", ""}}}
	if _, err := s.place(); err == nil {
		t.Error("fields larger than the struct were accepted")
	}
}

func TestMetricsRefused(t *testing.T) {
	good := measure{Name: "mpitrace_job_wait_seconds_total", Type: "counter", Unit: "seconds", Help: "h", Since: "1", Labels: []string{"user"}}
	for want, spoil := range map[string]func(m *measure){
		"begin with mpitrace_":  func(m *measure) { m.Name = "job_wait_seconds_total" },
		"unknown type":          func(m *measure) { m.Type = "histogram" },
		"end in _total":         func(m *measure) { m.Type = "gauge" },
		"does not stand at its": func(m *measure) { m.Unit = "bytes" },
		"needs help":            func(m *measure) { m.Help = "" },
		"has no meaning":        func(m *measure) { m.Labels = []string{"job"} },
		"used by nothing":       func(m *measure) { m.Labels = nil },
	} {
		bad := good
		spoil(&bad)
		page := metrics{Labels: [][2]string{{"user", "who"}}, Metrics: []measure{bad}}
		if err := page.check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
	page := metrics{Labels: [][2]string{{"user", "who"}}, Metrics: []measure{good}}
	if err := page.check(); err != nil || good.variable() != "jobWaitSeconds" {
		t.Errorf("%v, %s", err, good.variable())
	}
}

// TestEveryCallHasAWrapper guards against a class that emits nothing.
func TestEveryCallHasAWrapper(t *testing.T) {
	a := load(t)
	text := string(a.emitWrappers())
	for _, c := range a.calls {
		if n := strings.Count(text, "MT_NAME("+c.Name+")("); n != 1 {
			t.Errorf("%s has %d wrappers", c.Name, n)
		}
	}
	if len(a.calls) < 600 {
		t.Errorf("only %d entry points in the spec", len(a.calls))
	}
}

// headerDeviates names functions that an installed mpi.h declares otherwise
// than the standard does, with the difference.
var headerDeviates = map[string]string{
	"mpicc.mpich MPI_Pready_list": "MPICH 4.0 lacks the const of array_of_partitions (MPI 4.1, 4.2.1)",
}

// notFunctions are types that stand before a parenthesis in a header.
var notFunctions = map[string]bool{"MPI_Aint": true}

var declared = regexp.MustCompile(`\b(MPI_[A-Z]\w*)\s*\(`)

// TestPrototypes compiles the prototypes of the spec after each installed
// mpi.h: a wrong type is a conflict. Every function that the header declares
// must be in the spec.
func TestPrototypes(t *testing.T) {
	a := load(t)
	known := map[string]bool{}
	for _, c := range a.calls {
		known[c.Name] = true
	}
	for _, n := range a.NotIntercepted {
		known[n[0]] = true
	}
	for _, mpicc := range []string{"mpicc.openmpi", "mpicc.mpich"} {
		t.Run(mpicc, func(t *testing.T) {
			dir := t.TempDir()
			source := filepath.Join(dir, "prototypes.c")
			if err := os.WriteFile(source, []byte("#include <mpi.h>\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			out, err := exec.Command(mpicc, "-E", "-P", source).Output()
			if err != nil {
				t.Fatalf("%s -E: %v", mpicc, err)
			}
			var text strings.Builder
			text.WriteString("#include <mpi.h>\n")
			names := map[string]bool{}
			for _, m := range declared.FindAllSubmatch(out, -1) {
				name := string(m[1])
				if names[name] || notFunctions[name] || strings.HasSuffix(name, "_fn") || strings.HasSuffix(name, "_function") || strings.HasSuffix(name, "_function_c") {
					continue
				}
				names[name] = true
				if !known[name] {
					t.Errorf("%s declares %s, which spec/mpi.json does not have", mpicc, name)
				}
				if headerDeviates[mpicc+" "+name] == "" {
					fmt.Fprintf(&text, "#define HAVE_%s 1\n", name)
				}
			}
			if len(names) < 350 {
				t.Fatalf("only %d functions found in the header", len(names))
			}
			top, err := filepath.Abs("../..")
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&text, "#include \"%s/c/test/prototypes.gen.h\"\n", top)
			if err := os.WriteFile(source, []byte(text.String()), 0o644); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.Command(mpicc, "-w", "-c", "-o", filepath.Join(dir, "p.o"), source).CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", mpicc, err, out)
			}
		})
	}
}

// TestNewIn41 names what MPI 4.1 added (annex B.1.1): no library of this machine
// may have them yet, so nothing else would miss them.
func TestNewIn41(t *testing.T) {
	a := load(t)
	have := map[string]bool{}
	for i := range a.calls {
		have[a.calls[i].Name] = true
	}
	for _, name := range strings.Fields(`
		Buffer_flush Buffer_iflush Comm_attach_buffer Comm_attach_buffer_c Comm_detach_buffer Comm_detach_buffer_c
		Comm_flush_buffer Comm_iflush_buffer Get_hw_resource_info Remove_error_class Remove_error_code
		Remove_error_string Request_get_status_all Request_get_status_any Request_get_status_some
		Session_attach_buffer Session_attach_buffer_c Session_detach_buffer Session_detach_buffer_c
		Session_flush_buffer Session_iflush_buffer Status_get_error Status_get_source Status_get_tag
		Status_set_error Status_set_source Status_set_tag Type_get_value_index`) {
		if !have["MPI_"+name] {
			t.Errorf("MPI_%s is missing in spec/mpi.json", name)
		}
	}
}

func TestCountsRefusals(t *testing.T) {
	for name, list := range map[string][][2]string{
		"is at most":      {{"Eager", "x"}},
		"needs a meaning": {{"eager", ""}},
		"stands twice":    {{"eager", "x"}, {"eager", "y"}},
	} {
		c := &counts{}
		text, _ := json.Marshal(map[string]any{"Groups": []map[string]any{{"Name": "g", "Doc": "d", "Counts": list}}})
		if err := json.Unmarshal(text, c); err != nil {
			t.Fatal(err)
		}
		if err := c.check(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want an error with %q", err, name)
		}
	}
}
