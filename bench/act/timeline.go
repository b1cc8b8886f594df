package main

import (
	"fmt"
	"html"
	"strings"

	"github.com/mpitrace/mpitrace/internal/microbench"
)

// timeline is one message as its receiver sees it, a bar for each way to run.
type timeline struct {
	title string
	bars  []bar
}

// bar has moments in us since both ranks met.
type bar struct {
	name                           string
	posted, first, last, wait, end float64
}

// timelineOf takes the medians of the benchmark snapshot, of one size and
// computation.
func timelineOf(r *microbench.Report, title string) timeline {
	bars := make([]bar, 1+len(r.Act))
	bars[0].name = "native"
	for i, policy := range r.Act {
		bars[1+i].name = policy
	}
	moments := map[string]func(*bar) *float64{
		"posted_us": func(b *bar) *float64 { return &b.posted },
		"first_us":  func(b *bar) *float64 { return &b.first },
		"last_us":   func(b *bar) *float64 { return &b.last },
		"wait_us":   func(b *bar) *float64 { return &b.wait },
		"end_us":    func(b *bar) *float64 { return &b.end },
	}
	for metric, moment := range moments {
		for _, row := range rowsOf(r, "snapshot", metric) {
			for i, s := range samplesOf(row) {
				if s != nil {
					*moment(&bars[i]) = s.Median
				}
			}
		}
	}
	t := timeline{title: title}
	for _, b := range bars {
		if b.end > 0 {
			t.bars = append(t.bars, b)
		}
	}
	return t
}

// The height of a bar, and of what belongs to it.
const barHeight, barStep = 10.0, 44.0

// svg draws for each way its computation, below it when the data came, below that
// MPI_Wait.
func (t timeline) svg() string {
	most := 1.0
	for _, b := range t.bars {
		most = max(most, b.end)
	}
	bottom := marginTop + barStep*float64(len(t.bars))
	var out strings.Builder
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%.0f" font-family="sans-serif" font-size="12">`+"\n", imageWidth, bottom+60)
	fmt.Fprintf(&out, `<rect width="100%%" height="100%%" fill="white"/><text x="%.0f" y="24" font-size="14">%s</text>`+"\n", marginLeft, html.EscapeString(t.title))
	for i := range ticks + 1 {
		at := marginLeft + plotWidth*float64(i)/ticks
		fmt.Fprintf(&out, `<path d="M%.1f,%.1f V%.1f" stroke="#dddddd"/><text x="%.1f" y="%.1f" text-anchor="middle">%.1f</text>`+"\n",
			at, marginTop, bottom, at, bottom+18, most*float64(i)/ticks/microsecondsOfAMillisecond)
	}
	fmt.Fprintf(&out, `<text x="%.1f" y="%.1f" text-anchor="middle">since both ranks met, ms</text>`+"\n", marginLeft+plotWidth/2, bottom+40)
	for i, b := range t.bars {
		up := marginTop + 6 + barStep*float64(i)
		for k, part := range []struct {
			from, to     float64
			colour, name string
		}{{b.posted, b.wait, "#999999", "computes"}, {b.first, b.last, "#0072b2", "data comes"}, {b.wait, b.end, "#d55e00", "MPI_Wait"}} {
			fmt.Fprintf(&out, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.0f" fill="%s"/>`+"\n", marginLeft+part.from/most*plotWidth,
				up+barHeight*float64(k), max(1, (part.to-part.from)/most*plotWidth), barHeight, part.colour)
			if i == 0 {
				fmt.Fprintf(&out, `<text x="%.1f" y="37" fill="%s">%s</text>`+"\n", plotRight-160+80*float64(k), part.colour, part.name)
			}
		}
		fmt.Fprintf(&out, `<text x="%.1f" y="%.1f">%s</text>`+"\n", plotRight+14, up+barHeight*1.8, html.EscapeString(b.name))
	}
	out.WriteString("</svg>\n")
	return out.String()
}
