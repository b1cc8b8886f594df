package report

import (
	"fmt"
	"io"
	"runtime"
	"testing"

	"github.com/mpitrace/mpitrace/internal/symbols"
	"github.com/mpitrace/mpitrace/internal/synth"
	"golang.org/x/sys/unix"
)

// writeScale makes a result of ranks that use 64 KiB of their segments each.
func writeScale(t testing.TB, ranks int) string {
	t.Helper()
	dir := t.TempDir()
	if err := synth.Scale(ranks).Write(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// BenchmarkReport reads large results and writes the overview, as `mpitrace
// report` does. Time per rank stays the same if the work is linear.
func BenchmarkReport(b *testing.B) {
	for _, ranks := range []int{1024, 4096, 16384} {
		b.Run(fmt.Sprint(ranks), func(b *testing.B) {
			dir := writeScale(b, ranks)
			b.ReportAllocs()
			for b.Loop() {
				r, err := Load(dir, Options{Symbols: symbols.New(symbols.Options{})})
				if err != nil {
					b.Fatal(err)
				}
				if err := r.WriteText(io.Discard, View{}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(ranks), "ns/rank")
			var usage unix.Rusage
			if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(usage.Maxrss)/1024, "MiB-peak")
		})
	}
}

// TestMemoryPerRank: what a report keeps of a rank is small and does not grow
// with the size of its segment.
func TestMemoryPerRank(t *testing.T) {
	const ranks = 1024
	dir := writeScale(t, ranks)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	r, err := Load(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	perRank := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / ranks
	if perRank > 3000 {
		t.Errorf("a report keeps %d bytes of each rank, at most 3000 are expected", perRank)
	}
	if len(r.Ranks) != ranks || len(r.Problems) > 0 {
		t.Errorf("%d ranks, problems %q", len(r.Ranks), r.Problems)
	}
}
