package page

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"html/template"
	"math"
	"slices"

	"github.com/mpitrace/mpitrace/report"
)

// mapView is one map of cells and what is said of it.
type mapView struct {
	ID, Name string
	Choices  []string // of its data; nil if there is but one
	Metrics  []string // that its cells have
	Notes    []string
}

// mapData is what the script draws the maps of.
type mapData struct {
	Matrices []matrixData `json:"matrices"`
	Rasters  []rasterData `json:"rasters"`
}

// axisData is an Axis.
type axisData struct {
	First int `json:"first"`
	Ranks int `json:"ranks"`
	Group int `json:"group"`
}

// matrixData is the cells of a matrix that are not empty, in row-major order.
// The lists are little-endian and in base64.
type matrixData struct {
	From     axisData `json:"from"`
	To       axisData `json:"to"`
	Cells    string   `json:"cells"`    // which are not empty: a bit of each, the lowest of a byte first
	Bytes    string   `json:"bytes"`    // float32
	Messages string   `json:"messages"` // float32
}

// rasterData is a raster. Cells are codes of how late a rank was: 0 is not
// known, 1 is not later than the error of the clocks, and codes from 2 to codes
// are logarithmic between low and high.
type rasterData struct {
	First    []int    `json:"first"` // rank, by row
	Last     []int    `json:"last"`
	Calls    []uint32 `json:"calls"`  // number of the operation, by column
	Latest   []int    `json:"latest"` // rank that arrived last, -1 if not known
	LowNS    float64  `json:"low"`
	HighNS   float64  `json:"high"`
	Lateness string   `json:"lateness"` // uint16 in base64
}

// addMaps puts the cells of the maps into the page.
func (c *content) addMaps(r *report.Report) error {
	data := mapData{[]matrixData{}, []rasterData{}}
	c.addMatrix(r, &data)
	c.addRasters(r, &data)
	text, err := json.Marshal(data) // escapes <, > and &
	if err != nil {
		return err
	}
	c.Data = template.JS(text)
	return nil
}

func (c *content) addMatrix(r *report.Report, data *mapData) {
	var choices []string
	var first *report.Matrix
	for _, m := range r.Matrices {
		if !slices.ContainsFunc(m.Messages, func(n uint64) bool { return n > 0 }) {
			continue
		}
		first = cmp.Or(first, m)
		data.Matrices = append(data.Matrices, newMatrixData(m))
		choices = append(choices, fmt.Sprintf("world %d, %s", 1+slices.Index(r.Job.Worlds, m.World), plural(m.To.Ranks, "rank")))
	}
	switch {
	case len(r.Matrices) == 0:
		c.MatrixEmpty = "The report was made without the messages between ranks."
	case len(data.Matrices) == 0 && r.Job.WorldSize == 1:
		c.MatrixEmpty = "No point-to-point messages: the job has one rank."
	case len(data.Matrices) == 0:
		c.MatrixEmpty = "No point-to-point messages were sent."
	default:
		c.Matrix = &mapView{ID: "matrix-map", Name: "Messages between ranks", Choices: several(choices), Metrics: []string{"bytes", "messages"},
			Notes: matrixNotes(r, first)}
	}
}

// matrixNotes says what the cells of the first matrix hold and leave out.
func matrixNotes(r *report.Report, m *report.Matrix) []string {
	notes := []string{"Point-to-point messages as their senders counted them; collective operations are not in it."}
	if m.To.Group > 1 {
		notes = append(notes, fmt.Sprintf("A cell holds the messages from %s to %s.", plural(m.From.Group, "neighbouring rank"), plural(m.To.Group, "neighbouring rank")))
	}
	if m.From.Ranks < m.To.Ranks {
		notes = append(notes, "Only what the ranks chosen with --rank sent.")
	}
	if e := m.Elsewhere; e.SentMessages > 0 {
		notes = append(notes, fmt.Sprintf("Not in it: %s in %s to other worlds, or to ranks that found no place in a table of peers.",
			report.Bytes(e.SentBytes), plural(int(min(e.SentMessages, math.MaxInt32)), "message")))
	}
	if rest := len(r.Job.Worlds) - len(r.Matrices); rest > 0 {
		notes = append(notes, plural(rest, "more world")+" of this job: no map.")
	}
	return notes
}

func newMatrixData(m *report.Matrix) matrixData {
	cells := make([]byte, (len(m.Messages)+7)/8)
	var bytes, messages []float32
	for i, n := range m.Messages {
		if n > 0 {
			cells[i/8] |= 1 << (i % 8)
			bytes, messages = append(bytes, float32(m.Bytes[i])), append(messages, float32(n))
		}
	}
	return matrixData{axisData(m.From), axisData(m.To), packed(cells), packed(bytes), packed(messages)}
}

// packed is numbers in little-endian order as base64.
func packed[T any](list []T) string {
	out, err := binary.Append(nil, binary.LittleEndian, list)
	if err != nil {
		panic(err) // only types of fixed size come here
	}
	return base64.StdEncoding.EncodeToString(out)
}

