package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/mpitrace/mpitrace/internal/stats"
)

// row is how a loop appears in the table.
type row struct {
	limit  float64 // most added ns per call; 0: published without a limit
	inMean bool    // one of the six loops of the mean
	calls  float64 // of a two-rank loop: MPI calls on its critical path; 0: no such loop
	like   string  // ... the loop of one rank that makes the same calls; empty: as the mean of the six
}

// rows tells what is promised of each loop.
//
// The critical path of a two-rank loop is the longest chain of calls of which
// each waits for the one before; what the other rank does meanwhile costs
// nothing. Half a round trip is a Send on one side and a Recv on the other. A
// window is 64 Isend beside 64 Irecv, then the receiver's Waitall, its Send of
// the acknowledgement and the sender's Recv of it, over 64 messages: calls of
// the kind that Irecv+Send+Wait makes. An Allreduce is one call on both at once.
var rows = map[string]row{
	"Comm_rank":           {limit: 20, inMean: true},
	"Iprobe":              {limit: 25, inMean: true},
	"Sendrecv":            {limit: 40, inMean: true},
	"Sendrecv_64x13":      {inMean: true},
	"Irecv+Send+Wait":     {limit: 40, inMean: true},
	"Allreduce":           {inMean: true},
	"2ranks_ping-pong_8B": {calls: 2},
	"2ranks_window_64":    {calls: (64 + 3) / 64.0, like: "Irecv+Send+Wait"},
	"2ranks_Allreduce":    {calls: 1},
}

// meanLimit is the most added ns per call in the mean of the six loops.
const meanLimit = 35

// twoRankLimit is what calls times the limit of one call allow a loop of two
// ranks.
func (r row) twoRankLimit() float64 {
	if r.like != "" {
		return r.calls * rows[r.like].limit
	}
	return r.calls * meanLimit
}

// column is one column of differences: what variant takes beyond base.
type column struct{ title, variant, base string }

// differences pairs the repetitions of a variant with those of native.
func differences(variant, native []float64) []float64 {
	out := make([]float64, min(len(variant), len(native)))
	for i := range out {
		out[i] = variant[i] - native[i]
	}
	return out
}

// added is the median of a column's paired differences, and half the distance
// of their quartiles; ok is false if the loop was not run in this variant.
func (f *figures) added(c column, loop string) (ns, spread float64, ok bool) {
	d := differences(f.ns[figure{c.variant, loop}], f.ns[figure{c.base, loop}])
	return stats.Median(d), (stats.Quantile(d, 0.75) - stats.Quantile(d, 0.25)) / 2, len(d) > 0
}

// addedByShim is what the shim adds to native.
func (f *figures) addedByShim(loop string) (ns, spread float64, ok bool) {
	return f.added(column{shimName, shimName, nativeName}, loop)
}

// meanAdded is the mean of a column's figures of the six loops; ok is false
// if one of them was not run.
func (f *figures) meanAdded(c column) (mean float64, ok bool) {
	sum, n := 0.0, 0
	for loop, r := range rows {
		if !r.inMean {
			continue
		}
		ns, _, ok := f.added(c, loop)
		if !ok {
			return 0, false
		}
		sum += ns
		n++
	}
	return sum / float64(n), true
}

// table prints all figures and says whether the shim is within its limits.
func (f *figures) table() (text string, within bool) {
	var b strings.Builder
	within = true
	n := len(f.ns[figure{nativeName, f.loops[0]}])
	fmt.Fprintf(&b, "\n%s, %d repetitions; native ns per call (median), added ns per call (median of paired differences, ± half the quartile distance)\n", f.mpi.Name, n)
	f.head(&b)
	for i, loop := range f.loops {
		fmt.Fprintf(&b, "%-22s%9.1f", loop, stats.Median(f.ns[figure{nativeName, loop}]))
		for _, c := range f.columns() {
			b.WriteString(cell(f.added(c, loop)))
		}
		verdict, ok := f.verdict(loop)
		within = within && ok
		fmt.Fprintf(&b, "  %s\n", verdict)
		if rows[loop].inMean && (i+1 == len(f.loops) || !rows[f.loops[i+1]].inMean) {
			within = f.meanRow(&b) && within
		}
	}
	for _, v := range f.variants {
		if why := f.failed[v.name]; why != "" {
			fmt.Fprintf(&b, "%s fails on %s: %s\n", v.name, f.mpi.Name, firstLine(why))
		}
	}
	return b.String(), within
}

