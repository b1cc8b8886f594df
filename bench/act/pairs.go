package main

import (
	"math"
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
