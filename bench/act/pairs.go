package main

import (
	"math"
	"slices"

	"github.com/mpitrace/mpitrace/internal/microbench"
	"github.com/mpitrace/mpitrace/internal/stats"
)

// slowdown is by how much one of two ways to run is slower than the other, from
// pairs of runs: 0.02 is 2 % more time.
type slowdown struct {
	mean, lower, upper float64 // bounds of 95 %, each one-sided
	pairs              int
}

// student are the 95 % points of Student's distribution, one-sided, by degrees of
// freedom from 1.
var student = []float64{6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812, 1.796, 1.782, 1.771, 1.761, 1.753, 1.746, 1.740, 1.734, 1.729, 1.725}

// slowdownOf takes times of pairs; logarithms, for a run that takes twice and one
// that takes half the time are equally far off.
func slowdownOf(base, other []float64) slowdown {
	n := min(len(base), len(other))
	if n == 0 {
		return slowdown{math.NaN(), math.NaN(), math.NaN(), 0}
	}
	mean, squares := 0.0, 0.0
	for i := range n {
		mean += math.Log(other[i]/base[i]) / float64(n)
	}
	for i := range n {
		d := math.Log(other[i]/base[i]) - mean
		squares += d * d
	}
	s := slowdown{mean: math.Expm1(mean), lower: math.Inf(-1), upper: math.Inf(1), pairs: n}
	if n > 1 {
		t := student[min(n-1, len(student))-1]
		half := t * math.Sqrt(squares/float64(n-1)/float64(n))
		s.lower, s.upper = math.Expm1(mean-half), math.Expm1(mean+half)
	}
	return s
}

// quotient is what one way takes (or reaches) of another one: the median of pairs of
// runs, with one-sided bounds of 95 % of it that no outlier moves.
type quotient struct{ median, lower, upper float64 }

// quotientOf takes what two ways measured in turn; nil where those are no pairs.
// Its bounds are order statistics: that the median lies below the k-th of n is as
// probable as fewer than k heads in n throws of a coin. Of fewer than 5 pairs there
// are none.
func quotientOf(base, other *microbench.Sample) *quotient {
	if base == nil || other == nil || len(base.Values) != len(other.Values) || slices.Min(base.Values) <= 0 {
		return nil
	}
	var all []float64
	for i := range base.Values {
		all = append(all, other.Values[i]/base.Values[i])
	}
	slices.Sort(all)
	n := len(all)
	q := &quotient{stats.Median(all), math.Inf(-1), math.Inf(1)}
	exactly, atMost := math.Exp2(-float64(n)), 0.0 // k heads
	for k := range n {
		if atMost += exactly; atMost > 0.05 {
			break
		}
		q.lower, q.upper = all[k], all[n-1-k]
		exactly *= float64(n-k) / float64(k+1)
	}
	return q
}

// ofBeside is what the benchmarks that compare within one job say, in per cent of the
// same on communicator "beside".
func ofBeside(s *microbench.Sample) *quotient {
	if s == nil {
		return nil
	}
	return quotientOf(&microbench.Sample{Values: slices.Repeat([]float64{100}, len(s.Values))}, s)
}
