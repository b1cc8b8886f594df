package agent_test

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mpitrace/mpitrace/exporter"
	"github.com/mpitrace/mpitrace/segment"
	"github.com/mpitrace/mpitrace/test/mpijob"
)

// same compares times, which are stored in nanoseconds on one side and in
// floating seconds on the other.
func same(a, b float64) bool { return math.Abs(a-b) <= 1e-9+1e-12*math.Abs(b) }

// TestPrometheus: two jobs at the same time, one of each MPI, read by a real
// Prometheus while they run; in the end it has the totals of their reports.
func TestPrometheus(t *testing.T) {
	s := newSite(t)
	s.scrape(t)
	dirs, seen := []string{t.TempDir(), t.TempDir()}, filepath.Join(t.TempDir(), "seen")
	// one rank works so long that the other is there before, though they share processors
	first := s.begin(t, mpijob.All[0], dirs[0], 2, "100", "40000", seen)
	second := s.begin(t, mpijob.All[1], dirs[1], 2, "80", "48000", seen)
	eventually(t, "Prometheus sees two jobs run", func() bool {
		n, _ := s.query(t, `mpitrace_agent_jobs{state="running"}`)
		return n == 2
	})
	if err := os.WriteFile(seen, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	finish(t, first)
	finish(t, second)
	eventually(t, "Prometheus sees them ended", func() bool {
		n, _ := s.query(t, `mpitrace_agent_jobs{state="ended"}`)
		return n == 2
	})
	nodeCalls := 0.0
	for _, dir := range dirs {
		nodeCalls += s.compare(t, report(t, dir))
	}
	if got, _ := s.query(t, "sum(mpitrace_node_calls_total)"); got != nodeCalls {
		t.Errorf("the node has %v calls, its jobs %v", got, nodeCalls)
	}
	// A counter that went back would show as a reset.
	for _, counter := range []string{"job_calls", "job_operation_seconds", "job_rank_seconds", "job_overhead_seconds", "node_calls", "node_rank_seconds"} {
		if resets, ok := s.query(t, "sum(resets(mpitrace_"+counter+"_total[10m]))"); !ok || resets != 0 {
			t.Errorf("%v resets of %s (%v)", resets, counter, ok)
		}
	}
	if failed, ok := s.query(t, `sum(mpitrace_agent_segments_refused_total) + sum(mpitrace_agent_errors_total)`); !ok || failed != 0 {
		t.Errorf("%v refusals and errors", failed)
	}
	late, ok := s.query(t, fmt.Sprintf(`mpitrace_rank_late_ratio{run=%q,rank="1"}`, report(t, dirs[0]).Job.ID))
	if !ok || late < 0.9 {
		t.Errorf("the rank that works is late at %v of the reductions", late)
	}
	checkMetrics(t, get(s.page()))
}

// compare demands that Prometheus has the totals of a report, and returns the
// calls.
func (s *site) compare(t *testing.T, r result) float64 {
	t.Helper()
	run := fmt.Sprintf(`{run=%q}`, r.Job.ID)
	calls, bytes, times, wall, wait := map[string]float64{}, map[string]float64{}, map[string]float64{}, 0.0, 0.0
	all := 0.0
	for _, f := range r.Functions {
		call, ok := segment.CallByName(f.Name)
		if !ok {
			t.Fatalf("no function %s", f.Name)
		}
		op := exporter.Operation(call)
		calls[op] += float64(f.Calls)
		bytes[op] += float64(f.Bytes)
		times[op] += float64(f.Time) / 1e9
		all += float64(f.Calls)
	}
	for _, rank := range r.Ranks {
		wall += float64(rank.Wall) / 1e9
	}
	for _, a := range r.Arrivals {
		wait += a.Waiting.NS / 1e9
	}
	check := func(expression string, want float64, exact bool) {
		t.Helper()
		got, ok := s.query(t, expression)
		if !ok || exact && got != want || !same(got, want) && math.Abs(got-want) > 1e-6 {
			t.Errorf("%s is %v (%v), the report says %v", expression, got, ok, want)
		}
	}
	for op, n := range calls {
		by := fmt.Sprintf(`{run=%q,operation=%q}`, r.Job.ID, op)
		check("mpitrace_job_calls_total"+by, n, true)
		check("mpitrace_job_bytes_total"+by, bytes[op], true)
		check("mpitrace_job_operation_seconds_total"+by, times[op], false)
	}
	check("sum(mpitrace_job_calls_total"+run+")", all, true)
	check("mpitrace_job_mpi_seconds_total"+run, float64(r.Job.MPINS)/1e9, false)
	check("mpitrace_job_rank_seconds_total"+run, wall, false)
	check(fmt.Sprintf(`mpitrace_job_ranks{run=%q,state="finished"}`, r.Job.ID), float64(r.Job.Ranks), true)
	// The report holds its estimate to the counted time of each place (at most
	// what the calibration of a clock is off); the agent's is as it was sampled.
	if got, ok := s.query(t, "mpitrace_job_wait_seconds"+run); !ok || math.Abs(got-wait) > 0.01*wait {
		t.Errorf("%s waited for %v s (%v), the report says %v", r.Job.ID, got, ok, wait)
	}
	return all
}

// TestShortJobs: of jobs that last some tenths of a second, started one after
// the other, none is missed and nothing of any, whatever becomes of its files.
func TestShortJobs(t *testing.T) {
	const jobs = 12
	s := newSite(t)
	page, calls, shortest := "", 0.0, time.Hour
	for range jobs {
		dir, begin := t.TempDir(), time.Now()
		finish(t, s.begin(t, mpijob.All[0], dir, 2, "20", "100"))
		shortest = min(shortest, time.Since(begin))
		for _, f := range report(t, dir).Functions {
			calls += float64(f.Calls)
		}
	}
	eventually(t, "all jobs are shown as ended", func() bool {
		page = get(s.page())
		return strings.Contains(page, fmt.Sprintf("mpitrace_agent_jobs{state=\"ended\"} %d\n", jobs))
	})
	if left, err := filepath.Glob(s.base + "/*"); err != nil || len(left) > 0 {
		t.Errorf("left of the jobs: %v, %v", left, err)
	}
	for _, metric := range []string{"mpitrace_node_calls_total", "mpitrace_job_calls_total"} {
		if got := sum(t, page, metric); got != calls {
			t.Errorf("%s: %v, the reports say %v", metric, got, calls)
		}
	}
	t.Logf("the shortest of %d jobs took %v with its launcher", jobs, shortest)
}

// TestKilled: the figures of a job that is killed stay on the page.
func TestKilled(t *testing.T) {
	s := newSite(t)
	p := s.begin(t, mpijob.All[0], t.TempDir(), 2, "100000", "1000")
	eventually(t, "it makes calls", func() bool { return sum(t, get(s.page()), "mpitrace_job_calls_total") > 200 })
	p.Kill()
	_, _ = p.Wait()
	eventually(t, "its ranks are shown as dead", func() bool {
		return strings.Contains(get(s.page()), `state="died",step=""`) && strings.Contains(get(s.page()), `mpitrace_agent_jobs{state="ended"} 1`)
	})
	page := get(s.page())
	if died := sumWith(t, page, "mpitrace_job_ranks", `state="died"`); died != 2 {
		t.Errorf("%v ranks died, want 2", died)
	}
	if sum(t, page, "mpitrace_job_calls_total") <= 200 {
		t.Error("its calls are gone")
	}
}

// TestNodeExporter: a real node_exporter takes the text file over.
func TestNodeExporter(t *testing.T) {
	mpijob.Need(t, mpijob.Tools("prometheus-node-exporter", "prometheus-node-exporter"))
	dir := t.TempDir()
	s := newSite(t, "--textfile-dir", dir, "--textfile-interval", "200ms")
	address := freeAddress(t)
	daemon(t, "prometheus-node-exporter", "--collector.disable-defaults", "--collector.textfile", "--collector.textfile.directory="+dir,
		"--web.listen-address="+address)
	finish(t, s.begin(t, mpijob.All[0], t.TempDir(), 2, "20", "100"))
	page := ""
	eventually(t, "node_exporter shows the job", func() bool {
		page = get("http://" + address + "/metrics")
		return strings.Contains(page, "mpitrace_job_calls_total{")
	})
	if !strings.Contains(page, "node_textfile_scrape_error 0") {
		t.Error("node_exporter has trouble with the file")
	}
	checkMetrics(t, get(s.page()))
}

// sum of all samples of a metric.
func sum(t *testing.T, page, metric string) float64 { return sumWith(t, page, metric, "") }

func sumWith(t *testing.T, page, metric, label string) (total float64) {
	t.Helper()
	for _, line := range strings.Split(page, "\n") {
		name, _, _ := strings.Cut(line, "{")
		if name != metric || !strings.Contains(line, label) {
			continue
		}
		var v float64
		if _, err := fmt.Sscan(line[strings.LastIndexByte(line, ' ')+1:], &v); err != nil {
			t.Fatal(line)
		}
		total += v
	}
	return total
}

// checkMetrics has promtool judge names, types and labels of a page.
func checkMetrics(t *testing.T, page string) {
	t.Helper()
	mpijob.Need(t, mpijob.Tools("prometheus", "promtool"))
	cmd := exec.Command("promtool", "check", "metrics")
	cmd.Stdin = strings.NewReader(page)
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
}

// TestPortInUse: one line and a status.
func TestPortInUse(t *testing.T) {
	s := newSite(t)
	out, err := exec.Command(mpitrace, "agent", "--all-users", "--segment-dir", s.base, "--web.listen-address", s.agent).CombinedOutput()
	if err == nil || strings.Count(string(out), "\n") != 1 || !strings.Contains(string(out), "something listens there already") {
		t.Errorf("%v: %s", err, out)
	}
	if _, err := os.Stat(s.base); err != nil {
		t.Error(err)
	}
}
