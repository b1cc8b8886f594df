package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mpitrace/mpitrace/internal/golden"
	"github.com/mpitrace/mpitrace/internal/synth"
	"github.com/mpitrace/mpitrace/segment"
)

// within bounds every wait of these tests.
const within = 3 * time.Minute

// eventually waits until something is so.
func eventually(t testing.TB, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(within); !so(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not so within %v: %s", within, what)
		}
	}
}

// newBase is an empty base directory where segments live.
func newBase(t testing.TB) string {
	t.Helper()
	base, err := os.MkdirTemp("/dev/shm", "mpitrace-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	return base
}

// start runs an agent of a base directory on a socket until the test ends.
func start(t testing.TB, base string, change func(o *Options)) *Agent {
	t.Helper()
	o := Options{
		SegmentDirs: []string{base}, Listen: []string{unixScheme + filepath.Join(t.TempDir(), "s")}, Worst: 3, Node: "node000",
		Version: "test", Log: slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&o)
	}
	a, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	a.users.known = map[uint32]string{uint32(os.Getuid()): "alice"}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- a.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("the end: %v", err)
		}
	})
	return a
}

// get reads a page at one of the addresses, as this process.
func (a *Agent) get(t testing.TB, path string, header ...string) string {
	t.Helper()
	l := a.listeners[0].Addr()
	return fetch(t, func() (net.Conn, error) { return net.Dial(l.Network(), l.String()) }, path, header...)
}

func fetch(t testing.TB, dial func() (net.Conn, error), path string, header ...string) string {
	t.Helper()
	client := &http.Client{Timeout: within, Transport: &http.Transport{
		DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) { return dial() },
	}}
	request, err := http.NewRequest(http.MethodGet, "http://localhost"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// page reads /metrics after what was read before has grown stale.
func (a *Agent) page(t testing.TB) string {
	t.Helper()
	a.keeper.read(0)
	return a.get(t, "/metrics")
}

// value is the sum of the samples of a metric whose labels hold all texts.
func value(t testing.TB, page, metric string, with ...string) (sum float64, found bool) {
	t.Helper()
lines:
	for _, line := range strings.Split(page, "\n") {
		name, text, ok := strings.Cut(line, " ")
		if bare, _, _ := strings.Cut(name, "{"); !ok || bare != metric {
			continue
		}
		for _, w := range with {
			if !strings.Contains(name, w) {
				continue lines
			}
		}
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatal(line)
		}
		sum, found = sum+v, true
	}
	return sum, found
}

func want(t testing.TB, page string, v float64, metric string, with ...string) {
	t.Helper()
	if got, ok := value(t, page, metric, with...); !ok || got != v {
		t.Errorf("%s %v is %v (%v), want %v", metric, with, got, ok, v)
	}
}

// live makes the segment of a rank one of this very process.
func live(t testing.TB, s *synth.Segment) {
	t.Helper()
	if err := s.Live(os.Getpid()); err != nil {
		t.Fatal(err)
	}
}

