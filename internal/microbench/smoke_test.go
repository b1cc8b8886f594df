package microbench

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mpitrace/mpitrace/test/mpijob"
)

// need skips a test for want of an MPI's C compiler and launcher; in CI that
// is a failure.
func need(t *testing.T, m mpijob.MPI) {
	t.Helper()
	mpijob.Need(t, mpijob.Tools("gcc libopenmpi-dev openmpi-bin libmpich-dev mpich", "gcc", m.CC, m.Launcher))
}

// yielding is the text for --mpirun under which waiting ranks give their
// processor away, for the machine may be busy. libraries are preloaded into
// the ranks, and env is set there.
func yielding(t *testing.T, m mpijob.MPI, libraries []string, env ...string) string {
	t.Helper()
	words := []string{m.Launcher}
	export := func(name, value string) {
		if m.Name == "mpich" {
			words = append(words, "-genv", name, value)
		} else {
			words = append(words, "-x", name+"="+value)
		}
	}
	if m.Name == "mpich" {
		libraries = append(libraries, library(t, "cc", "../../test/mpijob/ucxnap.c"))
	} else {
		words = append(words, "--bind-to", "none", "--oversubscribe", "--mca", "mpi_yield_when_idle", "1")
	}
	if len(libraries) > 0 {
		export("LD_PRELOAD", strings.Join(libraries, ":"))
	}
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		export(name, value)
	}
	return strings.Join(words, " ")
}

// library compiles a source into a library to preload.
func library(t *testing.T, compiler, file string) string {
	t.Helper()
	target := filepath.Join(t.TempDir(), strings.TrimSuffix(filepath.Base(file), ".c")+".so")
	if err := mpijob.Compile(compiler, target, "-O2", "-fPIC", "-shared", file, "-ldl"); err != nil {
		t.Fatal(err)
	}
	return target
}

// cache is one directory of programs for all tests.
var cache string

func TestMain(m *testing.M) {
	var err error
	if cache, err = os.MkdirTemp("", "mpitrace-microbench-"); err != nil {
		panic(err)
	}
	status := m.Run()
	os.RemoveAll(cache)
	os.Exit(status)
}

