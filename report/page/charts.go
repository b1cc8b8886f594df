package page

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/mpitrace/mpitrace/report"
	"github.com/mpitrace/mpitrace/reusetrack"
)

// Sizes of charts in units of their view box, and how many there are.
const (
	wideWidth, wideHeight   = 960, 220
	smallWidth, smallHeight = 360, 150
	barsMax                 = 240
	histograms              = 6
)

// balanceChart shows the share of MPI over the ranks; of many ranks, bars are
// means of neighbours and carry their range.
func balanceChart(r *report.Report) *chart {
	each := max(1, (len(r.Ranks)+barsMax-1)/barsMax)
	var columns []column
	for part := range slices.Chunk(r.Ranks, each) {
		c := column{Low: 1, Whole: 0}
		for _, rank := range part {
			c.Part += rank.Share / float64(len(part))
			c.Low, c.High = min(c.Low, rank.Share), max(c.High, rank.Share)
		}
		first, last := part[0].Rank, part[len(part)-1].Rank
		c.Name, c.Whole = fmt.Sprint(first), c.Part
		c.Text = fmt.Sprintf("%s: %s in MPI", rankSpan(first, last), report.Percent(c.Part))
		if len(part) == 1 {
			c.Low, c.High = 0, 0
		} else {
			c.Text += fmt.Sprintf(", least %s, most %s", report.Percent(c.Low), report.Percent(c.High))
		}
		columns = append(columns, c)
	}
	title := "Share of the time in MPI by rank"
	if each > 1 {
		title += fmt.Sprintf(": each bar is the mean of %d ranks, the line its least and most", each)
	}
	share := r.Job.Share
	intro := fmt.Sprintf("Share of the time in MPI of %s, least %s on rank %d, most %s on rank %d", plural(len(r.Ranks), "rank"),
		report.Percent(share.Min), share.MinRank, report.Percent(share.Max), share.MaxRank)
	return newChart(title, wideWidth, wideHeight, columns, 1, report.Percent).say(intro, columns)
}

// countAxis writes counts; there are no halves of them.
func countAxis(v float64) string {
	if v < 1 {
		return ""
	}
	return report.Count(uint64(math.Round(v)))
}

// addHistograms draws the sizes of messages and the durations of calls: all
// together and of the functions that matter most.
func (c *content) addHistograms(r *report.Report) {
	all := map[uint64]report.Bin{}
	bySize, byTime := []*report.Function{}, []*report.Function{}
	for _, f := range r.Functions {
		for _, b := range f.Sizes {
			b.Count += all[b.From].Count
			all[b.From] = b
		}
		if len(f.Sizes) > 0 {
			bySize = append(bySize, f)
		}
		if len(f.Times) > 0 && f.TimeNS > 0 && !f.Setup() {
			byTime = append(byTime, f)
		}
	}
	var bins []report.Bin
	for _, b := range all {
		bins = append(bins, b)
	}
	slices.SortFunc(bins, func(x, y report.Bin) int { return cmp.Compare(x.From, y.From) })
	messages := func(f *report.Function) uint64 { return countOf(f.Sizes) }
	slices.SortStableFunc(bySize, func(x, y *report.Function) int { return -cmp.Compare(messages(x), messages(y)) })
	if len(bySize) > 1 {
		c.Sizes = append(c.Sizes, histogram("all functions", "messages", bins, sizeName))
	}
	for _, f := range bySize[:min(len(bySize), histograms-1)] {
		c.Sizes = append(c.Sizes, histogram(f.Name, "messages", f.Sizes, sizeName))
	}
	for _, f := range byTime[:min(len(byTime), histograms)] {
		c.Durations = append(c.Durations, histogram(f.Name, "calls", f.Times, timeName))
	}
	c.SizesEmpty, c.DurationsEmpty = "No messages with a payload were counted.", "No calls were timed."
}

func countOf(bins []report.Bin) (sum uint64) {
	for _, b := range bins {
		sum += b.Count
	}
	return sum
}

// histogram draws bins, those between the first and the last that are empty
// too.
func histogram(title, what string, bins []report.Bin, name func(from, to uint64) string) *chart {
	total := countOf(bins)
	var columns []column
	for _, b := range filled(bins) {
		columns = append(columns, column{Name: name(b.From, b.To), Whole: float64(b.Count), Part: float64(b.Count),
			Text: fmt.Sprintf("%s: %s %s, %s", name(b.From, b.To), report.Count(b.Count), what, report.Percent(float64(b.Count)/float64(max(1, total))))})
	}
	shown := fmt.Sprintf("%s: %s %s", title, report.Count(total), what)
	return newChart(shown, smallWidth, smallHeight, columns, 0, countAxis).say(shown, largest(columns))
}

// filled puts bins without a count between those that have one.
func filled(bins []report.Bin) []report.Bin {
	var out []report.Bin
	for i, b := range bins {
		if i > 0 {
			for from := out[len(out)-1].To; from > 0 && from < b.From; from *= 2 {
				out = append(out, report.Bin{From: from, To: from * 2})
			}
		}
		out = append(out, b)
	}
	return out
}

// largest is the columns that are not empty, the largest first.
func largest(columns []column) []column {
	out := slices.DeleteFunc(slices.Clone(columns), func(c column) bool { return c.Whole == 0 })
	slices.SortStableFunc(out, func(x, y column) int { return -cmp.Compare(x.Whole, y.Whole) })
	return out
}

// sizeName names a bin of sizes by where it begins.
func sizeName(from, _ uint64) string { return report.Binary(from) }

// timeName names a bin of durations by where it begins.
func timeName(from, _ uint64) string { return report.Duration(from) }

// addReuse draws for each path how many uses of buffers of a size found one
// used before, and how long ago that was.
func (c *content) addReuse(r *report.Report) {
	names := map[string]string{"send": "Sends", "receive": "Receives", "origin": "One-sided operations"}
	for _, u := range r.Reuse {
		name := cmp.Or(names[u.Path.Path], u.Path.Path)
		var columns []column
		for _, class := range u.Classes {
			columns = append(columns, column{Name: sizeName(class.From, class.To), Whole: float64(class.Accesses), Part: float64(class.Reused),
				Text: fmt.Sprintf("%s: %s uses, %s of a buffer used before, %s buffers", report.Sizes(class.From, class.To),
					report.Count(class.Accesses), report.Percent(float64(class.Reused)/float64(max(1, class.Accesses))), report.Count(class.Buffers))})
		}
		c.Uses = append(c.Uses, newChart(name+" by payload, dark: from a buffer used before", smallWidth, smallHeight, columns, 0, countAxis).
			say(name+" by payload", largest(columns)), distanceChart(name, u.Distances))
	}
}

// distanceChart shows how many other uses lie between two of one buffer.
func distanceChart(name string, bins []reusetrack.Bin) *chart {
	var columns []column
	for _, b := range bins {
		text := fmt.Sprintf("%d–%d", b.From, b.To-1)
		switch b.To {
		case 0:
			text = fmt.Sprintf("%d or more", b.From)
		case b.From + 1:
			text = fmt.Sprint(b.From)
		}
		columns = append(columns, column{Name: fmt.Sprint(b.From), Whole: float64(b.Count), Part: float64(b.Count),
			Text: fmt.Sprintf("%s uses later: %s", text, report.Count(b.Count))})
	}
	return newChart(name+" by distance: uses of any buffer since the last of the same one", smallWidth, smallHeight, columns, 0, countAxis).
		say(name+" by distance since the last use of the same buffer", largest(columns))
}
