package agent

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mpitrace/mpitrace/internal/synth"
	"github.com/mpitrace/mpitrace/segment"
	"github.com/mpitrace/mpitrace/test/mpijob"
	"golang.org/x/sys/unix"
)

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// needRoot skips what only root can set up: files of several users.
func needRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		mpijob.Need(t, mpijob.Missing("the right to change owners", "run this test as root"))
	}
}

// TestRefused: whatever else lies in a base directory is refused, counted once
// and by reason, and hinders nothing.
func TestRefused(t *testing.T) {
	base, elsewhere := newBase(t), newBase(t)
	var clock later
	a := start(t, base, func(o *Options) { o.now = clock.now })
	good := synth.Job{ID: "good", Ranks: 1}.Segment(0).Bytes()
	put := func(name string, data []byte) {
		t.Helper()
		must(t, os.WriteFile(filepath.Join(base, "bad", name), data, 0o600))
	}
	spoiled := func(at int, b byte) []byte {
		data := append([]byte(nil), good...)
		data[at] = b
		return data
	}
	must(t, os.Mkdir(filepath.Join(base, "bad"), 0o700), os.Mkdir(filepath.Join(elsewhere, "job"), 0o700),
		os.WriteFile(filepath.Join(elsewhere, "job", "0-1.seg"), good, 0o600))
	// The directories.
	must(t, os.Symlink(filepath.Join(elsewhere, "job"), filepath.Join(base, "link")),
		os.Mkdir(filepath.Join(base, "bad name"), 0o700), os.Mkdir(filepath.Join(elsewhere, "open"), 0o700),
		os.Chmod(filepath.Join(elsewhere, "open"), 0o777), os.Rename(filepath.Join(elsewhere, "open"), filepath.Join(base, "open")),
		os.WriteFile(filepath.Join(base, "file"), good, 0o600))
	// The segments.
	must(t, os.Symlink(filepath.Join(elsewhere, "job", "0-1.seg"), filepath.Join(base, "bad", "1-1.seg")),
		unix.Mkfifo(filepath.Join(base, "bad", "2-1.seg"), 0o600), os.Mkdir(filepath.Join(base, "bad", "3-1.seg"), 0o700))
	put("4-1.seg", []byte("no segment at all"))
	put("5-1.seg", spoiled(8, 99)) // version
	put("6-1.seg", good[:21_000])
	put("7-1.seg", spoiled(24, 1)) // size of the header
	implausible := synth.Job{ID: "good", Ranks: 1}.Segment(0)
	implausible.Sites[0].Calls = 1 << 62
	put("8-1.seg", implausible.Bytes())
	put("9-1.other", good)
	must(t, os.Mkdir(filepath.Join(base, "good"), 0o700), os.WriteFile(filepath.Join(base, "good", "0-1.seg"), good, 0o600))
	counts := map[refusal]float64{
		refusedSymlink: 2, refusedName: 1, refusedWritable: 1, refusedNotRegular: 2, refusedNotSegment: 1, refusedVersion: 1,
		refusedTruncated: 1, refusedCorrupt: 1, refusedImplausible: 1, refusedOwner: 0, refusedLimit: 0, refusedMount: 0,
	}
	eventually(t, "all are held", func() bool {
		a.keeper.mu.Lock()
		defer a.keeper.mu.Unlock()
		return a.keeper.heldAll() == 6
	})
	clock.Store(int64(startWithin))
	a.ended(t, 1)
	for range 3 {
		a.keeper.mu.Lock()
		a.keeper.scan()
		a.keeper.mu.Unlock()
		page := a.page(t)
		for why, n := range counts {
			want(t, page, n, "mpitrace_agent_segments_refused_total", `"`+string(why)+`"`)
		}
		want(t, page, 10_000, "mpitrace_node_calls_total", `"allreduce"`)
		want(t, page, 1, "mpitrace_agent_jobs")
	}
}

