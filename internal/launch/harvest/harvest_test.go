package harvest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mpitrace/mpitrace/internal/synth"
	"github.com/mpitrace/mpitrace/segment"
)

// process is the process of a synthetic segment.
type process struct {
	rank, pid int
	start     uint64
	boot      string
	namespace uint64
}

// self is this process, which lives.
func self(t *testing.T, rank int) process {
	t.Helper()
	s := synth.Job{ID: "self", Ranks: 1}.Segment(0)
	if err := s.Live(os.Getpid()); err != nil {
		t.Fatal(err)
	}
	return process{rank, os.Getpid(), s.Header.PIDStart, segment.Text(s.Header.BootID[:]), s.Header.PIDNamespace}
}

// startOf is when a process started, in ticks since boot.
func startOf(t *testing.T, pid int) (ticks uint64) {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(stat[strings.LastIndex(string(stat), ")")+1:]))
	if _, err := fmt.Sscan(fields[19], &ticks); err != nil {
		t.Fatal(err)
	}
	return ticks
}

// gone is a process with this pid that ended before this one got it.
func gone(t *testing.T, rank int) process {
	p := self(t, rank)
	p.start -= uint64(rank) + 1
	return p
}

// put writes the segments of a job.
func put(t *testing.T, base, job string, processes ...process) {
	t.Helper()
	dir := filepath.Join(base, job)
	if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, controlFile), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, p := range processes {
		s := synth.Scale(4).Segment(p.rank)
		s.Header.PID, s.Header.PIDStart, s.Header.PIDNamespace = uint32(p.pid), p.start, p.namespace
		synth.SetText(s.Header.BootID[:], p.boot)
		synth.SetText(s.Header.Job[:], job)
		path := filepath.Join(dir, fmt.Sprintf("%d-%d.seg", p.pid, p.start))
		if err := os.WriteFile(path, s.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// newBase is an empty base directory.
func newBase(t *testing.T) string {
	base := filepath.Join(t.TempDir(), "base")
	if err := os.Mkdir(base, 0o700); err != nil {
		t.Fatal(err)
	}
	return base
}

// left lists what is left below a base directory.
func left(t *testing.T, base string) int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(base, "*", "*.seg"))
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}

