package report

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mpitrace/mpitrace/internal/synth"
)

// TestSheetsHaveTheText: a sheet says what the text report says, with figures.
func TestSheetsHaveTheText(t *testing.T) {
	r := load(t, synth.Scale(4), Options{})
	for _, by := range Views() {
		sheet, err := r.Sheet(by, 0)
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		if err := r.WriteText(&text, View{By: by, Top: -1, Width: 400, Location: time.UTC}); err != nil {
			t.Fatal(err)
		}
		if len(sheet.Rows) == 0 && sheet.Empty == "" || sheet.All != len(sheet.Rows) {
			t.Errorf("%s: %d of %d rows, empty %q", by, len(sheet.Rows), sheet.All, sheet.Empty)
		}
		for _, row := range sheet.Rows {
			for i, cell := range row {
				if kind := sheet.Columns[i].Kind; (kind == SheetBar || kind == SheetShare) && cell.Number > 1 {
					t.Errorf("%s: a share of %g", by, cell.Number)
				}
				// Of arrivals the text has no table.
				if by != "arrival" && !strings.Contains(text.String(), cell.Text) {
					t.Errorf("%s: %q is not in the text report", by, cell.Text)
				}
			}
		}
		if cut, _ := r.Sheet(by, 1); len(cut.Rows) > 1 || cut.All != sheet.All {
			t.Errorf("%s: %d of %d rows", by, len(cut.Rows), cut.All)
		}
	}
	calls, _ := r.Sheet("call", 0)
	time := slices.IndexFunc(calls.Columns, func(c SheetColumn) bool { return c.Head == "time" })
	if cell := calls.Rows[0][time]; cell.Number != float64(r.Functions[0].TimeNS) || cell.Text != duration(r.Functions[0].TimeNS) || math.IsNaN(cell.Number) {
		t.Errorf("time of the first function: %+v", cell)
	}
	if _, err := r.Sheet("beauty", 0); err == nil {
		t.Error("there is a table of beauty")
	}
}

// TestSummary: the head of the report in words, of jobs that finished and not.
func TestSummary(t *testing.T) {
	s := load(t, synth.Scale(4), Options{}).Summary(time.UTC)
	if s.Command != "heat 4096 4096 10000" || !slices.Contains(s.Facts, "2026-01-02 09:30:00") || s.Unfinished != "" || s.Stuck != nil ||
		!strings.HasPrefix(s.Share, "MPI takes ") || s.Verdict == "" || s.Own == "" || len(s.Reuse) < 2 || len(s.Clocks) != 1 {
		t.Errorf("%+v", s)
	}
	s = load(t, killed(), Options{}).Summary(time.UTC)
	if !strings.HasPrefix(s.Unfinished, "DIED: ") || s.Stuck == nil || len(s.Stuck.Rows) != 1 || !slices.ContainsFunc(s.Missing, func(m string) bool {
		return strings.HasPrefix(m, "rank 3, missing in MPI_Allreduce: outside MPI")
	}) {
		t.Errorf("%+v", s)
	}
}
