package top

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/mpitrace/mpitrace/internal/synth"
	"golang.org/x/sys/unix"
)

// benchInterval is the time between refreshes that the cost is stated for.
const benchInterval = 5 * time.Second

// processes starts processes that do nothing, to be the ranks of a job.
func processes(b *testing.B, n int) []int {
	b.Helper()
	var pids []int
	for range n {
		c := exec.Command("sleep", "600")
		if err := c.Start(); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			if err := c.Process.Kill(); err != nil {
				b.Error(err)
			}
			_ = c.Wait() // killed: nothing to learn
		})
		pids = append(pids, c.Process.Pid)
	}
	return pids
}

// benchJob lays out a job in shared memory whose ranks are these processes, one
// after the other, and have recorded all that a default run does. Segments have
// the size that they have by default.
func benchJob(b *testing.B, ranks int, pids []int) (base, dir string) {
	b.Helper()
	base, err := os.MkdirTemp("/dev/shm", "mpitrace-bench-")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := os.RemoveAll(base); err != nil {
			b.Error(err)
		}
	})
	dir = filepath.Join(base, "bench")
	if err := os.Mkdir(dir, 0o700); err != nil {
		b.Fatal(err)
	}
	j := synth.Scale(ranks)
	if len(pids) < ranks {
		j.RanksPerNode = len(pids) // a process is told from others by its node, too
	} else {
		j.RanksPerNode = ranks
	}
	for rank := range ranks {
		s := j.Segment(rank)
		if err := s.Live(pids[rank%len(pids)]); err != nil {
			b.Fatal(err)
		}
		if rank%2 == 0 {
			t := &s.Threads[0]
			t.Call, t.Address, t.EnterTicks = synth.ID("MPI_Allreduce"), synth.ModuleBase+0x13a0, synth.Ticks(59e9)
			t.Details, t.CommHandle = 1, 0x100
		}
		path := filepath.Join(dir, fmt.Sprintf("%d.seg", rank))
		if err := os.WriteFile(path, s.Bytes(), 0o600); err != nil {
			b.Fatal(err)
		}
		if err := os.Truncate(path, max(256<<10, int64(s.Header.FileBytes))); err != nil {
			b.Fatal(err)
		}
	}
	return base, dir
}

// usage is the processor time of this process, and the most memory that it had.
func usage(b *testing.B) (cpu time.Duration, peakKiB int64) {
	b.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), u.Maxrss
}

// BenchmarkTop is the whole of mpitrace top on 128 ranks, with the terminal
// thrown away: processor time in percent of one core over six refreshes, and
// memory at its peak.
func BenchmarkTop(b *testing.B) {
	base, dir := benchJob(b, 128, processes(b, 128))
	for b.Loop() {
		p := tea.NewProgram(&program{model: NewModel(Options{Job: dir, Interval: benchInterval, Color: true}), reader: &reader{source: NewSegments([]string{base})}, interval: benchInterval},
			tea.WithInput(nil), tea.WithOutput(io.Discard), tea.WithWindowSize(120, 40), tea.WithFPS(frames), tea.WithoutSignalHandler())
		time.AfterFunc(6*benchInterval+benchInterval/2, p.Quit)
		before, _ := usage(b)
		began := time.Now()
		last, err := p.Run()
		if err != nil {
			b.Fatal(err)
		}
		after, peak := usage(b)
		m := last.(*program).model
		if m.cur == nil || len(m.cur.Ranks) != 128 || m.ended != "" || m.late == nil {
			b.Fatalf("not a running job of 128 ranks: %q", m.Text())
		}
		b.ReportMetric(100*float64(after-before)/float64(time.Since(began)), "%core")
		b.ReportMetric(float64(peak)/1024, "MiB-peak")
	}
}

// BenchmarkRefresh is what one refresh takes: the totals, a screen, and who is
// late, which is worked out less often.
func BenchmarkRefresh(b *testing.B) {
	pids := processes(b, 128)
	for _, ranks := range []int{128, 1024, 4096} {
		base, dir := benchJob(b, ranks, pids)
		s := NewSegments([]string{base})
		m := NewModel(Options{Job: dir, Interval: benchInterval, Color: true}).Resize(120, 40)
		perOp := func(b *testing.B, name string, f func()) {
			b.Run(fmt.Sprintf("%s/%d", name, ranks), func(b *testing.B) {
				runtime.GC()
				before, _ := usage(b)
				for b.Loop() {
					f()
				}
				after, peak := usage(b)
				b.ReportMetric(float64(after-before)/float64(b.N)/1e6, "cpu-ms/op")
				b.ReportMetric(float64(peak)/1024, "MiB-peak")
			})
		}
		perOp(b, "totals", func() {
			shot, err := s.Snapshot(dir)
			if err != nil || len(shot.Ranks) != ranks {
				b.Fatal(err)
			}
			m = m.Take(Reading{Want: m.Want(), Snapshot: shot})
		})
		perOp(b, "screen", func() {
			if m.Resize(120, 40).Text() == "" {
				b.Fatal("nothing")
			}
		})
		perOp(b, "late", func() {
			if _, err := s.Lateness(dir); err != nil {
				b.Fatal(err)
			}
		})
	}
}
