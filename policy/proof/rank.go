package proof

import (
	"cmp"
	"math"
	"slices"
)

// signedRank is Wilcoxon's signed-rank statistic of the differences as a
// standard normal deviate (1945; normal approximation with correction for ties
// and continuity): below 0 if they tend to be negative. It asks nothing of
// their distribution but symmetry, so that a few epochs in which the machine did
// something else do not decide. Zeros are left out; it is 0 with none left.
func signedRank(differences []float64) float64 {
	d := slices.DeleteFunc(slices.Clone(differences), func(v float64) bool { return v == 0 || math.IsNaN(v) })
	slices.SortFunc(d, func(a, b float64) int { return cmp.Compare(math.Abs(a), math.Abs(b)) })
	n := float64(len(d))
	sum, ties := 0.0, 0.0
	for i := 0; i < len(d); {
		j := i
		for j < len(d) && math.Abs(d[j]) == math.Abs(d[i]) {
			j++
		}
		rank, same := float64(i+j+1)/2, float64(j-i)
		for _, v := range d[i:j] {
			sum += math.Copysign(rank, v)
		}
		ties += same*same*same - same
		i = j
	}
	variance := n*(n+1)*(2*n+1)/6 - ties/12
	if variance <= 0 {
		return 0
	}
	return math.Copysign(max(0, math.Abs(sum)-1), sum) / math.Sqrt(variance)
}

// median of values; 0 without any.
func median(values []float64) float64 {
	v := slices.Sorted(slices.Values(values))
	if len(v) == 0 {
		return 0
	}
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}
