package report

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/mpitrace/mpitrace/internal/figures"
)

// How numbers are written.
var (
	duration  = figures.Duration
	digits    = figures.Digits
	bytesText = figures.Bytes
	countText = figures.Count
	percent   = figures.Percent
)

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
