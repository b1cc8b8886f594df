package page

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/mpitrace/mpitrace/report"
)

// table is a sheet as the layout shows it.
type table struct {
	ID, Title string
	Columns   []tableColumn
	Rows      [][]tableCell
	Note      string
	Empty     string
	Rest      string // how many rows are not in the page
}

type tableColumn struct {
	Head    string
	Numeric bool
	Fixed   bool // not to be sorted by
}

// tableCell is one cell; Sort is its figure for the script, empty if its text
// sorts it.
type tableCell struct {
	Text, Sort string
	Numeric    bool
	Bar        string // width of the bar below the text, of 100
	Spark      string // path of a line of bars
	Label      string // what the spark shows, in words
}

const (
	sparkHeight = 14
	sparkWidth  = 7 // of a bar with its gap
)

// newTable takes a sheet over. Bars go into the cells before them.
func newTable(id string, s *report.Sheet) *table {
	t := &table{ID: id, Title: s.Title, Note: s.Note, Empty: s.Empty}
	for _, c := range s.Columns {
		if c.Kind != report.SheetBar {
			t.Columns = append(t.Columns, tableColumn{c.Head, c.Kind == report.SheetNumber || c.Kind == report.SheetShare, c.Kind == report.SheetSpark})
		}
	}
	for _, row := range s.Rows {
		var cells []tableCell
		for i, cell := range row {
			if s.Columns[i].Kind == report.SheetBar && len(cells) > 0 {
				cells[len(cells)-1].Bar = barWidth(cell.Number)
				continue
			}
			cells = append(cells, newCell(cell, s.Columns[i].Kind))
		}
		t.Rows = append(t.Rows, cells)
	}
	if rest := s.All - len(s.Rows); rest > 0 {
		t.Rest = fmt.Sprintf("%s more rows are not in this page: mpitrace report --by %s --csv has all.", report.Count(uint64(rest)), id)
	}
	return t
}

func newCell(c report.Cell, kind report.SheetKind) tableCell {
	out := tableCell{Text: cut(c.Text)}
	switch kind {
	case report.SheetNumber, report.SheetShare:
		out.Numeric = true
		if !math.IsNaN(c.Number) {
			out.Sort = strconv.FormatFloat(c.Number, 'g', 12, 64)
		}
		if kind == report.SheetShare {
			out.Bar = barWidth(c.Number)
		}
	case report.SheetSpark:
		out.Spark, out.Label = spark(c.Values)
	}
	return out
}

// cut shortens names that nobody reads to the end, such as those of templates.
func cut(text string) string {
	const kept = 200
	if runes := []rune(text); len(runes) > kept {
		return string(runes[:kept-1]) + "…"
	}
	return text
}

// barWidth is the width of a bar of 100; empty if there is none.
func barWidth(share float64) string {
	if !(share > 0) {
		return ""
	}
	return number(max(1, 100*min(1, share)))
}

// number writes a coordinate with as many digits as can be seen.
func number(v float64) string { return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64) }

// SparkBox is the view box of the spark.
func (c *tableCell) SparkBox() string {
	return fmt.Sprintf("0 0 %d %d", sparkWidth*strings.Count(c.Spark, "M"), sparkHeight)
}

// spark draws values as bars from the left to the right, and says them.
func spark(values []float64) (path, label string) {
	top := slices.Max(append(slices.Clone(values), 0))
	if top <= 0 {
		return "", ""
	}
	var b strings.Builder
	words := make([]string, 0, len(values))
	for i, v := range values {
		height := max(1, v/top*sparkHeight)
		fmt.Fprintf(&b, "M%d %dv-%sh%dv%sz", i*sparkWidth, sparkHeight, number(height), sparkWidth-1, number(height))
		words = append(words, strconv.Itoa(int(math.Round(100*v/top))))
	}
	return b.String(), "by rank, in % of the most: " + strings.Join(words, ", ")
}
