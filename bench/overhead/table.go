package main

import (
	"fmt"
	"slices"
	"strings"
)

// row is how a loop appears in the table.
type row struct {
	limit  float64 // most added ns per call; 0: published without a limit
	inMean bool    // one of the six loops of the mean
	calls  float64 // calls of one rank per figure of a two-rank loop; 0: no such loop
}

// rows tells what is promised of each loop. A half round trip is a Send and
// a Recv; a message of a window is one start, and its share of Waitall and
// acknowledgement.
var rows = map[string]row{
	"Comm_rank":           {limit: 20, inMean: true},
	"Iprobe":              {limit: 25, inMean: true},
	"Sendrecv":            {limit: 40, inMean: true},
	"Sendrecv_64x13":      {inMean: true},
	"Irecv+Send+Wait":     {limit: 40, inMean: true},
	"Allreduce":           {inMean: true},
	"2ranks_ping-pong_8B": {calls: 2},
	"2ranks_window_64":    {calls: 66.0 / 64.0},
	"2ranks_Allreduce":    {calls: 1},
}

// meanLimit is the most added ns per call in the mean of the six loops.
const meanLimit = 35

// median of an unsorted list; 0 of an empty one.
func median(values []float64) float64 { return quantile(values, 0.5) }

// quantile interpolates linearly between the sorted values.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	at := q * float64(len(sorted)-1)
	low := int(at)
	high := min(low+1, len(sorted)-1)
	return sorted[low] + (at-float64(low))*(sorted[high]-sorted[low])
}

// differences pairs the repetitions of a variant with those of native.
func differences(variant, native []float64) []float64 {
	out := make([]float64, min(len(variant), len(native)))
	for i := range out {
		out[i] = variant[i] - native[i]
	}
	return out
}

// added is the median of the paired differences, and half the distance of
// their quartiles.
func (f *figures) added(name, loop string) (ns, spread float64) {
	d := differences(f.ns[figure{name, loop}], f.ns[figure{f.variants[0].name, loop}])
	return median(d), (quantile(d, 0.75) - quantile(d, 0.25)) / 2
}

// meanAdded is the mean of a variant's figures of the six loops.
func (f *figures) meanAdded(name string) float64 {
	sum, n := 0.0, 0
	for loop, r := range rows {
		if r.inMean {
			ns, _ := f.added(name, loop)
			sum += ns
			n++
		}
	}
	return sum / float64(n)
}

// table prints all figures of one MPI and says whether the shim is within
// its limits.
func (f *figures) table() (text string, within bool) {
	var b strings.Builder
	within = true
	n := len(f.ns[figure{f.variants[0].name, f.loops[0]}])
	fmt.Fprintf(&b, "\n%s, %d repetitions; native ns per call (median), added ns per call (median of paired differences, ± half the quartile distance)\n", f.mpi.Name, n)
	fmt.Fprintf(&b, "%-22s%9s", "loop", "native")
	for _, v := range f.columns() {
		fmt.Fprintf(&b, "%18s", v.name)
	}
	fmt.Fprintf(&b, "  %s\n", "limit of "+shimName)
	for i, loop := range f.loops {
		fmt.Fprintf(&b, "%-22s%9.1f", loop, median(f.ns[figure{f.variants[0].name, loop}]))
		for _, v := range f.columns() {
			ns, spread := f.added(v.name, loop)
			fmt.Fprintf(&b, "%+10.1f ±%6.1f", ns, spread)
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

// columns are the variants beside native that have figures.
func (f *figures) columns() []variant {
	return slices.DeleteFunc(slices.Clone(f.variants[1:]), func(v variant) bool { return f.failed[v.name] != "" })
}

func (f *figures) has(name string) bool {
	return slices.ContainsFunc(f.columns(), func(v variant) bool { return v.name == name })
}

// hasMean says whether the six loops were run.
func (f *figures) hasMean() bool { return slices.Contains(f.loops, "Comm_rank") }

func (f *figures) meanRow(b *strings.Builder) bool {
	fmt.Fprintf(b, "%-22s%9s", "mean of the six", "")
	for _, v := range f.columns() {
		fmt.Fprintf(b, "%+10.1f%8s", f.meanAdded(v.name), "")
	}
	verdict, ok := compare(f.has(shimName), f.meanAdded(shimName), meanLimit, "<=")
	fmt.Fprintf(b, "  %s\n", verdict)
	return ok
}

// verdict compares the shim's figure with the loop's limit, or with what the
// mean of the six predicts for a loop of two ranks. Those vary from run to run
// by more than the shim adds, so they may exceed it by their spread.
func (f *figures) verdict(loop string) (string, bool) {
	r := rows[loop]
	ns, spread := f.added(shimName, loop)
	switch {
	case r.limit > 0:
		return compare(f.has(shimName), ns, r.limit, "<=")
	case r.calls > 0 && f.has(shimName) && f.hasMean():
		return compare(true, ns-spread, r.calls*f.meanAdded(shimName), "predicted <=")
	}
	return "", true
}

func compare(measured bool, ns, limit float64, sign string) (string, bool) {
	text := fmt.Sprintf("%s %.0f", sign, limit)
	switch {
	case !measured:
		return text, true
	case ns <= limit:
		return text + " ok", true
	}
	return text + " OVER", false
}

// raw lists every figure: mpi, variant, loop and one column per repetition.
func (f *figures) raw() string {
	var b strings.Builder
	for _, v := range f.variants {
		for _, loop := range f.loops {
			fmt.Fprintf(&b, "%s %s %s", f.mpi.Name, v.name, loop)
			for _, ns := range f.ns[figure{v.name, loop}] {
				fmt.Fprintf(&b, " %.3f", ns)
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}
