package passtable

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// markedLine finds the line of the source that calls MPI and has the comment
// "site: " and the name.
func (h *harness) markedLine(program, name string) (int, error) {
	file, err := os.Open(filepath.Join(h.programs, program))
	if err != nil {
		return 0, err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for n := 1; lines.Scan(); n++ {
		code, mark, found := strings.Cut(lines.Text(), "site: ")
		if found && strings.HasPrefix(mark, name) && strings.Contains(code, "MPI_") {
			return n, nil
		}
	}
	return 0, fmt.Errorf("%s: no line is marked %q", program, name)
}

// sitesAt requires one site of the function at each marked line, with its calls.
func sitesAt(program, function string, marks map[string]int64) func(*harness, *report) []string {
	return func(h *harness, rep *report) []string {
		var problems []string
		for mark, calls := range marks {
			line, err := h.markedLine(program, mark)
			if err != nil {
				problems = append(problems, err.Error())
				continue
			}
			var got int64
			for _, s := range rep.Sites {
				if s.Function.Name == function && filepath.Base(s.File) == program && s.Line == line {
					got += s.Calls
				}
			}
			if got != calls {
				problems = append(problems, fmt.Sprintf("%s at %s:%d (%s): got %d calls, want %d; sites: %s",
					function, program, line, mark, got, calls, rep.sitesOf(function)))
			}
		}
		return problems
	}
}

// sitesOf prints the sites of a function for a message.
func (rep *report) sitesOf(function string) string {
	var b strings.Builder
	for _, s := range rep.Sites {
		if s.Function.Name == function {
			fmt.Fprintf(&b, "\n\t%s+%#x %s %s:%d, %d calls", s.Module, s.Offset, s.Symbol, s.File, s.Line, s.Calls)
		}
	}
	return b.String()
}

// strippedSites requires three sends at three offsets of the program itself.
func strippedSites(_ *harness, rep *report) []string {
	calls := map[int64]bool{}
	for _, s := range rep.Sites {
		if s.Function.Name == "MPI_Send" && strings.HasPrefix(filepath.Base(s.Module), "sites.c") && s.Offset > 0 {
			calls[s.Calls] = true
		}
	}
	if len(calls) != 3 || !calls[2] || !calls[3] || !calls[4] {
		return []string{"sends of 2, 3 and 4 calls by module and offset: got " + rep.sitesOf("MPI_Send")}
	}
	return nil
}

// nestedStack requires the callers of the send below two functions, innermost
// first.
func nestedStack(_ *harness, rep *report) []string {
	for _, s := range rep.Sites {
		if s.Function.Name != "MPI_Send" || s.Calls != 4 {
			continue
		}
		stack := strings.Join(s.Stack, " < ")
		outer := strings.Index(stack, "outer")
		if outer < 0 || !strings.Contains(stack[outer:], "main") {
			return []string{fmt.Sprintf("stack of the nested send: got %q, want outer below main", stack)}
		}
		return nil
	}
	return []string{"no site of the nested send: " + rep.sitesOf("MPI_Send")}
}

func siteRows() []row {
	c := []expectation{
		{calls: counts{"Init": 1, "Comm_rank": 1, "Send": 9, "Finalize": 1}},
		{calls: counts{"Init": 1, "Comm_rank": 1, "Recv": 9, "Finalize": 1}},
	}
	fortran := []expectation{
		{calls: counts{"Init": 1, "Comm_rank": 1, "Send": 5, "Finalize": 1}},
		{calls: counts{"Init": 1, "Comm_rank": 1, "Recv": 5, "Finalize": 1}},
	}
	marks := map[string]int64{"first": 3, "second": 2, "nested": 4}
	two := map[string]int64{"first": 3, "second": 2}
	return []row{
		{
			name: "sites_pie", what: "call sites: sends on three lines of C, position independent", program: "sites.c",
			flags: []string{"-pie", "-fPIE"}, ranks: 2, want: c, check: sitesAt("sites.c", "MPI_Send", marks),
		},
		{
			name: "sites_no_pie", what: "... at a fixed address", program: "sites.c",
			flags: []string{"-no-pie", "-fno-pie"}, ranks: 2, want: c, check: sitesAt("sites.c", "MPI_Send", marks),
		},
		{
			name: "sites_stripped", what: "... stripped: module and offset", program: "sites.c",
			flags: []string{"-s"}, ranks: 2, want: c, check: strippedSites,
		},
		{
			name: "sites_mpif.h", what: "... sends on two lines, `include 'mpif.h'`", program: "sites_mpif.f",
			ranks: 2, want: fortran, check: sitesAt("sites_mpif.f", "MPI_Send", two),
		},
		{
			name: "sites_use_mpi", what: "... `use mpi`", program: "sites_use.f90",
			ranks: 2, want: fortran, check: sitesAt("sites_use.f90", "MPI_Send", two),
		},
		{
			name: "sites_use_mpi_f08", what: "... `use mpi_f08`", program: "sites_f08.f90",
			ranks: 2, want: fortran, check: sitesAt("sites_f08.f90", "MPI_Send", two),
		},
		{
			name: "stack", what: "call stacks, `--stack=4`", program: "sites.c", env: []string{"MPITRACE_STACK=4"},
			ranks: 2, want: c, check: nestedStack,
		},
	}
}
