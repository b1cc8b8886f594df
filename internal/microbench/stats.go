package microbench

import (
	"math"
	"slices"
)

// Sample is the values of one metric, one per repetition.
type Sample struct {
	Values []float64 `json:"values"`
	Median float64   `json:"median"`
	Spread float64   `json:"spread"` // half the distance of the quartiles
}

// newSample summarises values; nil without any.
func newSample(values []float64) *Sample {
	if len(values) == 0 {
		return nil
	}
	return &Sample{values, quantile(values, 0.5), (quantile(values, 0.75) - quantile(values, 0.25)) / 2}
}

// quantile interpolates linearly between the sorted values; 0 of none.
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

// ratio is the median of preloaded/native over the repetitions that have
// both; nil where no native value is above 0. The values of a metric are
// those of the same repetitions in the same order, NaN where one is missing.
func ratio(native, preloaded []float64) *float64 {
	var ratios []float64
	for i := range min(len(native), len(preloaded)) {
		r := preloaded[i] / native[i]
		if native[i] > 0 && !math.IsNaN(r) {
			ratios = append(ratios, r)
		}
	}
	if len(ratios) == 0 {
		return nil
	}
	m := quantile(ratios, 0.5)
	return &m
}

// present drops the missing values.
func present(values []float64) []float64 {
	return slices.DeleteFunc(slices.Clone(values), math.IsNaN)
}
