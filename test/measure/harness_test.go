package measure

import (
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mpitrace/mpitrace/arrival"
	"github.com/mpitrace/mpitrace/segment"
	"github.com/mpitrace/mpitrace/test/mpijob"
)

// limit bounds one job; it only serves to end one that hangs.
const limit = 5 * time.Minute

// attempts is how often a comparison with moments may be tried: the scheduler
// may take the processor away between two moments that should be one.
const attempts = 3

// long asks for more and longer jobs.
var long = flag.Bool("long", false, "also the heavier jobs")

// Paths of what is tested, made by TestMain.
var shim, scratch string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(mpijob.Main(m, prepare))
}

func prepare(dir string) (err error) {
	scratch = dir
	shim, err = mpijob.CopyBuilt(dir, "libmpishim.so")
	return err
}

// mpi is an MPI to test with.
type mpi struct{ mpijob.MPI }

var mpis = []mpi{{mpijob.All[0]}, {mpijob.All[1]}}

// eachMPI runs a test on both.
func eachMPI(t *testing.T, f func(t *testing.T, m mpi)) {
	for _, m := range mpis {
		t.Run(m.Name, func(t *testing.T) { f(t, m) })
	}
}

// build compiles programs/NAME.c, once for each MPI.
func (m mpi) build(t *testing.T, name string) string {
	t.Helper()
	if shim == "" {
		mpijob.Need(t, mpijob.Missing("build/libmpishim.so", "make build"))
	}
	mpijob.Need(t, m.Missing())
	path := filepath.Join(scratch, name+"."+m.Name)
	if _, err := os.Stat(path); err == nil {
		return path
	}
	source := filepath.Join("programs", name+".c")
	if err := mpijob.Compile(m.CC, path, "-std=gnu11", "-O2", "-g", "-Wall", "-Werror", "-Wno-stringop-overflow", source, "-pthread", "-lm", "-Wl,-z,now"); err != nil {
		t.Fatal(err)
	}
	return path
}

// preloaded is what has to be preloaded behind the shim, by MPI.
var preloaded = map[string][]string{}

// helpers is what has to be preloaded for this MPI to share processors.
func (m mpi) helpers(t *testing.T) []string {
	t.Helper()
	if list, ok := preloaded[m.Name]; ok {
		return list
	}
	t.Chdir("../..")
	list, err := m.Helpers(scratch)
	t.Chdir("test/measure")
	if err != nil {
		t.Fatal(err)
	}
	preloaded[m.Name] = list
	return list
}

// job is one run of a program.
type job struct {
	program string
	args    []string
	ranks   int
	env     []string
	dies    bool
}

// ran is what is left of a run.
type ran struct {
	dir      string // with the ledgers; the result is in dir/out
	segments string // segments of processes that were killed
	ledger   ledger
}

// out is the result directory.
func (r ran) out() string { return filepath.Join(r.dir, "out") }

// run runs a program preloaded by the shim and reads its ledgers.
func (m mpi) run(t *testing.T, j job) ran {
	t.Helper()
	program := m.build(t, j.program)
	r := ran{dir: t.TempDir()}
	r.segments = filepath.Join(r.dir, "segments")
	env := append([]string{"MPITRACE_JOB_ID=truth", "MPITRACE_OUTPUT=" + r.out(), "MPITRACE_SEGMENT_DIR=" + r.segments}, j.env...)
	if err := os.Mkdir(r.segments, 0o700); err != nil {
		t.Fatal(err)
	}
	got, err := mpijob.Run(mpijob.Job{
		MPI: m.MPI, Ranks: j.ranks, Argv: append([]string{program}, j.args...), Dir: r.dir,
		Preload: append([]string{shim}, m.helpers(t)...), Env: env, Timeout: limit,
	})
	if err != nil {
		t.Fatal(err)
	}
	if got.TimedOut || got.Status != 0 && !j.dies {
		t.Fatalf("%s: status %d, over its limit %v\n%s\n%s", j.program, got.Status, got.TimedOut, got.Stdout, got.Stderr)
	}
	if strings.Contains(string(got.Stderr), "mpitrace:") && !j.dies && !strings.Contains(string(got.Stderr), "the trace of rank") {
		t.Errorf("the shim complains:\n%s", got.Stderr)
	}
	r.ledger = readLedger(t, r.dir)
	return r
}

// walk reads the segments of a result, which must be whole.
func (r ran) walk(t *testing.T, visit func(*segment.Segment)) {
	t.Helper()
	result, err := segment.WalkResult(r.out(), func(s *segment.Segment) error { visit(s); return nil })
	if err != nil {
		t.Fatal(err)
	}
	if len(result.Problems) > 0 {
		t.Errorf("problems of the result: %q", result.Problems)
	}
}

