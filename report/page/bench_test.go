package page

import (
	"fmt"
	"io"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/mpitrace/mpitrace/internal/symbols"
	"github.com/mpitrace/mpitrace/report"
	"golang.org/x/sys/unix"
)

// counter counts what is written.
type counter int64

func (c *counter) Write(data []byte) (int, error) {
	*c += counter(len(data))
	return len(data), nil
}

var _ io.Writer = (*counter)(nil)

// BenchmarkPage reads large results and writes the page, as `mpitrace report
// --html` does.
func BenchmarkPage(b *testing.B) {
	for _, ranks := range []int{1024, 4096, 16384} {
		b.Run(fmt.Sprint(ranks), func(b *testing.B) {
			dir := b.TempDir()
			if err := uneven(ranks).Write(dir); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			var bytes counter
			for b.Loop() {
				bytes = 0
				r, err := report.Load(dir, Needs(report.Options{Symbols: symbols.New(symbols.Options{})}))
				if err != nil {
					b.Fatal(err)
				}
				if err := Write(&bytes, r, Options{}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(bytes), "page-bytes")
			var usage unix.Rusage
			if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(usage.Maxrss)/1024, "MiB-peak")
		})
	}
}

// BenchmarkInteractive opens the page of a job in Chromium and tells when it
// can be used: the script has run, tables sort and maps are drawn.
func BenchmarkInteractive(b *testing.B) {
	for _, ranks := range []int{4, 4096} {
		b.Run(fmt.Sprint(ranks), func(b *testing.B) {
			address, _ := save(b, load(b, uneven(ranks), report.Options{}))
			ctx := chromium(b)
			sum, n := 0.0, 0
			for b.Loop() {
				do(b, ctx, chromedp.Navigate(address))
				sum, n = sum+ask[float64](b, ctx, "mpitrace.ready"), n+1
			}
			b.ReportMetric(sum/float64(n), "ms-interactive")
		})
	}
}