// TestOwners: root reads what each user has made, and nothing in it that is
// another's; two jobs of two users with one id stay apart.
func TestOwners(t *testing.T) {
	needRoot(t)
	top := t.TempDir()
	must(t, os.Chmod(top, 0o711), os.Chmod(filepath.Dir(top), 0o711))
	a := start(t, filepath.Join(top, "mpitrace-*"), func(o *Options) { o.Listen[0] = unixScheme + filepath.Join(top, "s") })
	a.users.known = map[uint32]string{1001: "alice", 1002: "bob"}
	give := func(uid int, paths ...string) {
		t.Helper()
		for _, path := range paths {
			must(t, os.Lchown(path, uid, uid))
		}
	}
	for _, uid := range []int{1001, 1002} {
		base := filepath.Join(top, fmt.Sprint(".mpitrace-", uid))
		must(t, os.Mkdir(base, 0o700))
		dir, err := synth.Job{ID: "same", Ranks: uid - 1000}.WriteSegments(base)
		must(t, err)
		files, err := filepath.Glob(dir + "/*.seg")
		must(t, err)
		give(uid, append(files, dir, base)...)
		if uid == 1001 {
			foreign := filepath.Join(dir, "9-9.seg")
			must(t, os.WriteFile(foreign, synth.Job{ID: "same", Ranks: 1}.Segment(0).Bytes(), 0o600))
			give(1002, foreign)
		}
		must(t, os.Rename(base, filepath.Join(top, fmt.Sprint("mpitrace-", uid))))
	}
	// The directory of bob under the name of carol.
	false_ := filepath.Join(top, "mpitrace-1003")
	must(t, os.Mkdir(false_, 0o700))
	give(1002, false_)
	a.keeper.mu.Lock()
	a.keeper.scan()
	a.keeper.mu.Unlock()
	a.ended(t, 2)
	page := a.page(t)
	want(t, page, 10_000, "mpitrace_job_calls_total", `"allreduce"`, `"alice"`)
	want(t, page, 20_000, "mpitrace_job_calls_total", `"allreduce"`, `"bob"`)
	if n, _ := value(t, page, "mpitrace_agent_segments_refused_total", `"owner"`); n < 2 {
		t.Errorf("%v refused, want the foreign segment and the false base directory", n)
	}
	// Each user sees the own, and the sum over it, root sees all.
	for uid, name := range map[int]string{1001: "alice", 1002: "bob", 1003: ""} {
		own := fetch(t, func() (net.Conn, error) { return dialAs(uid, a.listeners[0].Addr().String()) }, "/metrics?ranks=all")
		for _, other := range []string{"alice", "bob"} {
			if strings.Contains(own, `"`+other+`"`) != (other == name) {
				t.Errorf("user %d sees %s: %v", uid, other, other != name)
			}
		}
		want(t, own, map[int]float64{1001: 10_000, 1002: 20_000}[uid], "mpitrace_node_calls_total", `"allreduce"`)
	}
}

// dialAs connects as another user: the kernel notes who the thread is.
func dialAs(uid int, path string) (net.Conn, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	become := func(uid int) error {
		const unchanged = ^uintptr(0)
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, unchanged, uintptr(uid), unchanged); errno != 0 {
			return errno
		}
		return nil
	}
	if err := become(uid); err != nil {
		return nil, err
	}
	c, err := net.Dial("unix", path)
	return c, errors.Join(err, become(0))
}

// TestOneID: two jobs of one user that were given one id are one job with two
// worlds; nothing is lost, and no rank hides another.
func TestOneID(t *testing.T) {
	base := newBase(t)
	a := start(t, base, nil)
	for world := range 2 {
		for rank := range 3 {
			s := synth.Job{ID: "same", Ranks: 3, Sampled: true}.Segment(rank)
			synth.SetText(s.Header.World[:], fmt.Sprint("world-", world))
			write(t, base, "same", fmt.Sprintf("%d%d-1.seg", world, rank), s)
		}
	}
	eventually(t, "all are read", func() bool {
		n, _ := value(t, a.page(t), "mpitrace_node_ranks_total")
		return n == 6
	})
	want(t, a.page(t), 60_000, "mpitrace_job_calls_total", `"allreduce"`)
	all := a.get(t, "/metrics?ranks=all")
	for world := range 2 {
		if n := strings.Count(all, fmt.Sprintf(`user="alice",world="world-%d"} `, world)); n < 6 {
			t.Errorf("world %d has %d samples of ranks", world, n)
		}
	}
}

