package report

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// table is rows of values that become text or CSV.
type table struct {
	title   string
	columns []column
	rows    [][]any // string, int, uint64, float64 or []float64, by column
	order   map[string]int
	note    string   // said below the table
	spare   []string // heads of columns that narrow terminals do without, first to go first
	empty   string   // said in place of a table without rows
}

// column of a table.
type column struct {
	head string // in text; empty: only in CSV
	name string // in CSV; empty: only in text
	unit unit
	flex bool // may be cut to make the table fit
}

type unit int

const (
	unitText unit = iota
	unitRank
	unitCount
	unitNS
	unitBytes
	unitShare // between 0 and 1
	unitBar   // between 0 and 1, drawn
	unitSpark // []float64, drawn
)

// sortRows sorts by time, calls, bytes or name, as far as the table has such a
// column; names ascend, figures descend.
func (t *table) sortRows(by string) error {
	if by == "" {
		return nil
	}
	index, ok := t.order[by]
	if !ok {
		known := []string{}
		for name := range t.order {
			known = append(known, name)
		}
		slices.Sort(known)
		return fmt.Errorf("--sort %s: this table can be sorted by %s", by, strings.Join(known, ", "))
	}
	slices.SortStableFunc(t.rows, func(a, b []any) int {
		switch x := a[index].(type) {
		case string:
			y, _ := b[index].(string)
			return strings.Compare(x, y)
		case int:
			y, _ := b[index].(int)
			return cmp.Compare(x, y)
		case uint64:
			y, _ := b[index].(uint64)
			return -cmp.Compare(x, y)
		}
		return 0
	})
	return nil
}

// writeCSV writes the table with a head of column names. Times are
// nanoseconds, shares between 0 and 1.
func (t *table) writeCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	line := func(value func(i int) string) error {
		var fields []string
		for i, c := range t.columns {
			if c.name != "" {
				fields = append(fields, value(i))
			}
		}
		return out.Write(fields)
	}
	if err := line(func(i int) string { return t.columns[i].name }); err != nil {
		return err
	}
	for _, row := range t.rows {
		if err := line(func(i int) string { return plain(row[i]) }); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// plain writes a value for machines. A text that a spreadsheet would run as a
// formula is quoted with an apostrophe.
func plain(value any) string {
	switch v := value.(type) {
	case float64:
		return strconv.FormatFloat(v, 'f', 6, 64)
	case string:
		if v != "" && strings.ContainsRune("=+@", rune(v[0])) {
			return "'" + v
		}
		return v
	}
	return fmt.Sprint(value)
}

// human writes a value for people.
func (v *View) human(value any, unit unit) string {
	switch x := value.(type) {
	case string:
		return x
	case int:
		return strconv.Itoa(x)
	case []float64:
		return v.spark(x, slices.Max(append(x, 0)))
	case float64:
		if unit == unitBar {
			return v.bar(x, barColumns)
		}
		return percent(x)
	case uint64:
		switch unit {
		case unitNS:
			if x == 0 {
				return "-"
			}
			return duration(x)
		case unitBytes:
			if x == 0 {
				return "-"
			}
			return bytesText(x)
		}
		return countText(x)
	}
	return fmt.Sprint(value)
}

// barColumns is the width of bars in tables.
const barColumns = 10

// lines formats the table within the width of the view; the first line is the
// head with the title in front.
func (t *table) lines(v *View) []string {
	var shown []int
	for i, c := range t.columns {
		if c.head != "" || c.unit == unitBar {
			shown = append(shown, i)
		}
	}
	cells := [][]string{{}}
	for _, i := range shown {
		cells[0] = append(cells[0], t.columns[i].head)
	}
	for _, row := range t.rows {
		var line []string
		for _, i := range shown {
			line = append(line, v.human(row[i], t.columns[i].unit))
		}
		cells = append(cells, line)
	}
	widths, fits := t.fit(v, shown, cells)
	for _, head := range t.spare {
		k := slices.IndexFunc(shown, func(i int) bool { return t.columns[i].head == head })
		if fits || k < 0 {
			break
		}
		shown = slices.Delete(shown, k, k+1)
		for n := range cells {
			cells[n] = slices.Delete(cells[n], k, k+1)
		}
		widths, fits = t.fit(v, shown, cells)
	}
	out := []string{}
	for n, line := range cells {
		var b strings.Builder
		b.WriteString("  ")
		for k, i := range shown {
			c := t.columns[i]
			right := c.unit != unitText && c.unit != unitBar && c.unit != unitSpark
			if k > 0 {
				b.WriteString("  ")
			}
			b.WriteString(pad(cut(line[k], widths[k], c.head == "place"), widths[k], right))
		}
		text := strings.TrimRight(b.String(), " ")
		if n == 0 {
			text = v.bold(text)
		}
		out = append(out, text)
	}
	return out
}

// fit chooses the widths of the columns: as wide as their cells, flexible ones
// narrower where the line would become too long; false if it is still.
func (t *table) fit(v *View, shown []int, cells [][]string) (widths []int, fits bool) {
	widths = make([]int, len(shown))
	total := 2
	for k, i := range shown {
		for _, line := range cells {
			widths[k] = max(widths[k], width(line[k]))
		}
		if t.columns[i].unit == unitBar {
			widths[k] = barColumns
		}
		total += widths[k]
	}
	total += 2 * (len(shown) - 1)
	for over := total - v.width(); over > 0; over-- {
		widest := -1
		for k, i := range shown {
			if t.columns[i].flex && widths[k] > 8 && (widest < 0 || widths[k] > widths[widest]) {
				widest = k
			}
		}
		if widest < 0 {
			return widths, false
		}
		widths[widest]--
	}
	return widths, true
}
