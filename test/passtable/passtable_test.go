package passtable

import (
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"testing"
)

// counts are calls, or bytes, by function name without MPI_.
type counts map[string]int64

// expectation is what the report must say of one rank.
type expectation struct {
	calls    counts
	bytes    counts    // of some functions
	peers    []peer    // of some peers, all four numbers
	requests *requests // all five numbers
	current  string    // the function it died in, without MPI_
}

// row is one line of the table: a program, how it is run, what the report says.
type row struct {
	name    string // of the subtest
	what    string // in the table
	program string // below test/programs
	flags   []string
	args    []string
	ranks   int
	lacks   map[string]*reason // MPIs that cannot run it, by id

	wrap   []string // goes before mpirun
	before string   // shell commands in each rank before the program
	env    []string // of every run; $DIR is the directory of the run
	front  string   // another library preloaded before the shim
	behind string   // ... after it

	noSharedMemory  bool // /dev/shm is full
	defaultSegments bool // no MPITRACE_SEGMENT_DIR
	plain           bool // no MPITRACE_ variable at all
	killed          bool // the result has to be collected
	dies            bool // the exit status need not be 0
	loose           bool // further functions may have been called
	nothing         bool // there is nothing to report
	warning         string

	want  []expectation // by rank; the last one is that of all further ranks
	check func(h *harness, rep *report) []string
}

// result is how a row went on one MPI.
type result struct {
	reason string // why it cannot run, or empty
	calls  int64  // calls that were checked, without those that the program noted
	loose  bool
	failed bool
}

func TestPassTable(t *testing.T) {
	h := newHarness(t)
	results := map[string]map[string]result{}
	var titles []string
	for _, m := range families() {
		results[m.Name] = map[string]result{}
		t.Run(m.Name, func(t *testing.T) {
			m.require(t)
			for _, r := range allRows() {
				t.Run(r.name, func(t *testing.T) {
					results[m.Name][r.name] = h.try(t, m, &r)
				})
			}
		})
		titles = append(titles, m.title)
	}
	if *writeTable {
		if err := saveTable(titles, results); err != nil {
			t.Error(err)
		}
	}
}

// nativeRuns is how often a program that dies may be run again without the shim
// until it ends as it did with it: of several ranks that die, a launcher reports
// the one that it happens to see first.
const nativeRuns = 8

// try runs one row on one MPI.
func (h *harness) try(t *testing.T, m *mpi, r *row) result {
	if why := r.lacks[m.Name]; why != nil {
		if err := why.holds(h, m); err != nil {
			t.Errorf("%s: the reason %q is not true: %v", r.name, why.text, err)
		}
		return result{reason: why.text, failed: t.Failed()}
	}
	plain, err := h.run(m, r, native)
	if err != nil {
		t.Errorf("without the shim: %v", err)
		return result{failed: true}
	}
	if plain.status != 0 && !r.dies {
		t.Errorf("without the shim: exit status %d; stderr:\n%s", plain.status, plain.stderr)
		return result{failed: true}
	}
	shimmed, err := h.run(m, r, observed)
	if err != nil {
		t.Errorf("with the shim: %v", err)
		return result{failed: true}
	}
	found := differences(plain, shimmed)
	for again := 0; len(found) > 0 && r.dies && again < nativeRuns; again++ {
		if plain, err = h.run(m, r, native); err != nil {
			t.Errorf("without the shim: %v", err)
			return result{failed: true}
		}
		if again == nativeRuns/2 { // what was seen may be as rare natively
			if shimmed, err = h.run(m, r, observed); err != nil {
				t.Errorf("with the shim: %v", err)
				return result{failed: true}
			}
		}
		found = differences(plain, shimmed)
	}
	fail(t, found)
	fail(t, r.warnings(shimmed))
	checked := h.checkReport(t, r, shimmed)
	return result{calls: checked, loose: r.loose, failed: t.Failed()}
}

// fail makes each problem an error of the test.
func fail(t *testing.T, problems []string) {
	t.Helper()
	for _, p := range problems {
		t.Error(p)
	}
}

// differences compares what the user sees of two runs.
func differences(plain, shimmed *outcome) []string {
	var found []string
	if plain.status != shimmed.status {
		found = append(found, fmt.Sprintf("exit status %d without, %d with the preloaded library; stderr:\n%s",
			plain.status, shimmed.status, shimmed.stderr))
	}
	if plain.stdout != shimmed.stdout {
		found = append(found, fmt.Sprintf("stdout differs; without:\n%s\nwith the preloaded library:\n%s\nstderr:\n%s",
			plain.stdout, shimmed.stdout, shimmed.stderr))
	}
	if a, b := plain.lines("tool: "), shimmed.lines("tool: "); !slices.Equal(a, b) {
		found = append(found, fmt.Sprintf("the other tool counts differently; without: %q, with the preloaded library: %q", a, b))
	}
	return found
}

