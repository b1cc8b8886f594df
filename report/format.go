package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// duration writes nanoseconds with three digits and a unit: "4.56 ms".
func duration(ns uint64) string {
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
			return digits(value/u.size) + " " + u.name
		}
	}
	return "" // not reached: the last unit has no end
}

// digits writes a number with three significant digits, or all digits before
// the point.
func digits(v float64) string {
	switch {
	case v >= 99.95:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 9.995:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// bytesText writes a size with three digits: "81.9 MB"; below 10,000 exactly.
func bytesText(n uint64) string {
	if n < 10_000 {
		return strconv.FormatUint(n, 10) + " B"
	}
	value := float64(n)
	for _, unit := range []string{"kB", "MB", "GB", "TB", "PB"} {
		value /= 1000
		if value < 999.5 {
			return digits(value) + " " + unit
		}
	}
	return digits(value/1000) + " EB"
}

// binaryText writes a bound of a size bin, a power of two: "8 KiB".
func binaryText(n uint64) string {
	for _, unit := range []string{"B", "KiB", "MiB", "GiB", "TiB"} {
		if n < 1024 {
			return strconv.FormatUint(n, 10) + " " + unit
		}
		n /= 1024
	}
	return strconv.FormatUint(n, 10) + " PiB"
}

// countText writes a count with separators, from ten million on in millions.
func countText(n uint64) string {
	switch {
	case n >= 1e13:
		return digits(float64(n)/1e12) + " T"
	case n >= 1e10:
		return digits(float64(n)/1e9) + " G"
	case n >= 1e7:
		return digits(float64(n)/1e6) + " M"
	}
	text := strconv.FormatUint(n, 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// percent writes a share between 0 and 1.
func percent(share float64) string {
	switch {
	case share > 0 && share < 0.0005:
		return "<0.1 %"
	case share >= 0.0995:
		return fmt.Sprintf("%.0f %%", share*100)
	}
	return fmt.Sprintf("%.1f %%", share*100)
}

// width is the number of columns that text takes on a terminal.
func width(text string) int { return utf8.RuneCountInString(text) }

// cut shortens text to at most columns; what identifies a path or a place is
// its end, so that of paths is kept.
func cut(text string, columns int, keepEnd bool) string {
	if columns < 1 || width(text) <= columns {
		return text
	}
	runes := []rune(text)
	if keepEnd {
		return "…" + string(runes[len(runes)-columns+1:])
	}
	return string(runes[:columns-1]) + "…"
}

// pad fills text with blanks up to columns.
func pad(text string, columns int, right bool) string {
	blanks := strings.Repeat(" ", max(0, columns-width(text)))
	if right {
		return blanks + text
	}
	return text + blanks
}

// plural is "1 rank" or "2 ranks".
func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return countText(uint64(max(n, 0))) + " " + what + "s"
}
