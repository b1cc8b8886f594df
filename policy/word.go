package policy

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/mpitrace/mpitrace/internal/knobs"
)

// Word is a setting, or a condition of a rule.
type Word struct {
	Name    string // in files
	Short   string // in the short form
	Type    string // enum, choice, size, int, names, range
	Values  []string
	Min     int64
	Max     int64 // of a size: 0 is no limit
	Auto    bool  // the value may be the word auto
	Default string
	// PerMessage: may stand in a rule.
	PerMessage bool
	Doc        string
}

// auto is the value that leaves a choice open.
const auto = "auto"

// SettingWords is every setting, in the order of the spec.
func SettingWords() []Word { return slices.Clone(settings) }

func find(words []Word, name string) *Word {
	for i := range words {
		if words[i].Name == name {
			return &words[i]
		}
	}
	return nil
}

// canonical is a value in the one form that it is kept in. The error says what
// is allowed, without the name of the word.
func (w *Word) canonical(text string) (string, error) {
	if text == auto && w.Auto {
		return auto, nil
	}
	switch w.Type {
	case "enum":
		if !slices.Contains(w.Values, text) {
			return "", w.notAllowed(text)
		}
		return text, nil
	case "choice":
		return w.choice(text)
	case "int":
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < w.Min || n > w.Max || strings.HasPrefix(text, "+") {
			return "", fmt.Errorf("%q is not a whole number from %d to %d", text, w.Min, w.Max)
		}
		return strconv.FormatInt(n, 10), nil
	case "size":
		return w.size(text)
	case "names":
		return text, checkNames(text)
	default:
		return canonicalRange(text)
	}
}

func (w *Word) notAllowed(text string) error {
	values := w.Values
	if w.Type == "choice" {
		values = append([]string{auto}, values...)
	}
	err := fmt.Errorf("%q is not one of %s", text, strings.Join(values, ", "))
	if near := nearest(text, values); near != "" {
		err = fmt.Errorf("%w: did you mean %s?", err, near)
	}
	return err
}

func (w *Word) choice(text string) (string, error) {
	if text == auto {
		return strings.Join(w.Values, "+"), nil
	}
	given := strings.Split(text, "+")
	for _, v := range given {
		if v == auto {
			return "", fmt.Errorf("%q: auto leaves every choice open, and stands alone", text)
		}
		if !slices.Contains(w.Values, v) {
			return "", w.notAllowed(v)
		}
	}
	var out []string
	for _, v := range w.Values {
		if slices.Contains(given, v) {
			out = append(out, v)
		}
	}
	if len(out) != len(given) {
		return "", fmt.Errorf("%q names a value twice", text)
	}
	return strings.Join(out, "+"), nil
}

func (w *Word) size(text string) (string, error) {
	n, err := knobs.ParseSize(text)
	switch {
	case err != nil:
		return "", err
	case n < w.Min:
		return "", fmt.Errorf("%s is less than %s bytes, the least allowed", text, sizeText(w.Min))
	case w.Max != 0 && n > w.Max:
		return "", fmt.Errorf("%s is more than %s bytes, the most allowed", text, sizeText(w.Max))
	}
	return strconv.FormatInt(n, 10), nil
}

// sizeText is a number of bytes with the largest suffix that keeps it whole.
func sizeText(n int64) string {
	for i, suffix := range []string{"G", "M", "K"} {
		if unit := int64(1) << (30 - 10*i); n >= unit && n%unit == 0 {
			return strconv.FormatInt(n/unit, 10) + suffix
		}
	}
	return strconv.FormatInt(n, 10)
}

// nameLimit bounds a name with its wildcards, in bytes.
const nameLimit = 255

// checkNames tests names with + between them. They go into lines and into the
// short form, so that what divides those must not stand in them.
func checkNames(text string) error {
	for _, name := range strings.Split(text, "+") {
		switch {
		case name == "":
			return fmt.Errorf("a name is empty")
		case len(name) > nameLimit:
			return fmt.Errorf("a name is longer than %d bytes", nameLimit)
		case strings.Contains(name, ","):
			return fmt.Errorf("%q has a comma: write ? for it", name)
		case strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f || r == 0xfffd }):
			return fmt.Errorf("%q has a character that cannot be printed: write ? for it", name)
		}
	}
	return nil
}

// canonicalRange reads LOW..HIGH, either left out, or one number.
func canonicalRange(text string) (string, error) {
	low, high, several := strings.Cut(text, "..")
	if !several {
		high = low
	}
	from, to, err := int64(0), int64(math.MaxInt64), error(nil)
	if low != "" {
		from, err = bytesOf(low)
	}
	if high != "" && err == nil {
		to, err = bytesOf(high)
	}
	switch {
	case err != nil:
		return "", err
	case low == "" && high == "":
		return "", fmt.Errorf("%q has no limit: give LOW..HIGH, LOW.. or ..HIGH", text)
	case from > to:
		return "", fmt.Errorf("%q is empty: %d is more than %d", text, from, to)
	case to == math.MaxInt64:
		return fmt.Sprintf("%d..", from), nil
	}
	return fmt.Sprintf("%d..%d", from, to), nil
}

func bytesOf(text string) (int64, error) {
	if text == "0" {
		return 0, nil
	}
	return knobs.ParseSize(text)
}

// rangeOf is the bounds of a range in canonical form.
func rangeOf(text string) (from, to int64) {
	low, high, _ := strings.Cut(text, "..")
	from, to = 0, math.MaxInt64
	if n, err := strconv.ParseInt(low, 10, 64); err == nil {
		from = n
	}
	if n, err := strconv.ParseInt(high, 10, 64); err == nil {
		to = n
	}
	return from, to
}

// nearest is the name that text was most likely meant to be, "" if none is near.
func nearest(text string, names []string) string {
	best, at := "", max(1, len(text)/3)+1
	for _, name := range names {
		if d := distance(strings.ToLower(text), name); d < at {
			best, at = name, d
		}
	}
	return best
}

// distance is how many characters must be changed, put in or left out, or
// swapped with the next one, to make b of a.
func distance(a, b string) int {
	if len(a) > nameLimit {
		return len(a)
	}
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