// warnings requires the one line of the shim that the row expects, or none.
func (r *row) warnings(shimmed *outcome) []string {
	lines := shimmed.lines("mpitrace")
	switch {
	case r.warning == "" && len(lines) > 0:
		return []string{fmt.Sprintf("the shim says %q; want nothing", lines)}
	case r.warning != "" && (len(lines) != 1 || !strings.Contains(lines[0], r.warning)):
		return []string{fmt.Sprintf("the shim says %q; want one line with %q", lines, r.warning)}
	}
	return nil
}

// checkReport compares the report with what the row expects and gives the
// number of calls that it compared.
func (h *harness) checkReport(t *testing.T, r *row, o *outcome) int64 {
	if r.nothing {
		return 0
	}
	rep, err := h.report(r, o)
	if err != nil {
		t.Error(err)
		return 0
	}
	var checked int64
	for rank := range r.ranks {
		want := r.want[min(rank, len(r.want)-1)]
		if want.calls == nil {
			if rep.rank(rank) != nil {
				t.Errorf("rank %d is in the report, although it ran without the shim", rank)
			}
			continue
		}
		all, err := o.noted(rank, want.calls)
		if err != nil {
			t.Error(err)
			continue
		}
		for _, calls := range want.calls {
			checked += calls
		}
		want.calls = all
		for _, problem := range want.compare(rep.rank(rank), r.loose) {
			t.Errorf("rank %d: %s", rank, problem)
		}
	}
	if r.check != nil {
		fail(t, r.check(h, rep))
	}
	if left := h.leftovers(o); len(left) > 0 {
		t.Errorf("segments are left behind: %q", left)
	}
	return checked
}

// compare lists what the report says otherwise of a rank.
func (want *expectation) compare(got *rankReport, loose bool) []string {
	if got == nil {
		return []string{"is not in the report"}
	}
	problems := want.calls.compare(got.calls(), "calls", loose)
	problems = append(problems, want.bytes.compare(got.bytes(), "bytes", true)...)
	for _, p := range want.peers {
		if i := slices.IndexFunc(got.Peers, func(q peer) bool { return q.Rank == p.Rank }); i < 0 {
			problems = append(problems, fmt.Sprintf("no traffic with rank %d, want %+v", p.Rank, p))
		} else if got.Peers[i] != p {
			problems = append(problems, fmt.Sprintf("traffic with rank %d: got %+v, want %+v", p.Rank, got.Peers[i], p))
		}
	}
	if want.requests != nil && *want.requests != got.Requests {
		problems = append(problems, fmt.Sprintf("requests: got %+v, want %+v", got.Requests, *want.requests))
	}
	if want.current != "" && (len(got.Current) != 1 || got.Current[0].Name != "MPI_"+want.current) {
		problems = append(problems, fmt.Sprintf("calls in progress: got %+v, want MPI_%s", got.Current, want.current))
	}
	return problems
}

// compare lists the functions whose number is another; unless loose, those too
// that are not expected at all.
func (want counts) compare(got counts, unit string, loose bool) []string {
	names := maps.Clone(want)
	if !loose {
		maps.Copy(names, got)
	}
	var problems []string
	for name := range names {
		if want[name] != got[name] {
			problems = append(problems, fmt.Sprintf("MPI_%s: got %d %s, want %d", name, got[name], unit, want[name]))
		}
	}
	sort.Strings(problems)
	return problems
}

// TestNegativeControl proves that the comparison sees wrong data: each kind of
// call is spoilt in turn by wrong.c.
func TestNegativeControl(t *testing.T) {
	h := newHarness(t)
	for _, m := range families() {
		t.Run(m.Name, func(t *testing.T) {
			m.require(t)
			r := row{program: "wrong_target.c", ranks: 2}
			plain, err := h.run(m, &r, native)
			if err != nil {
				t.Fatal(err)
			}
			for _, call := range []string{"none", "send", "recv", "bcast", "allreduce", "alltoall", "put"} {
				t.Run(call, func(t *testing.T) {
					r.env = []string{"WRONG=" + call}
					spoilt, err := h.run(m, &r, wrong)
					if err != nil {
						t.Fatal(err)
					}
					found := differences(plain, spoilt)
					if seen := len(found) > 0; seen != (call != "none") {
						t.Errorf("difference seen: %v; %s", seen, strings.Join(found, "\n"))
					}
				})
			}
		})
	}
}