// run is Run with what the tests have in common.
func run(t *testing.T, o Options) *Report {
	t.Helper()
	o.Quick, o.Reps, o.Cache, o.Timeout = true, 1, cache, 2*time.Minute
	report, err := Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// TestSmoke builds and runs every program natively; no time is judged.
func TestSmoke(t *testing.T) {
	for _, m := range mpijob.All {
		t.Run(m.Name, func(t *testing.T) {
			need(t, m)
			launcher := yielding(t, m, nil)
			for _, b := range Suite {
				ranks := 2
				if b.Ranks > 2 {
					ranks = 4
				}
				t.Run(b.Name, func(t *testing.T) {
					report := run(t, Options{Names: []string{b.Name}, MPIRun: launcher, CC: m.CC, Ranks: ranks})
					checkResult(t, b, report.Benchmarks[0])
				})
			}
		})
	}
}

// checkResult: every metric was measured on verified data, and is what it
// can be.
func checkResult(t *testing.T, b *Benchmark, res *Result) {
	t.Helper()
	if res.Error != "" || res.Verified == 0 {
		t.Fatalf("%d messages verified, error %q", res.Verified, res.Error)
	}
	for _, m := range b.Metrics {
		found := false
		for _, row := range res.Rows {
			found = found || row.Metric == m.Key
			if row.Metric == m.Key && row.Native.Median < 0 && m.Key != "overlap_pct" && m.Key != "beyond_us" {
				t.Errorf("%s %s is %v", dimsID(row.Dims), m.Key, row.Native.Median)
			}
		}
		if !found && !(b.Name == "registration" && len(res.Notes) > 1) {
			t.Errorf("no row of %s", m.Key)
		}
	}
	for _, row := range res.Rows {
		checkArrival(t, row)
	}
}

// checkArrival: nobody leaves an alltoall, allgather or allreduce before the
// last rank has come, but for the error of the clocks.
func checkArrival(t *testing.T, row *Row) {
	t.Helper()
	for _, c := range row.Context {
		if row.Metric == "beyond_us" && c.Key == "clock_error_us" && row.Native.Median < -2*c.Median {
			t.Errorf("%s: the ranks leave %v us before the last one comes; the clocks are said to be right within %v us",
				dimsID(row.Dims), -row.Native.Median, c.Median)
		}
	}
}

// TestPreloaded: the shim sees the programs, and the table has both sides.
func TestPreloaded(t *testing.T) {
	shim, err := filepath.Abs("../../build/libmpishim.so")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(shim); err != nil {
		mpijob.Need(t, mpijob.Missing(shim, "make build"))
	}
	for _, m := range mpijob.All {
		t.Run(m.Name, func(t *testing.T) {
			need(t, m)
			report := run(t, Options{Names: []string{"latency", "onesided"}, MPIRun: yielding(t, m, nil), CC: m.CC, Ranks: 2, Shim: shim})
			for _, res := range report.Benchmarks {
				if res.Error != "" {
					t.Fatal(res.Error)
				}
				for _, row := range res.Rows {
					if row.Native == nil || row.Preloaded == nil || row.Ratio == nil {
						t.Errorf("%s %s: %v, %v, %v", res.Name, dimsID(row.Dims), row.Native, row.Preloaded, row.Ratio)
					}
				}
			}
		})
	}
}

// TestActing: act mode is a column of its own, with the data checked as ever; a
// job that did not act is an error.
func TestActing(t *testing.T) {
	command, err := filepath.Abs("../../build/mpitrace")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(command); err != nil {
		mpijob.Need(t, mpijob.Missing(command, "make build"))
	}
	for _, m := range mpijob.All {
		t.Run(m.Name, func(t *testing.T) {
			need(t, m)
			o := Options{
				Names: []string{"overlap-send"}, MPIRun: yielding(t, m, nil), CC: m.CC, Ranks: 2,
				Settings: map[string]string{"peer": "sleep", "compute": "cpu", "methods": "sweep"},
				Act:      []string{"rndv=read", "rndv=write"}, ActRun: []string{command, "run"},
			}
			res := run(t, o).Benchmarks[0]
			if res.Error != "" || len(res.Rows) != 2 {
				t.Fatalf("%d rows, error %q", len(res.Rows), res.Error)
			}
			for _, row := range res.Rows {
				if len(row.Act) != 2 || row.Act[0].Ratio == nil || row.Act[1].Sample == nil || row.Preloaded != nil {
					t.Errorf("%s: %+v", dimsID(row.Dims), row)
				}
			}
			o.Act, o.ActRun = []string{"auto"}, append(o.ActRun, "--act-runtime", "/nonexistent")
			if res := run(t, o).Benchmarks[0]; !strings.Contains(res.Error, "act mode was off") {
				t.Errorf("without the runtime: %q", res.Error)
			}
		})
	}
}

// TestHangingEnd: a run that was measured to its end counts, though it does not
// end; the report says so.
func TestHangingEnd(t *testing.T) {
	m := mpijob.All[0]
	need(t, m)
	source := filepath.Join(t.TempDir(), "hang.c")
	text := "#include <unistd.h>\nint MPI_Finalize(void) { for (;;) pause(); }\n"
	if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	o := Options{
		Names: []string{"registration"}, MPIRun: yielding(t, m, []string{library(t, "cc", source)}), CC: m.CC, Ranks: 2,
		Quick: true, Reps: 1, Cache: cache, // the limit of a job is minutes
	}
	report, err := Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	res := report.Benchmarks[0]
	if res.Error != "" || len(res.Rows) == 0 || !strings.Contains(strings.Join(res.Notes, "\n"), "MPI_Finalize hung") {
		t.Errorf("%d rows, notes %q, error %q", len(res.Rows), res.Notes, res.Error)
	}
}

// TestWrongData is the negative control: with a library that spoils one byte
// of every 7th call, every program ends with one line that says so.
func TestWrongData(t *testing.T) {
	spoilt := map[string]string{
		"arrival": "alltoall", "late": "alltoall", "collectives": "bcast", "onesided": "put",
		"registration": "", // moves no data
	}
	for _, m := range mpijob.All {
		t.Run(m.Name, func(t *testing.T) {
			need(t, m)
			wrong := library(t, m.CC, "../../test/programs/wrong.c")
			for _, b := range Suite {
				kind, ok := spoilt[b.Name]
				if !ok {
					kind = "send"
				}
				if kind == "" {
					continue
				}
				launcher := yielding(t, m, []string{wrong}, "WRONG="+kind)
				res := run(t, Options{Names: []string{b.Name}, MPIRun: launcher, CC: m.CC, Ranks: 2}).Benchmarks[0]
				if !strings.Contains(res.Error, "bench "+b.Name+": rank ") || !strings.Contains(res.Error, "wrong data") {
					t.Errorf("%s with wrong data (%s): %q", b.Name, kind, res.Error)
				}
			}
		})
	}
}

// TestRanksOfAnotherMPI: a program that is started as so many single
// processes says so.
func TestRanksOfAnotherMPI(t *testing.T) {
	for _, m := range mpijob.All {
		need(t, m)
	}
	res := run(t, Options{Names: []string{"latency"}, MPIRun: yielding(t, mpijob.All[1], nil), CC: mpijob.All[0].CC, Ranks: 2}).Benchmarks[0]
	if !strings.Contains(res.Error, "belong to one MPI") {
		t.Errorf("Open MPI's program under MPICH's launcher: %q", res.Error)
	}
}

// TestProgramsAreClean: no compiler warnings with either MPI's header.
func TestProgramsAreClean(t *testing.T) {
	for _, m := range mpijob.All {
		t.Run(m.Name, func(t *testing.T) {
			need(t, m)
			files, err := filepath.Glob("programs/*.c")
			if err != nil || len(files) == 0 {
				t.Fatal(files, err)
			}
			for _, file := range files {
				args := append([]string{"-Werror", "-Wshadow", "-c", "-o", "/dev/null"}, compileFlags...)
				if out, err := exec.Command(m.CC, append(args, file)...).CombinedOutput(); err != nil {
					t.Errorf("%s: %v\n%s", file, err, out)
				}
			}
		})
	}
}