func gather(t *testing.T, o Options) Summary {
	t.Helper()
	s, err := Collect(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func ranks(t *testing.T, dir string) string {
	t.Helper()
	result, err := segment.ReadResult(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, s := range result.Segments {
		out = append(out, fmt.Sprint(s.Header.WorldRank))
	}
	return strings.Join(out, " ")
}

func TestCollect(t *testing.T) {
	base, out := newBase(t), t.TempDir()
	earlier := gone(t, 2)
	earlier.boot = "an earlier boot"
	container := gone(t, 3)
	container.namespace++
	put(t, base, "j1", self(t, 0), gone(t, 1), earlier, container)
	put(t, base, "j2", gone(t, 0))
	o := Options{Bases: []string{base}, Job: "j1", Output: func(job string) string { return filepath.Join(out, job) }, Writer: "test"}

	idle := o
	idle.Idle = true
	if s := gather(t, idle); s.Processes != 0 || s.Alive != 2 {
		t.Errorf("idle, with processes alive: %+v", s)
	}
	if s := gather(t, o); s.Processes != 2 || s.Alive != 2 || s.Damaged != 0 {
		t.Errorf("collected %+v, want the 2 dead and 2 left alone", s)
	}
	if got := ranks(t, filepath.Join(out, "j1")); got != "1 2" {
		t.Errorf("ranks %s, want 1 2", got)
	}
	if s := gather(t, o); s.Processes != 0 {
		t.Errorf("again: %+v, want nothing", s)
	}
	if left(t, base) != 3 {
		t.Errorf("%d segments left, want the living, the container's and the other job's", left(t, base))
	}
	if _, err := os.Stat(filepath.Join(out, "j2")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the other job was collected: %v", err)
	}
	o.Job = ""
	if s := gather(t, o); s.Processes != 1 {
		t.Errorf("all jobs: %+v", s)
	}
	if _, err := os.Stat(filepath.Join(base, "j2")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory of a collected job is left: %v", err)
	}
}

func TestCollectAll(t *testing.T) {
	base, out := newBase(t), t.TempDir()
	put(t, base, "j1", self(t, 0), gone(t, 1))
	o := Options{Bases: []string{base}, All: true, Output: func(string) string { return out }}
	if s := gather(t, o); s.Processes != 2 || left(t, base) != 1 {
		t.Errorf("%+v, %d left: want a snapshot of both, and the living one's segment left", s, left(t, base))
	}
	gather(t, o)
	if got := ranks(t, out); got != "0 1" {
		t.Errorf("ranks %s after two snapshots, want 0 1", got)
	}
	if files, _ := filepath.Glob(filepath.Join(out, "*.mtn")); len(files) != 2 {
		t.Errorf("node files %v, want two", files)
	}
}

func TestCollectKeep(t *testing.T) {
	base, out := newBase(t), t.TempDir()
	put(t, base, "j1", gone(t, 1))
	gather(t, Options{Bases: []string{base}, Keep: true, Output: func(string) string { return out }})
	if left(t, base) != 1 || ranks(t, out) != "1" {
		t.Errorf("%d segments left, want it kept and collected", left(t, base))
	}
}

// TestCollectDamaged: what cannot be read is named, left, and hinders nothing.
func TestCollectDamaged(t *testing.T) {
	base, out := newBase(t), t.TempDir()
	put(t, base, "j1", gone(t, 1))
	if err := os.WriteFile(filepath.Join(base, "j1", "1-1.seg"), []byte("MPITRSEG"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Collect(t.Context(), Options{Bases: []string{base}, Output: func(string) string { return out }})
	if err == nil || !strings.Contains(err.Error(), "1-1.seg") || s.Damaged != 1 || s.Processes != 1 {
		t.Errorf("%+v, %v: want one collected and one named", s, err)
	}
}

// TestCollectUnwritable: nothing is removed that was not written.
func TestCollectUnwritable(t *testing.T) {
	base := newBase(t)
	put(t, base, "j1", gone(t, 1))
	s, err := Collect(t.Context(), Options{Bases: []string{base}, Output: func(string) string { return "/proc/none" }})
	if err == nil || s.Unwritten != 1 || s.Processes != 0 {
		t.Errorf("%+v, %v: want an error, and one that is left", s, err)
	}
	if left(t, base) != 1 {
		t.Error("a segment was removed that is nowhere else")
	}
}

// TestCollectAtOnce: several collectors at once neither lose a rank nor
// overwrite a file.
func TestCollectAtOnce(t *testing.T) {
	base, out := newBase(t), t.TempDir()
	put(t, base, "j1", gone(t, 0), gone(t, 1), gone(t, 2), gone(t, 3))
	done := make(chan error)
	for range 8 {
		go func() {
			_, err := Collect(t.Context(), Options{Bases: []string{base}, Output: func(string) string { return out }})
			done <- err
		}()
	}
	for range 8 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if got := ranks(t, out); got != "0 1 2 3" || left(t, base) != 0 {
		t.Errorf("ranks %s, %d left", got, left(t, base))
	}
}

func TestClean(t *testing.T) {
	base := newBase(t)
	put(t, base, "running", self(t, 0), gone(t, 1))
	put(t, base, "over", gone(t, 0), gone(t, 1))
	empty := filepath.Join(base, "empty")
	old := time.Now().Add(-time.Hour)
	if err := errors.Join(os.Mkdir(empty, 0o700), os.Chtimes(empty, old, old)); err != nil {
		t.Fatal(err)
	}
	steps := []struct {
		what          Cleaning
		removed, kept int
		left          int
	}{
		{Cleaning{DryRun: true}, 2, 2, 4},
		{Cleaning{Job: "running"}, 0, 2, 4},
		{Cleaning{}, 2, 2, 2},
		{Cleaning{AllJobs: true, DryRun: true}, 1, 1, 2},
		{Cleaning{AllJobs: true}, 1, 1, 1},
		{Cleaning{AllJobs: true}, 0, 1, 1},
	}
	for i, step := range steps {
		step.what.Bases = []string{base}
		got, err := Clean(step.what)
		if err != nil || got.Segments != step.removed || got.Kept != step.kept || left(t, base) != step.left {
			t.Errorf("step %d: %+v, %v, %d left; want %d removed, %d kept, %d left", i, got, err, left(t, base), step.removed, step.kept, step.left)
		}
	}
	for _, dir := range []string{"over", "empty"} {
		if _, err := os.Stat(filepath.Join(base, dir)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is left: %v", dir, err)
		}
	}
}

// TestCleanUnreadable: a segment that is being made has no magic yet; the name
// of its file says that its process lives.
func TestCleanUnreadable(t *testing.T) {
	base := newBase(t)
	job := filepath.Join(base, "j1")
	p := self(t, 0)
	living := filepath.Join(job, fmt.Sprintf("%d-%d.seg", p.pid, p.start))
	dead := filepath.Join(job, fmt.Sprintf("%d-%d.seg", p.pid, p.start-1))
	if err := errors.Join(os.Mkdir(job, 0o700), os.WriteFile(living, nil, 0o600), os.WriteFile(dead, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if got, err := Clean(Cleaning{Bases: []string{base}, AllJobs: true}); err != nil || got.Segments != 1 || got.Kept != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := os.Stat(living); err != nil {
		t.Error(err)
	}
}

func TestLiving(t *testing.T) {
	base := newBase(t)
	put(t, base, "j1", self(t, 0), gone(t, 1))
	put(t, base, "j2", self(t, 0))
	if n := living([]string{base}, "j1"); n != 1 {
		t.Errorf("%d living, want 1", n)
	}
	open := newBase(t)
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	if n := living([]string{open, base}, "j1"); n != 1 {
		t.Errorf("%d living beside a base directory that is not trusted, want 1", n)
	}
}

// TestCollectEmptyJob: a process killed between the removal of its segment and
// that of the job directory leaves nothing for ever.
func TestCollectEmptyJob(t *testing.T) {
	base := newBase(t)
	put(t, base, "j1")
	gather(t, Options{Bases: []string{base}, Job: "j2"})
	if _, err := os.Stat(filepath.Join(base, "j1")); err != nil {
		t.Errorf("collecting another job: %v", err)
	}
	gather(t, Options{Bases: []string{base}, Job: "j1"})
	if _, err := os.Stat(filepath.Join(base, "j1")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory of the job is left: %v", err)
	}
}

// TestCollectWaits: a process that ends in time is collected, one that lives
// on bounds the wait.
func TestCollectWaits(t *testing.T) {
	base, out := newBase(t), t.TempDir()
	child := exec.Command("sleep", "0.2")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	p := self(t, 0)
	p.pid = child.Process.Pid
	p.start = startOf(t, p.pid)
	put(t, base, "j1", p)
	go func() { _ = child.Wait() }()
	o := Options{Bases: []string{base}, Job: "j1", Output: func(string) string { return out }, Wait: time.Minute}
	if s := gather(t, o); s.Processes != 1 || s.Alive != 0 {
		t.Errorf("%+v, want the one that ended", s)
	}
	put(t, base, "j1", self(t, 0))
	o.Wait = 50 * time.Millisecond
	if s := gather(t, o); s.Processes != 0 || s.Alive != 1 {
		t.Errorf("%+v, want the one that lives left alone", s)
	}
}
