package main

import (
	"fmt"
	"html"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/mpitrace/mpitrace/internal/microbench"
)

// chart is latency over delay, both in us, a line for each way to run.
type chart struct {
	title string
	lines []line
}

type line struct {
	name   string
	points []point
}

type point struct{ x, y float64 }

// chartOf takes the latencies of a benchmark that sweeps delays.
func chartOf(r *microbench.Report, name, title string) chart {
	c := chart{title: title}
	lines := make([]line, 1+len(r.Act))
	lines[0].name = "native"
	for i, policy := range r.Act {
		lines[1+i].name = policy
	}
	for _, row := range rowsOf(r, name, "latency_us") {
		x := 0.0
		for _, d := range row.Dims {
			if d.Key == "delay" {
				x, _ = strconv.ParseFloat(strings.TrimSuffix(d.Value, "us"), 64) // of --delays
			}
		}
		for i, s := range samplesOf(row) {
			if s != nil {
				lines[i].points = append(lines[i].points, point{x, s.Median})
			}
		}
	}
	for _, l := range lines {
		if len(l.points) > 0 {
			c.lines = append(c.lines, l)
		}
	}
	return c
}

// samplesOf are the native sample of a row and those of the policies, nil where
// nothing was measured.
func samplesOf(row *microbench.Row) []*microbench.Sample {
	samples := []*microbench.Sample{row.Native}
	for _, acted := range row.Act {
		samples = append(samples, acted.Sample)
	}
	return samples
}

// The drawing area, within margins for the scales.
const (
	plotWidth, plotHeight          = 560.0, 320.0
	marginLeft, marginTop          = 70.0, 40.0
	plotRight, plotBottom          = marginLeft + plotWidth, marginTop + plotHeight
	imageWidth, imageHeight, ticks = 860, 420, 5
	microsecondsOfAMillisecond     = 1000.0
)

var colours = []string{"#444444", "#0072b2", "#e69f00", "#d55e00", "#009e73", "#cc79a7"}

// svg draws the chart. The thin line is latency = delay: what lies on it and above
// waited for the delayed rank.
func (c chart) svg() string {
	most := point{1, 1}
	for _, l := range c.lines {
		for _, p := range l.points {
			most.x, most.y = max(most.x, p.x), max(most.y, p.y)
		}
	}
	place := func(p point) string {
		return fmt.Sprintf("%.1f,%.1f", marginLeft+p.x/most.x*plotWidth, plotBottom-p.y/most.y*plotHeight)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="12">`+"\n", imageWidth, imageHeight)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="white"/><text x="%.0f" y="24" font-size="14">%s</text>`+"\n", marginLeft, html.EscapeString(c.title))
	for i := range ticks + 1 {
		x, y := most.x*float64(i)/ticks, most.y*float64(i)/ticks
		at := marginLeft + plotWidth*float64(i)/ticks
		up := plotBottom - plotHeight*float64(i)/ticks
		fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" text-anchor="middle">%.1f</text><text x="%.1f" y="%.1f" text-anchor="end">%.1f</text>`+"\n",
			at, plotBottom+18, x/microsecondsOfAMillisecond, marginLeft-6, up+4, y/microsecondsOfAMillisecond)
		fmt.Fprintf(&b, `<path d="M%.1f,%.1f H%.1f" stroke="#dddddd"/>`+"\n", marginLeft, up, plotRight)
	}
	fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" text-anchor="middle">delay, ms</text>`+"\n", marginLeft+plotWidth/2, plotBottom+40)
	fmt.Fprintf(&b, `<text transform="translate(18,%.1f) rotate(-90)" text-anchor="middle">receive latency, ms</text>`+"\n", marginTop+plotHeight/2)
	diagonal := min(most.x, most.y)
	fmt.Fprintf(&b, `<path d="M%s L%s" stroke="#999999" stroke-dasharray="3 3"/>`+"\n", place(point{}), place(point{diagonal, diagonal}))
	for i, l := range c.lines {
		var corners []string
		for _, p := range l.points {
			corners = append(corners, place(p))
		}
		colour := colours[i%len(colours)]
		fmt.Fprintf(&b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", strings.Join(corners, " "), colour)
		fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" fill="%s">%s</text>`+"\n", plotRight+14, marginTop+16+20*float64(i), colour, html.EscapeString(l.name))
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// plot writes a picture into b.out, and says so.
func (b *bench) plot(svg, name string) {
	path := filepath.Join(b.out, name)
	if err := os.WriteFile(path, []byte(svg), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, "bench/act:", err)
		return
	}
	fmt.Printf("plot: %s\n", name)
}
