package microbench

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// WriteText writes the report for people.
func (r *Report) WriteText(w io.Writer) error {
	out := bufio.NewWriter(w)
	r.writeHead(out)
	for _, b := range r.Benchmarks {
		b.writeText(out, r.Shim != "", r.Act)
	}
	return out.Flush()
}

func (r *Report) writeHead(w io.Writer) {
	how := "native runs only"
	switch {
	case len(r.Act) > 0 && r.Shim != "":
		how = "native, preloaded and act mode in turn"
	case len(r.Act) > 0:
		how = "native and act mode in turn"
	case r.Shim != "":
		how = "native and preloaded in turn"
	}
	if r.Quick {
		how += ", smoke run: the figures mean nothing"
	}
	fmt.Fprintf(w, "%s · %s · %s · %s, load %s to %s\n", strings.Join(r.Launcher, " "), r.Compiler,
		r.Time.Format("2006-01-02 15:04"), count(r.Cores, "core")+" of "+r.Processor, r.LoadBegin, r.LoadEnd)
	figures := "Median ± half the distance of the quartiles"
	if r.Reps == 1 {
		figures = "One value each, without a spread"
	}
	fmt.Fprintf(w, "%s, %s. %s;\n", count(r.Reps, "repetition"), how, figures)
	fmt.Fprintf(w, "ratio: median of the quotients to native of the same repetition. Published figures\n")
	fmt.Fprintf(w, "come from other hardware: a reference, not a target.\n")
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func (res *Result) writeText(w io.Writer, both bool, policies []string) {
	fmt.Fprintf(w, "\n%s: %s\n", res.Name, res.What)
	fmt.Fprintf(w, "  %s · %s · %s verified\n", res.Source, count(res.Ranks, "rank"), count(int(res.Verified), "message"))
	for _, text := range res.Warnings {
		fmt.Fprintf(w, "  warning: %s\n", text)
	}
	for _, text := range res.Notes {
		fmt.Fprintf(w, "  note: %s\n", text)
	}
	if res.Error != "" {
		fmt.Fprintf(w, "  FAILED: %s\n", strings.ReplaceAll(res.Error, "\n", "\n  "))
		return
	}
	if len(res.Rows) > 0 {
		writeTable(w, res.table(both, policies))
	}
	for i, p := range res.Published {
		fmt.Fprintf(w, "  [%d] %s: %s (%s)\n", i+1, p.Text, p.line(), p.Source)
	}
}

// line is the figures of a publication: "IB 1.5, iWARP ~7".
func (p Published) line() string {
	words := make([]string, len(p.Figures))
	for i, f := range p.Figures {
		words[i] = f.On + " " + f.Value
	}
	return strings.Join(words, ", ")
}

// table is the cells of all rows, the head first. A policy that is a file has the name
// of the file alone.
func (res *Result) table(both bool, policies []string) [][]string {
	keys := res.dimKeys()
	head := append(slices.Clone(keys), "metric", "native", "")
	if both {
		head = append(head, "preloaded", "", "ratio")
	}
	for _, policy := range policies {
		head = append(head, "act="+filepath.Base(policy), "", "ratio")
	}
	cells := [][]string{append(head, "published", "also, native")}
	before := ""
	for _, row := range res.Rows {
		line := row.dimCells(keys)
		line = append(line, strings.TrimSpace(row.Name+" "+row.Unit))
		line = append(line, row.Native.cells()...)
		if both {
			line = append(line, row.Preloaded.cells()...)
			line = append(line, ratioCell(row.Ratio))
		}
		for _, acted := range row.Act {
			line = append(line, acted.Sample.cells()...)
			line = append(line, ratioCell(acted.Ratio))
		}
		also := row.contextCell()
		if dimsID(row.Dims) == before {
			also = "" // as in the line above
		}
		before = dimsID(row.Dims)
		cells = append(cells, append(line, res.publishedCell(row), also))
	}
	return cells
}

// dimKeys are the columns that say what was measured.
func (res *Result) dimKeys() []string {
	var keys []string
	for _, row := range res.Rows {
		for _, d := range row.Dims {
			if !slices.Contains(keys, d.Key) {
				keys = append(keys, d.Key)
			}
		}
	}
	return keys
}

func (row *Row) dimCells(keys []string) []string {
	cells := make([]string, len(keys))
	for _, d := range row.Dims {
		cells[slices.Index(keys, d.Key)] = dimText(d)
	}
	return cells
}

// dimText shortens sizes: 8192 → 8 K.
func dimText(d Dim) string {
	n, err := strconv.ParseUint(d.Value, 10, 63)
	switch {
	case d.Key != "size" || err != nil:
		return d.Value
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d M", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d K", n>>10)
	}
	return d.Value
}

// cells are the median and the spread; nothing was measured if s is nil.
func (s *Sample) cells() []string {
	if s == nil {
		return []string{"-", ""}
	}
	if len(s.Values) < 2 {
		return []string{number(s.Median), ""} // one value has no spread
	}
	return []string{number(s.Median), "± " + number(s.Spread)}
}

func ratioCell(r *float64) string {
	if r == nil {
		return "-"
	}
	return fmt.Sprintf("%.3f", *r)
}

// number shows three digits or more, and whole numbers as such.
func number(x float64) string {
	switch a := math.Abs(x); {
	case x == math.Trunc(x):
		return fmt.Sprintf("%.0f", a*sign(x))
	case a < 0.1:
		return fmt.Sprintf("%.4f", x)
	case a < 10:
		return fmt.Sprintf("%.3f", x)
	case a < 100:
		return fmt.Sprintf("%.2f", x)
	case a < 1000:
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.0f", x)
}

// sign is -1 or 1; it keeps a negative zero from being shown as such.
func sign(x float64) float64 {
	if x < 0 {
		return -1
	}
	return 1
}

func (res *Result) publishedCell(row *Row) string {
	var words []string
	for _, i := range row.Published {
		words = append(words, fmt.Sprintf("%s [%d]", res.Published[i].line(), i+1))
	}
	return strings.Join(words, "; ")
}

func (row *Row) contextCell() string {
	var words []string
	for _, c := range row.Context {
		words = append(words, strings.TrimSpace(c.Name+" "+number(c.Median)+" "+c.Unit))
	}
	return strings.Join(words, ", ")
}

// writeTable aligns the columns; those of figures to the right.
func writeTable(w io.Writer, cells [][]string) {
	widths := make([]int, len(cells[0]))
	for _, line := range cells {
		for i, cell := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, line := range cells {
		var b strings.Builder
		for i, cell := range line {
			if widths[i] == 0 {
				continue
			}
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if toRight(cells, i) {
				cell = pad + cell
			} else {
				cell += pad
			}
			b.WriteString("  " + cell)
		}
		fmt.Fprintln(w, strings.TrimRight(b.String(), " "))
	}
}

// toRight tells columns of figures by their head: sizes, medians, ratios.
func toRight(cells [][]string, column int) bool {
	switch cells[0][column] {
	case "metric", "published", "also, native", "mode", "op", "alloc", "method", "":
		return false
	}
	return true
}
