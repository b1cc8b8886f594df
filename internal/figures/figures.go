// Package figures writes numbers for people: three digits and a unit. It knows
// nothing of what is measured.
package figures

import (
	"fmt"
	"math"
	"strconv"
)

// Duration writes nanoseconds with three Digits and a unit: "4.56 ms".
func Duration(ns uint64) string {
	units := []struct {
		name  string
		size  float64
		until float64 // ns at which the next unit begins
	}{
		{"us", 1e3, 1e6}, {"ms", 1e6, 1e9}, {"s", 1e9, 120e9}, {"min", 60e9, 7200e9}, {"h", 3600e9, 172800e9}, {"d", 86400e9, math.Inf(1)},
	}
	if ns < 1000 {
		return strconv.FormatUint(ns, 10) + " ns"
	}
	value := float64(ns)
	for _, u := range units {
		// What would be rounded up to the next unit belongs to it.
		if value < u.until*0.9995 {
			return Digits(value/u.size) + " " + u.name
		}
	}
	return "" // not reached: the last unit has no end
}

// Digits writes a number with three significant Digits, or all Digits before
// the point.
func Digits(v float64) string {
	switch {
	case v >= 99.95:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 9.995:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// Bytes writes a size with three Digits: "81.9 MB"; below 10,000 exactly.
func Bytes(n uint64) string {
	if n < 10_000 {
		return strconv.FormatUint(n, 10) + " B"
	}
	value := float64(n)
	for _, unit := range []string{"kB", "MB", "GB", "TB", "PB"} {
		value /= 1000
		if value < 999.5 {
			return Digits(value) + " " + unit
		}
	}
	return Digits(value/1000) + " EB"
}

// Count writes a count with separators, from ten million on in millions.
func Count(n uint64) string {
	switch {
	case n >= 1e13:
		return Digits(float64(n)/1e12) + " T"
	case n >= 1e10:
		return Digits(float64(n)/1e9) + " G"
	case n >= 1e7:
		return Digits(float64(n)/1e6) + " M"
	}
	text := strconv.FormatUint(n, 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// Percent writes a share between 0 and 1.
func Percent(share float64) string {
	switch {
	case share > 0 && share < 0.0005:
		return "<0.1 %"
	case share >= 0.0995:
		return fmt.Sprintf("%.0f %%", share*100)
	}
	return fmt.Sprintf("%.1f %%", share*100)
}
