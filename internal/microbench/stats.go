package microbench

import (
	"math"
	"slices"

	"github.com/mpitrace/mpitrace/internal/stats"
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
	return &Sample{values, stats.Quantile(values, 0.5), (stats.Quantile(values, 0.75) - stats.Quantile(values, 0.25)) / 2}
}

// ratio is the median of other/native over the repetitions that have
// both; nil where no native value is above 0. The values of a metric are
// those of the same repetitions in the same order, NaN where one is missing.
func ratio(native, other []float64) *float64 {
	var ratios []float64
	for i := range min(len(native), len(other)) {
		r := other[i] / native[i]
		if native[i] > 0 && !math.IsNaN(r) {
			ratios = append(ratios, r)
		}
	}
	if len(ratios) == 0 {
		return nil
	}
	m := stats.Quantile(ratios, 0.5)
	return &m
}

// present drops the missing values.
func present(values []float64) []float64 {
	return slices.DeleteFunc(slices.Clone(values), math.IsNaN)
}