func (c *content) addRasters(r *report.Report, data *mapData) {
	var choices []string
	latest := &report.Sheet{Title: "Latest arrivals", Columns: []report.SheetColumn{{Head: "operation"}, {Head: "ranks"},
		{Head: "after the first", Kind: report.SheetNumber}, {Head: "place"}}}
	for _, raster := range r.Rasters {
		data.Rasters = append(data.Rasters, newRasterData(raster))
		place := placeName(r, raster.Arrival)
		choices = append(choices, place)
		latest.Rows = append(latest.Rows, latestCells(raster, place)...)
	}
	latest.All = len(latest.Rows)
	switch {
	case len(r.Rasters) > 0:
		if len(latest.Rows) > 0 {
			c.Latest = newTable("latest", latest)
		}
		c.Raster = &mapView{ID: "raster-map", Name: "Arrivals by rank and operation", Choices: several(choices), Notes: rasterNotes(r)}
	case len(r.Arrivals) > 0:
		c.RasterEmpty = "The report was made without the arrivals of single ranks."
	}
}

// several is choices, if there is something to choose.
func several(choices []string) []string {
	if len(choices) < 2 {
		return nil
	}
	return choices
}

// placeName names a choice of the raster.
func placeName(r *report.Report, a *report.Arrival) string {
	name := fmt.Sprintf("%s at %s, %s", a.Function.Name, r.Location(a.Site), a.Comm)
	if len(r.Job.Worlds) > 1 {
		name += fmt.Sprintf(", world %d", 1+slices.Index(r.Job.Worlds, a.World))
	}
	return cut(name)
}

func rasterNotes(r *report.Report) []string {
	var notes []string
	if slices.ContainsFunc(r.Rasters, func(raster *report.Raster) bool { return raster.Rows[0].Ranks > 1 }) {
		notes = append(notes, "A row of several ranks shows the latest of them.")
	}
	if !slices.ContainsFunc(r.Rasters, (*report.Raster).Late) {
		notes = append(notes, "No rank was seen to be later than the error of the clocks explains.")
	}
	if rest := len(r.Arrivals) - len(r.Rasters); rest > 0 {
		notes = append(notes, fmt.Sprintf("These are the %s with the most waiting; %s more have no map.", plural(len(r.Rasters), "place"), report.Count(uint64(rest))))
	}
	return notes
}

// codes is the largest code of a cell of a raster.
const codes = math.MaxUint16

// rasterRange is how many times less than the latest arrival the least one is
// that has a colour of its own.
const rasterRange = 1000

func newRasterData(r *report.Raster) rasterData {
	d := rasterData{First: []int{}, Last: []int{}, Calls: []uint32{}, Latest: []int{}}
	for _, row := range r.Rows {
		d.First, d.Last = append(d.First, row.First), append(d.Last, row.Last)
	}
	for _, column := range r.Columns {
		d.Calls, d.Latest = append(d.Calls, column.Sequence+1), append(d.Latest, column.Last)
	}
	d.HighNS = max(2, float64(slices.Max(r.LatenessNS)))
	bound := slices.MinFunc(r.Columns, func(x, y report.RasterColumn) int { return cmp.Compare(x.BoundNS, y.BoundNS) }).BoundNS
	d.LowNS = min(max(1, d.HighNS/rasterRange, float64(bound)), d.HighNS/2)
	list := make([]uint16, len(r.LatenessNS))
	for i, v := range r.LatenessNS {
		list[i] = d.code(float64(v), r.LateAt(i))
	}
	d.Lateness = packed(list)
	return d
}

// code is the code of a cell.
func (d *rasterData) code(ns float64, late bool) uint16 {
	switch {
	case ns < 0:
		return 0
	case !late:
		return 1
	}
	share := math.Log(max(1, ns/d.LowNS)) / math.Log(d.HighNS/d.LowNS)
	return 2 + uint16(math.Round(min(1, share)*(codes-2)))
}

// latestCells is the latest arrivals of a raster, as rows of a table.
func latestCells(r *report.Raster, place string) [][]report.Cell {
	const kept = 8
	order := make([]int, 0, len(r.LatenessNS))
	for i := range r.LatenessNS {
		if r.LateAt(i) {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(x, y int) int { return -cmp.Compare(r.LatenessNS[x], r.LatenessNS[y]) })
	var rows [][]report.Cell
	for _, i := range order[:min(len(order), kept)] {
		row, column := &r.Rows[i/len(r.Columns)], &r.Columns[i%len(r.Columns)]
		ranks := rankSpan(row.First, row.Last)
		if row.Ranks > 1 && column.Last >= row.First && column.Last <= row.Last {
			ranks = rankSpan(column.Last, column.Last)
		}
		ns := float64(r.LatenessNS[i])
		rows = append(rows, []report.Cell{{Text: report.Count(uint64(column.Sequence) + 1)}, {Text: ranks}, {Text: report.Duration(uint64(ns)), Number: ns}, {Text: place}})
	}
	return rows
}
