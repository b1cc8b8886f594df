// Package stats has the few order statistics that measurements here are given
// by. It must not contain anything that knows what is measured.
package stats

import "slices"

// Quantile interpolates linearly between the sorted values (Hyndman and Fan
// 1996, type 7); q is from 0 to 1. It is 0 of no values, and leaves them in
// their order.
func Quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	at := q * float64(len(sorted)-1)
	low := int(at)
	high := min(low+1, len(sorted)-1)
	return sorted[low] + (at-float64(low))*(sorted[high]-sorted[low])
}

// Median is the quantile of one half.
func Median(values []float64) float64 { return Quantile(values, 0.5) }