// TestTruncated: files that shrink, grow and change while they are read.
func TestTruncated(t *testing.T) {
	base := newBase(t)
	a := start(t, base, nil)
	s := synth.Job{ID: "j", Ranks: 2, Sampled: true}.Segment(0)
	live(t, s)
	data := s.Bytes()
	path := write(t, base, "j", "0-1.seg", s)
	var stop atomic.Bool
	var vandal sync.WaitGroup
	vandal.Go(func() {
		for i := 0; !stop.Load(); i++ {
			if err := os.Truncate(path, int64(i*997%len(data))); err != nil {
				t.Error(err)
				return
			}
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Error(err)
				return
			}
		}
	})
	last := 0.0
	for range 300 {
		a.keeper.read(0)
		page := a.get(t, "/metrics")
		calls, _ := value(t, page, "mpitrace_job_calls_total", `"allreduce"`)
		if calls < last || calls != 0 && calls != 10_000 {
			t.Fatalf("%v calls after %v", calls, last)
		}
		last = calls
		a.keeper.compare()
	}
	stop.Store(true)
	vandal.Wait()
	eventually(t, "it is read in the end", func() bool {
		n, _ := value(t, a.page(t), "mpitrace_job_calls_total", `"allreduce"`)
		return n == 10_000
	})
}

// TestVanishing: jobs come and go while pages are read, at many readers.
func TestVanishing(t *testing.T) {
	base := newBase(t)
	a := start(t, base, nil)
	segments := [3][]byte{}
	for rank := range segments {
		segments[rank] = synth.Job{Ranks: 3, Sampled: true}.Segment(rank).Bytes()
	}
	var all sync.WaitGroup
	for reader := range 3 {
		all.Go(func() {
			for range 60 {
				if page := a.get(t, "/metrics"); !strings.Contains(page, "mpitrace_node_jobs_total") {
					t.Errorf("reader %d got %.200s", reader, page)
				}
				a.keeper.read(0)
			}
		})
	}
	for i := range 100 {
		dir := filepath.Join(base, fmt.Sprint("j", i%7))
		must(t, os.Mkdir(dir, 0o700))
		for rank, data := range segments {
			must(t, os.WriteFile(filepath.Join(dir, fmt.Sprint(rank, ".seg")), data, 0o600))
		}
		time.Sleep(2 * time.Millisecond)
		must(t, os.RemoveAll(dir))
	}
	all.Wait()
	eventually(t, "nothing is held", func() bool {
		a.keeper.read(0)
		a.keeper.compare()
		n, ok := value(t, a.page(t), "mpitrace_agent_segments_held")
		return ok && n == 0
	})
}

// TestManyJobs: ten thousand job directories, before and after the agent starts;
// a user cannot make it hold more than the limits.
func TestManyJobs(t *testing.T) {
	const jobs = 10_000
	base := newBase(t)
	s := synth.Job{ID: "j", Ranks: 1}.Segment(0)
	live(t, s)
	data := s.Bytes()
	fill := func(from, to int) {
		for i := from; i < to; i++ {
			dir := filepath.Join(base, fmt.Sprint("job-", i))
			must(t, os.Mkdir(dir, 0o700))
			if i%4 == 0 {
				must(t, os.WriteFile(filepath.Join(dir, "0-1.seg"), data, 0o600))
			}
		}
	}
	fill(0, jobs/2)
	a := start(t, base, nil)
	fill(jobs/2, jobs)
	k := a.keeper
	eventually(t, "all directories are seen", func() bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.scan()
		n := 0
		for _, b := range k.bases {
			n += len(b.jobs)
		}
		return n == jobs
	})
	page := a.page(t)
	want(t, page, float64(k.limits.userJobs), "mpitrace_agent_segments_held")
	want(t, page, float64(k.limits.userJobs), "mpitrace_agent_jobs", `"running"`)
	if n, _ := value(t, page, "mpitrace_agent_segments_refused_total", `"limit"`); n < float64(jobs/4-k.limits.userJobs) {
		t.Errorf("%v refused for the limit", n)
	}
	k.mu.Lock()
	watches := len(k.watched)
	k.mu.Unlock()
	if watches > k.limits.userWatches+10 {
		t.Errorf("%d directories are watched", watches)
	}
}

