package report

import (
	"math"
	"slices"
)

// Sheet is a table with its figures and how the text report writes them, for
// writers of other forms.
type Sheet struct {
	Title   string
	Columns []SheetColumn
	Rows    [][]Cell
	All     int    // rows before they were cut
	Note    string // what must be said of the figures
	Empty   string // said in place of a table without rows
}

// SheetColumn is a column. A bar has no head.
type SheetColumn struct {
	Head string
	Kind SheetKind
}

// SheetKind is what the cells of a column hold.
type SheetKind int

// The kinds of columns.
const (
	SheetText   SheetKind = iota
	SheetNumber           // Text and Number
	SheetShare            // Text and Number, a share between 0 and 1
	SheetBar              // Number, a share between 0 and 1 that belongs to the column before
	SheetSpark            // Values, of neighbouring groups of ranks
)

// Cell is one figure or text. Times are nanoseconds, shares between 0 and 1;
// Number is NaN where there is none.
type Cell struct {
	Text   string
	Number float64
	Values []float64
}

// Sheet is the table of a view, one of Views, cut to the first rows; limit 0 is
// all of them.
func (r *Report) Sheet(by string, limit int) (*Sheet, error) {
	t, err := r.table(by)
	if err != nil {
		return nil, err
	}
	return t.sheet(limit), nil
}

// ReuseClasses is the table of the uses of message buffers by payload.
func (r *Report) ReuseClasses() *Sheet { return r.reuseClasses().sheet(0) }

// noTrace says why nothing is known of messages that waited.
const noTrace = "whose messages came late is known from a trace only: mpitrace run --trace"

// WaitSheet is the table of the messages that waited for their other end, from
// a trace; it has no rows without one.
func (r *Report) WaitSheet(limit int) *Sheet {
	s := r.waitTable().sheet(limit)
	if s.Empty = "no message was traced"; r.Trace == nil {
		s.Empty = noTrace
	}
	return s
}

// sheet is what of the table the text report would show, were it wide enough.
func (t *table) sheet(limit int) *Sheet {
	s := &Sheet{Title: t.title, All: len(t.rows), Note: t.note, Empty: t.empty}
	var shown []int
	for i, c := range t.columns {
		if c.head != "" || c.unit == unitBar {
			shown = append(shown, i)
			s.Columns = append(s.Columns, SheetColumn{c.head, c.unit.kind()})
		}
	}
	rows := t.rows
	if limit > 0 {
		rows = rows[:min(len(rows), limit)]
	}
	for _, row := range rows {
		cells := make([]Cell, 0, len(shown))
		for _, i := range shown {
			cells = append(cells, cellOf(row[i], t.columns[i].unit))
		}
		s.Rows = append(s.Rows, cells)
	}
	return s
}

func (u unit) kind() SheetKind {
	switch u {
	case unitText:
		return SheetText
	case unitShare:
		return SheetShare
	case unitBar:
		return SheetBar
	case unitSpark:
		return SheetSpark
	}
	return SheetNumber
}

func cellOf(value any, unit unit) Cell {
	c := Cell{Number: math.NaN()}
	switch x := value.(type) {
	case []float64:
		c.Values = slices.Clone(x)
		return c
	case float64:
		c.Number = x
	case int:
		c.Number = float64(x)
	case uint64:
		c.Number = float64(x)
	}
	if unit != unitBar {
		c.Text = (&View{}).human(value, unit)
	}
	return c
}
