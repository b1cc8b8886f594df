package top

import (
	"fmt"
	"strconv"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/mpitrace/mpitrace/segment"
)

// style is what a piece of text means; the terminal decides how it looks.
type style int

const (
	plain style = iota
	strong
	faint
	alarm  // something is wrong
	notice // something to look at
	chosen // the one of several that holds now
)

// The sixteen colours of the terminal keep to its theme.
var styles = map[style]lipgloss.Style{
	strong: lipgloss.NewStyle().Bold(true),
	faint:  lipgloss.NewStyle().Faint(true),
	alarm:  lipgloss.NewStyle().Bold(true).Foreground(lipgloss.Red),
	notice: lipgloss.NewStyle().Foreground(lipgloss.Yellow),
	chosen: lipgloss.NewStyle().Reverse(true),
}

// span is text in one style. The text may be anything.
type span struct {
	style style
	text  string
}

// line is one line of a screen.
type line struct {
	spans    []span
	selected bool // shown as the line of the cursor
}

func text(spans ...span) line { return line{spans: spans} }

// words is a line in one style.
func words(s style, format string, args ...any) line {
	return text(span{s, fmt.Sprintf(format, args...)})
}

// painter turns lines into text of a width.
type painter struct {
	width int
	color bool // write styles, as escape sequences
	ascii bool // no characters beyond ASCII
}

// render is the one way of text to the terminal: it cleans it of all that is
// not printable, cuts it to the width, and only then adds styles.
func (p painter) render(l line) string {
	var out strings.Builder
	left := p.width
	for _, s := range l.spans {
		clean := segment.CleanText(s.text)
		if p.ascii {
			clean = toASCII(clean)
		}
		columns := ansi.StringWidth(clean)
		if columns > left {
			clean, columns = p.cut(clean, left), left
		}
		left -= columns
		if p.color && !l.selected && s.style != plain && clean != "" {
			clean = styles[s.style].Render(clean)
		}
		out.WriteString(clean)
		if left <= 0 {
			break
		}
	}
	if !l.selected {
		return strings.TrimRight(out.String(), " ")
	}
	whole := out.String() + strings.Repeat(" ", max(0, p.width-ansi.StringWidth(out.String())))
	if p.color {
		return styles[chosen].Render(whole)
	}
	return strings.TrimRight(whole, " ")
}

// cut shortens text to a number of columns.
func (p painter) cut(text string, columns int) string {
	mark := "…"
	if p.ascii {
		mark = "~"
	}
	return ansi.Truncate(text, columns, mark)
}

// toASCII replaces what a terminal without UTF-8 cannot show.
func toASCII(text string) string {
	text = strings.NewReplacer("…", "~", "→", "->", "·", "|", "×", "x", "↑", "^", "↓", "v").Replace(text)
	return strings.Map(func(r rune) rune {
		if r > 126 {
			return '?'
		}
		return r
	}, text)
}

// wrap breaks text at blanks; further lines are indented as the mark is wide.
func (p painter) wrap(s style, mark, text string) []line {
	mark = segment.CleanText(mark)
	indent := strings.Repeat(" ", min(ansi.StringWidth(mark), p.width/2))
	var out []line
	now := ""
	for word := range strings.FieldsSeq(segment.CleanText(text)) {
		if now != "" && ansi.StringWidth(indent+now+" "+word) > p.width {
			out = append(out, words(s, "%s%s", mark, now))
			mark, now = indent, ""
		}
		if now != "" {
			now += " "
		}
		now += word
	}
	return append(out, words(s, "%s%s", mark, now))
}

// pad fills cleaned text with blanks, or cuts it, to exactly a number of
// columns.
func (p painter) pad(text string, columns int, right bool) string {
	text = segment.CleanText(text)
	if w := ansi.StringWidth(text); w > columns {
		text = p.cut(text, columns)
	}
	blanks := strings.Repeat(" ", max(0, columns-ansi.StringWidth(text)))
	if right {
		return blanks + text
	}
	return text + blanks
}

// shareText writes a share between 0 and 1, "-" if it cannot be told.
func shareText(share float64) string {
	if share < 0 {
		return "-"
	}
	return strconv.FormatFloat(share*100, 'f', 0, 64) + "%"
}

// rateText writes a rate with three digits, "-" if it cannot be told.
func rateText(v float64, unit string) string {
	if v < 0 {
		return "-"
	}
	prefixes := []string{"", "k", "M", "G", "T", "P"}
	i := 0
	for v >= 999.5 && i < len(prefixes)-1 {
		v /= 1000
		i++
	}
	digits := 0
	switch {
	case i == 0 && v == float64(int64(v)):
	case v < 9.995:
		digits = 2
	case v < 99.95:
		digits = 1
	}
	number := strconv.FormatFloat(v, 'f', digits, 64)
	if prefixes[i]+unit == "" {
		return number
	}
	return number + " " + prefixes[i] + unit
}