func (f *figures) head(b *strings.Builder) {
	fmt.Fprintf(b, "%-22s%9s", "loop", nativeName)
	for _, c := range f.columns() {
		fmt.Fprintf(b, "%18s", c.title)
	}
	fmt.Fprintf(b, "  limit of %s\n", shimName)
}

// cell is one figure of the table, blank if there is none.
func cell(ns, spread float64, ok bool) string {
	if !ok {
		return fmt.Sprintf("%18s", "")
	}
	return fmt.Sprintf("%+10.1f ±%6.1f", ns, spread)
}

// columns are the variants beside native that have figures, against native,
// and the further ones.
func (f *figures) columns() []column {
	var list []column
	for _, v := range f.variants[1:] {
		if f.failed[v.name] == "" {
			list = append(list, column{v.name, v.name, nativeName})
		}
	}
	return append(list, f.further...)
}

func (f *figures) meanRow(b *strings.Builder) bool {
	fmt.Fprintf(b, "%-22s%9s", "mean of the six", "")
	for _, c := range f.columns() {
		if mean, ok := f.meanAdded(c); ok {
			fmt.Fprintf(b, "%+10.1f%8s", mean, "")
		} else {
			fmt.Fprintf(b, "%18s", "")
		}
	}
	mean, measured := f.meanAdded(column{shimName, shimName, nativeName})
	verdict, ok := compare(measured, mean, meanLimit)
	fmt.Fprintf(b, "  %s\n", verdict)
	return ok
}

// verdict compares the shim's figure with the loop's limit.
func (f *figures) verdict(loop string) (string, bool) {
	r := rows[loop]
	ns, _, measured := f.addedByShim(loop)
	switch {
	case r.limit > 0:
		return compare(measured, ns, r.limit)
	case r.calls > 0:
		text, ok := compare(measured, ns, r.twoRankLimit())
		return text + f.remarks(loop), ok
	}
	return "", true
}

// remarks tell of a two-rank loop what the measured figure of its calls predicts,
// and whether its own figure can be told from none at all. The limit makes no
// allowance for either.
func (f *figures) remarks(loop string) string {
	ns, spread, measured := f.addedByShim(loop)
	text := ""
	r := rows[loop]
	if like, _, ok := f.addedByShim(r.like); ok {
		text = fmt.Sprintf("; %s predicts %+.1f", r.like, r.calls*like)
	} else if mean, ok := f.meanAdded(column{shimName, shimName, nativeName}); ok && r.like == "" {
		text = fmt.Sprintf("; the mean of the six predicts %+.1f", r.calls*mean)
	}
	if measured && spread > math.Abs(ns) {
		text += "; spread larger than the difference"
	}
	return text
}

// compare says how a figure stands to its limit.
func compare(measured bool, figure, limit float64) (string, bool) {
	text := "<= " + strconv.FormatFloat(math.Round(limit*10)/10, 'f', -1, 64)
	switch {
	case !measured:
		return text, true
	case figure <= limit:
		return text + " ok", true
	}
	return text + " OVER", false
}

// raw lists every figure: mpi, variant, loop and one figure per repetition.
func (f *figures) raw() string {
	var b strings.Builder
	for _, v := range f.variants {
		for _, loop := range f.loops {
			if ns := f.ns[figure{v.name, loop}]; len(ns) > 0 {
				b.WriteString(rawLine(f.mpi.Name, v.name, loop, ns))
			}
		}
	}
	return b.String()
}

// rawLine is one line of the raw figures; names of several words are joined.
func rawLine(mpi, variant, loop string, ns []float64) string {
	line := mpi + " " + strings.ReplaceAll(variant, " ", "-") + " " + strings.ReplaceAll(loop, " ", "-")
	for _, value := range ns {
		line += fmt.Sprintf(" %.3f", value)
	}
	return line + "\n"
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}