// analyse is what package arrival says of a result, and the ids of the named
// communicators.
func (r ran) analyse(t *testing.T, options arrival.Options) (*arrival.Result, map[string]uint64) {
	t.Helper()
	a := arrival.New(options)
	comms := map[string]uint64{}
	processes := map[segment.Process]*segment.Segment{}
	r.walk(t, func(s *segment.Segment) {
		s = s.BeyondTrace(r.out())
		a.Add(s)
		processes[s.Header.Process()] = s
		for _, c := range s.Comms() {
			if name := segment.Text(c.Name[:]); name != "" {
				comms[name] = c.ID
			}
		}
	})
	problems, err := segment.WalkTrace(r.out(), func(head segment.RawTraceFile, events []segment.RawEvent) error {
		if s := processes[head.Process()]; s != nil {
			a.AddEvents(s, events)
		}
		return nil
	})
	if err != nil || len(problems) > 0 {
		t.Errorf("the trace: %q, %v", problems, err)
	}
	return a.Result(), comms
}

// line is one line of a ledger, without the word "ledger".
type line []string

// number is field i.
func (l line) number(t *testing.T, i int) float64 {
	t.Helper()
	if i >= len(l) {
		t.Fatalf("ledger line %q has no field %d", l, i)
	}
	v, err := strconv.ParseFloat(l[i], 64)
	if err != nil {
		t.Fatalf("ledger line %q: %v", l, err)
	}
	return v
}

// ledger is the lines of all ranks.
type ledger map[int][]line

func readLedger(t *testing.T, dir string) ledger {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "ledger.*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no ledgers in %s: %v", dir, err)
	}
	out := ledger{}
	for _, file := range files {
		rank, err := strconv.Atoi(strings.TrimPrefix(filepath.Ext(file), "."))
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, words := range strings.Split(strings.TrimSpace(string(text)), "\n") {
			if fields := strings.Fields(words); len(fields) > 1 && fields[0] == "ledger" {
				out[rank] = append(out[rank], fields[1:])
			}
		}
	}
	return out
}

// of is the lines of a rank that begin with a word.
func (l ledger) of(rank int, word string) (out []line) {
	for _, line := range l[rank] {
		if line[0] == word {
			out = append(out, line[1:])
		}
	}
	return out
}

// stampNS is what the two moments around a call cost at most.
func (l ledger) stampNS(t *testing.T) float64 {
	t.Helper()
	most := 0.0
	for rank := range l {
		for _, line := range l.of(rank, "stamp") {
			most = max(most, 2*line.number(t, 0))
		}
	}
	return most
}

// deviation is how far figures are from the ledger.
type deviation struct {
	subject string              // what is compared now
	found   map[string][]string // by subject: what is too far off
	most    float64             // largest share seen of the figures larger than their slack
}

// about begins a subject.
func (d *deviation) about(subject string) { d.subject = subject }

func (d *deviation) add(format string, args ...any) {
	if d.found == nil {
		d.found = map[string][]string{}
	}
	d.found[d.subject] = append(d.found[d.subject], fmt.Sprintf(format, args...))
}

// holds tells whether nothing is too far off of the subject. Only then is a false
// ledger one to be found out: what has gone wrong may look like it.
func (d *deviation) holds() bool { return len(d.found[d.subject]) == 0 }

// near compares a figure with the ledger: it may be off by a share of it, or
// by slack.
func (d *deviation) near(what string, got, want, share, slack float64) {
	off := math.Abs(got - want)
	if !(off <= math.Max(share*math.Abs(want), slack)) {
		d.add("%s is %.0f, the ledger says %.0f (off by %.2f %%, slack %.0f)", what, got, want, 100*off/math.Max(1, math.Abs(want)), slack)
	} else if share*math.Abs(want) > slack {
		d.most = max(d.most, off/math.Abs(want))
	}
}

// equal compares what must be the same.
func (d *deviation) equal(what string, got, want any) {
	if fmt.Sprint(got) != fmt.Sprint(want) {
		d.add("%s: %v, the ledger says %v", what, got, want)
	}
}

// text is what was found of the subjects.
func (d *deviation) text(subjects []string) string {
	var out []string
	for _, s := range subjects {
		for _, f := range d.found[s] {
			out = append(out, s+": "+f)
		}
	}
	return strings.Join(out, "\n")
}

// try repeats a comparison with moments until each subject has held once,
// attempts times at most.
func try(t *testing.T, once func() deviation) {
	t.Helper()
	var failing []string
	for n := 1; ; n++ {
		d := once()
		if now := slices.Sorted(maps.Keys(d.found)); n == 1 {
			failing = now
		} else {
			failing = slices.DeleteFunc(failing, func(s string) bool { return !slices.Contains(now, s) })
		}
		if len(failing) == 0 {
			t.Logf("largest deviation of the last attempt, %d: %.3f %%", n, 100*d.most)
			return
		}
		if n == attempts || t.Failed() {
			t.Fatalf("attempt %d:\n%s", n, d.text(failing))
		}
		t.Logf("attempt %d:\n%s", n, d.text(failing))
	}
}

// once demands that a comparison without moments holds at once.
func once(t *testing.T, d *deviation) {
	t.Helper()
	if len(d.found) > 0 {
		t.Error(d.text(slices.Sorted(maps.Keys(d.found))))
	}
}
