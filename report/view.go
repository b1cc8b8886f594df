package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// View says what a writer shows and how. The zero value is the overview,
// without colour, 100 columns wide, in local time.
type View struct {
	By       string // one of Views; empty: the overview
	Top      int    // rows of each table; 0: as fits; negative: all
	Sort     string // time, calls, bytes or name; empty: as the table is best read
	Color    bool
	ASCII    bool // no characters beyond ASCII
	Width    int  // columns; 0: 100
	Location *time.Location
}

func (v *View) width() int {
	if v.Width <= 0 {
		return 100
	}
	return max(v.Width, 60)
}

func (v *View) top(standard int) int {
	switch {
	case v.Top < 0:
		return int(^uint(0) >> 1)
	case v.Top == 0:
		return standard
	}
	return v.Top
}

func (v *View) escape(code, text string) string {
	if !v.Color || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (v *View) bold(text string) string  { return v.escape("1", text) }
func (v *View) alarm(text string) string { return v.escape("1;31", text) }
func (v *View) faint(text string) string { return v.escape("2", text) }

// clock writes a moment as the time of day.
func (v *View) clock(rfc string) string {
	at, err := time.Parse(time.RFC3339, rfc)
	if err != nil {
		return ""
	}
	if v.Location != nil {
		return at.In(v.Location).Format("15:04:05")
	}
	return at.Local().Format("15:04:05")
}

// day writes a moment with its date.
func (v *View) day(rfc string) string {
	at, err := time.Parse(time.RFC3339, rfc)
	if err != nil {
		return "at an unknown time"
	}
	if v.Location != nil {
		return at.In(v.Location).Format("2006-01-02 15:04:05")
	}
	return at.Local().Format("2006-01-02 15:04:05")
}

// standardRows is how many rows a table of --by has in text unless --top says.
const standardRows = 40

// chosen is the table of the view, sorted and cut to the rows wanted.
func (r *Report) chosen(v *View, standard int) (*table, int, error) {
	t, err := r.table(v.By)
	if err != nil {
		return nil, 0, err
	}
	if err := t.sortRows(v.Sort); err != nil {
		return nil, 0, err
	}
	all := len(t.rows)
	t.rows = t.rows[:min(all, v.top(standard))]
	return t, all, nil
}

// WriteCSV writes one table, all rows unless Top says otherwise; without By
// that of the functions.
func (r *Report) WriteCSV(w io.Writer, v View) error {
	if v.By == "" {
		v.By = "call"
	}
	if v.Top == 0 {
		v.Top = -1
	}
	t, _, err := r.chosen(&v, 0)
	if err != nil {
		return err
	}
	return t.writeCSV(w)
}

// Check refuses a view that no table has, before anything is read.
func (v *View) Check() error {
	if v.By != "" && !slices.Contains(Views(), v.By) {
		return fmt.Errorf("--by %s: choose one of %s", v.By, strings.Join(Views(), ", "))
	}
	if v.Sort != "" && !slices.Contains([]string{"time", "calls", "bytes", "name"}, v.Sort) {
		return fmt.Errorf("--sort %s: choose one of time, calls, bytes, name", v.Sort)
	}
	return nil
}