// TestManyBases: a user cannot make the agent hold more base directories than the
// limit, nor look at all of them for each one that comes.
func TestManyBases(t *testing.T) {
	const limit, more = 3, 7
	top := newBase(t)
	path := func(i int) string { return filepath.Join(top, fmt.Sprint("mpitrace-x", i)) }
	must(t, os.Mkdir(path(0), 0o700), os.Chmod(path(0), 0o777))
	a := start(t, filepath.Join(top, "mpitrace-*"), nil)
	k := a.keeper
	locked := func(look func()) {
		k.mu.Lock()
		defer k.mu.Unlock()
		look()
	}
	refused := func() (n uint64) {
		locked(func() { n = k.stats.Refused[string(refusedLimit)] })
		return n
	}
	locked(func() { k.limits.userBases = limit })
	must(t, os.Chmod(path(0), 0o700))
	for i := range limit + more {
		must(t, os.Mkdir(path(i+1), 0o700))
	}
	eventually(t, "all have been looked at", func() bool { return refused() >= more })
	locked(func() {
		if k.bases[path(0)] != nil || len(k.bases) != limit {
			t.Errorf("%d base directories, want %d, and not the one that did not come", len(k.bases), limit)
		}
		for range 3 {
			k.scan()
		}
	})
	if n := refused(); n != more+1 {
		t.Errorf("%d refused for the limit, want %d", n, more+1)
	}
	for i := range 1 + limit + more {
		must(t, os.Remove(path(i)))
	}
	eventually(t, "nothing is left of them", func() (none bool) {
		locked(func() { none = len(k.bases)+len(k.badBases) == 0 })
		return none
	})
}

// TestProcessLimit: of a job that goes through more processes than are kept, the
// total stays right.
func TestProcessLimit(t *testing.T) {
	base := newBase(t)
	a := start(t, base, nil)
	a.keeper.mu.Lock()
	a.keeper.limits.jobProcesses = 5
	a.keeper.mu.Unlock()
	keep := synth.Job{ID: "j", Ranks: 1}.Segment(0)
	live(t, keep)
	write(t, base, "j", "0-1.seg", keep)
	const more = 20
	for i := range more {
		s := synth.Job{ID: "j", Ranks: 1}.Segment(0)
		path := write(t, base, "j", fmt.Sprintf("%d-1.seg", i+1), s)
		eventually(t, "it is counted", func() bool {
			n, _ := value(t, a.page(t), "mpitrace_node_ranks_total")
			return n == float64(i+2)
		})
		must(t, os.Remove(path))
	}
	page := a.page(t)
	want(t, page, 10_000*(more+1), "mpitrace_job_calls_total", `"allreduce"`)
	if n, _ := value(t, page, "mpitrace_job_ranks"); n != 5 {
		t.Errorf("%v ranks are kept, want 5", n)
	}
}

// TestTooManySamples: a job with more samples than the limits allow is not
// compared, and all else of it is right.
func TestTooManySamples(t *testing.T) {
	base := newBase(t)
	a := start(t, base, nil)
	a.keeper.mu.Lock()
	a.keeper.limits.arrivals = 100
	a.keeper.mu.Unlock()
	lay(t, base, synth.Job{ID: "j", Ranks: 2, Sampled: true})
	a.ended(t, 1)
	page := a.page(t)
	want(t, page, 1, "mpitrace_agent_errors_total", `"compare_limit"`)
	want(t, page, 20_000, "mpitrace_job_calls_total", `"allreduce"`)
	if _, ok := value(t, page, "mpitrace_job_wait_seconds"); ok {
		t.Error("arrivals were compared")
	}
}

// TestUnreadable: a base directory that cannot be read is counted, and taken
// when it can be.
func TestUnreadable(t *testing.T) {
	base := newBase(t)
	must(t, os.Chmod(base, 0o702))
	a := start(t, base, nil)
	want(t, a.page(t), 1, "mpitrace_agent_segments_refused_total", `"writable"`)
	must(t, os.Chmod(base, 0o700))
	lay(t, base, synth.Job{ID: "j", Ranks: 1})
	a.keeper.mu.Lock()
	a.keeper.scan()
	a.keeper.mu.Unlock()
	a.ended(t, 1)
	// Removed and made again, it is another directory.
	must(t, os.RemoveAll(base), os.Mkdir(base, 0o700))
	lay(t, base, synth.Job{ID: "k", Ranks: 1})
	a.ended(t, 2)
}

// TestForeign: a process of another container lives until it says otherwise.
func TestForeign(t *testing.T) {
	base := newBase(t)
	var clock later
	a := start(t, base, func(o *Options) { o.now = clock.now })
	s := synth.Job{ID: "j", Ranks: 1}.Segment(0)
	live(t, s)
	s.Header.PIDNamespace++
	path := write(t, base, "j", "7-1.seg", s)
	eventually(t, "it runs", func() bool {
		n, _ := value(t, a.page(t), "mpitrace_job_ranks", `"running"`)
		return n == 1
	})
	s.Header.State = segment.StateExited
	rewrite(t, path, s)
	a.ended(t, 1)
	want(t, a.page(t), 1, "mpitrace_job_ranks", `"finished"`)
}