// lay puts all segments of a job in their place at once.
func lay(t testing.TB, base string, job synth.Job) {
	t.Helper()
	dir, err := job.WriteSegments(newBase(t))
	if err == nil {
		err = os.Rename(dir, filepath.Join(base, job.ID))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// write writes one segment and returns its path.
func write(t testing.TB, base, run, name string, s *synth.Segment) string {
	t.Helper()
	dir := filepath.Join(base, run)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, s.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// ended waits until so many jobs are shown as ended.
func (a *Agent) ended(t testing.TB, n float64) {
	t.Helper()
	eventually(t, fmt.Sprintf("%v jobs ended", n), func() bool {
		got, _ := value(t, a.page(t), "mpitrace_agent_jobs", `"ended"`)
		a.keeper.compare()
		return got == n
	})
}

var volatile = regexp.MustCompile(`(?m)^((?:process_|mpitrace_agent_(?:collector_duration|read_duration|read_seconds|analysis_seconds|read_bytes|segments_read))\S*) .*$`)

// TestGolden is the whole page of two jobs, one of which carries its messages itself.
func TestGolden(t *testing.T) {
	base := newBase(t)
	a := start(t, base, nil)
	job := synth.Job{ID: "20260102-093000-node000-7", Ranks: 6, Sampled: true, Mutate: func(rank int, s *synth.Segment) *synth.Segment {
		if rank == 5 {
			s.Header.State, s.Header.AbortCode = segment.StateAborted, 3
		}
		return s
	}}
	acts := segment.Act{State: segment.ActStateActs, Counted: true, Counts: segment.ActCounts{segment.ActEagerMessages: 900, segment.ActEagerBytes: 57600,
		segment.ActRendezvousMessages: 40, segment.ActRendezvousBytes: 1 << 22, segment.ActReadMessages: 40, segment.ActReadBytes: 1 << 22, segment.ActMessagesOfCommunicators: 7,
		segment.ActCacheHits: 30, segment.ActCacheMisses: 10, segment.ActCacheRegistrations: 9, segment.ActCacheEvictions: 2, segment.ActCacheInvalidations: 1, segment.ActCacheRefused: 1}}
	slurm := synth.Job{ID: "slurm-4711.0", Ranks: 2, Sampled: true, Mutate: func(_ int, s *synth.Segment) *synth.Segment {
		s.Extra = synth.Act(acts)
		return s
	}}
	for _, j := range []synth.Job{job, slurm} {
		lay(t, base, j)
	}
	a.ended(t, 2)
	page := volatile.ReplaceAllString(a.page(t), "$1 ~")
	golden.Compare(t, "metrics.txt", []byte(page))
	all := a.get(t, "/metrics?ranks=all")
	if got := strings.Count(all, "mpitrace_rank_seconds_total{"); got != 8 {
		t.Errorf("%d ranks with ranks=all, want 8", got)
	}
	open := a.get(t, "/metrics", "Accept", "application/openmetrics-text; version=1.0.0")
	if !strings.HasSuffix(open, "# EOF\n") || !strings.Contains(open, "# TYPE mpitrace_job_calls counter") {
		t.Error("no OpenMetrics for who asks for it")
	}
}

// taken is how many segments of a job the agent has taken up.
func (a *Agent) taken(run string) int {
	a.keeper.mu.Lock()
	defer a.keeper.mu.Unlock()
	for _, b := range a.keeper.bases {
		if d := b.jobs[run]; d != nil {
			return len(d.segments) + len(d.done)
		}
	}
	return 0
}

// TestShortJobs: jobs of 0.2 s, many at once, leave all they counted, although
// nobody asks for the page before nothing of them is left. Where the agent gets no
// processor for so long they last until it had one.
func TestShortJobs(t *testing.T) {
	const jobs, ranks, lifetime = 60, 3, 200 * time.Millisecond
	base := newBase(t)
	a := start(t, base, nil)
	segments := [ranks][]byte{} // made before: the processor is the agent's meanwhile
	for rank := range segments {
		segments[rank] = synth.Job{Ranks: ranks, Sampled: true}.Segment(rank).Bytes()
	}
	var all sync.WaitGroup
	for i := range jobs {
		all.Go(func() {
			time.Sleep(time.Duration(i%20) * 10 * time.Millisecond)
			run := fmt.Sprint("short-", i)
			dir := filepath.Join(base, run)
			err := os.Mkdir(dir, 0o700)
			for rank, data := range segments {
				err = errors.Join(err, os.WriteFile(filepath.Join(dir, fmt.Sprint(rank, ".seg")), data, 0o600))
			}
			time.Sleep(lifetime)
			for end := time.Now().Add(within); a.taken(run) < ranks && time.Now().Before(end); {
				time.Sleep(time.Millisecond)
			}
			if err := errors.Join(err, os.RemoveAll(dir)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	a.ended(t, jobs)
	page := a.page(t)
	want(t, page, jobs, "mpitrace_node_jobs_total")
	want(t, page, jobs*ranks, "mpitrace_node_ranks_total")
	want(t, page, jobs*ranks*10_000, "mpitrace_node_calls_total", `"allreduce"`)
	want(t, page, jobs*ranks*10_000, "mpitrace_job_calls_total", `"allreduce"`)
	want(t, page, jobs*ranks, "mpitrace_job_ranks", `"finished"`)
	want(t, page, 0, "mpitrace_agent_segments_held")
	if _, ok := value(t, page, "mpitrace_job_late_rank_ratio", `"short-7"`); !ok {
		t.Error("no arrivals of a short job")
	}
	open := 0
	for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if open = strings.Count(descriptors(t), base); open <= 1 { // the base directory
			break
		}
	}
	if open > 1 {
		t.Errorf("%d descriptors are left open", open)
	}
}

// descriptors is what the descriptors of this process lead to.
func descriptors(t testing.TB) string {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	text := ""
	for _, fd := range list {
		path, _ := os.Readlink("/proc/self/fd/" + fd.Name())
		text += path + "\n"
	}
	return text
}

// TestNeverBackward: a counter does not go back when a rank vanishes, nor when
// its figures do.
func TestNeverBackward(t *testing.T) {
	base := newBase(t)
	a := start(t, base, nil)
	job := synth.Job{ID: "j", Ranks: 4}
	var paths []string
	for rank := range job.Ranks {
		s := job.Segment(rank)
		live(t, s)
		paths = append(paths, write(t, base, "j", fmt.Sprintf("%d-1.seg", rank), s))
	}
	eventually(t, "4 ranks run", func() bool {
		n, _ := value(t, a.page(t), "mpitrace_job_ranks", `"running"`)
		return n == 4
	})
	check := func(allreduces float64) {
		t.Helper()
		page := a.page(t)
		want(t, page, allreduces, "mpitrace_job_calls_total", `"allreduce"`)
		want(t, page, allreduces, "mpitrace_node_calls_total", `"allreduce"`)
	}
	check(40_000)
	less := job.Segment(1)
	live(t, less)
	for i := range less.Sites {
		less.Sites[i].Calls /= 2
	}
	rewrite(t, paths[1], less)
	check(40_000)
	if err := os.Remove(paths[2]); err != nil {
		t.Fatal(err)
	}
	more := job.Segment(3)
	live(t, more)
	for i := range more.Sites {
		more.Sites[i].Calls *= 2
	}
	rewrite(t, paths[3], more)
	check(50_000)
	if err := os.RemoveAll(filepath.Dir(paths[0])); err != nil {
		t.Fatal(err)
	}
	check(50_000)
	// The process, which is this one, lives on: so does the job.
	want(t, a.page(t), 1, "mpitrace_agent_jobs", `"running"`)
}

// TestLaterWorlds: what the ranks of a launch waited stays in the figures of the
// job when they ended long ago and other launches go on.
func TestLaterWorlds(t *testing.T) {
	base := newBase(t)
	var clock later
	a := start(t, base, func(o *Options) { o.now = clock.now })
	processes := uint64(0)
	launch := func(world string, living bool) {
		for rank := range 2 {
			processes++
			s := synth.Job{ID: "j", Ranks: 2, Sampled: true}.Segment(rank)
			synth.SetText(s.Header.World[:], world)
			if living { // in another container
				live(t, s)
				s.Header.PIDNamespace++
			}
			s.Header.PIDStart += processes
			write(t, base, "j", fmt.Sprintf("%s%d-1.seg", world, rank), s)
		}
	}
	launch("first", false)
	launch("second", true)
	compared := func() (waited, sampled float64) {
		clock.Add(int64(2 * lingering))
		a.keeper.read(0)
		a.keeper.compare()
		page := a.page(t)
		waited, _ = value(t, page, "mpitrace_job_wait_seconds")
		sampled, _ = value(t, page, "mpitrace_job_collectives_sampled")
		return waited, sampled
	}
	eventually(t, "both are there", func() bool { return a.taken("j") == 4 })
	waited, sampled := compared()
	if waited == 0 || sampled == 0 {
		t.Fatal("nothing was compared")
	}
	for range 3 {
		if w, s := compared(); math.Abs(w-waited) > 1e-9 || s != sampled {
			t.Errorf("%v s in %v samples, first %v in %v", w, s, waited, sampled)
		}
	}
	launch("third", true)
	eventually(t, "the third is compared, too", func() bool {
		w, s := compared()
		return s == 1.5*sampled && math.Abs(w-1.5*waited) < 1e-9
	})
}

// rewrite changes a segment in place, as its process does.
func rewrite(t testing.TB, path string, s *synth.Segment) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err == nil {
		defer f.Close()
		_, err = f.WriteAt(s.Bytes(), 0)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestBefore: jobs that ended before the agent are left alone; of one that runs,
// the node counts only what comes.
func TestBefore(t *testing.T) {
	base := newBase(t)
	lay(t, base, synth.Job{ID: "dead", Ranks: 4})
	s := synth.Job{ID: "alive", Ranks: 1}.Segment(0)
	live(t, s)
	path := write(t, base, "alive", "1-1.seg", s)
	a := start(t, base, nil)
	page := a.page(t)
	want(t, page, 1, "mpitrace_agent_jobs", `"running"`)
	want(t, page, 0, "mpitrace_agent_jobs", `"ended"`)
	want(t, page, 10_000, "mpitrace_job_calls_total", `"allreduce"`)
	want(t, page, 0, "mpitrace_node_calls_total", `"allreduce"`)
	for i := range s.Sites {
		s.Sites[i].Calls += 5
	}
	rewrite(t, path, s)
	page = a.page(t)
	want(t, page, 10_005, "mpitrace_job_calls_total", `"allreduce"`)
	want(t, page, 5, "mpitrace_node_calls_total", `"allreduce"`)
}

// later is a clock that a test puts forward.
type later struct{ atomic.Int64 }

func (l *later) now() time.Time { return time.Now().Add(time.Duration(l.Load())) }

// TestRetire: a job stays until it was read, and for a while; the sums stay.
func TestRetire(t *testing.T) {
	base := newBase(t)
	var clock later
	a := start(t, base, func(o *Options) { o.Keep, o.now = time.Hour, clock.now })
	k := a.keeper
	later := func(d time.Duration) {
		clock.Add(int64(d))
		k.retire()
	}
	lay(t, base, synth.Job{ID: "j", Ranks: 2})
	eventually(t, "the job has ended", func() bool {
		k.read(0)
		k.compare()
		k.mu.Lock()
		defer k.mu.Unlock()
		j := k.jobs[jobKey{uint32(os.Getuid()), "j"}]
		return j != nil && !j.ended.IsZero()
	})
	later(2 * time.Hour)
	want(t, a.page(t), 1, "mpitrace_agent_jobs", `"ended"`) // nobody had read it; now somebody has
	later(2 * time.Hour)
	page := a.page(t)
	want(t, page, 0, "mpitrace_agent_jobs", `"ended"`)
	want(t, page, 20_000, "mpitrace_node_calls_total", `"allreduce"`)
	want(t, page, 0, "mpitrace_agent_jobs_unscraped_total")
	// Its segments still lie there, and are not taken for a new job.
	k.mu.Lock()
	k.scan()
	k.mu.Unlock()
	want(t, a.page(t), 20_000, "mpitrace_node_calls_total", `"allreduce"`)
	lay(t, base, synth.Job{ID: "unseen", Ranks: 1})
	eventually(t, "an unread job is dropped in the end", func() bool {
		k.read(0)
		k.compare()
		later(20 * time.Hour)
		k.mu.Lock()
		defer k.mu.Unlock()
		return k.stats.Unscraped == 1 && len(k.jobs) == 0
	})
}
