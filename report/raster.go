package report

import (
	"math"
	"slices"

	"github.com/mpitrace/mpitrace/arrival"
)

// rasterSamples bounds the operations of a raster.
const rasterSamples = 160

// Raster is when the ranks arrived at the sampled operations of one place.
type Raster struct {
	Arrival *Arrival
	Rows    []RasterRow    // by rank
	Columns []RasterColumn // in the order of the calls
	// LatenessNS is how much later than the first of all ranks the last of the
	// row arrived, in nanoseconds, by row, then column; negative: not known.
	LatenessNS []float32
}

// RasterRow is one rank of the communicator, or neighbours among its ranks.
type RasterRow struct {
	First, Last int // ranks of MPI_COMM_WORLD
	Ranks       int
}

// RasterColumn is one sampled operation.
type RasterColumn struct {
	Sequence uint32 // collective operations of the communicator before it
	SpreadNS uint64 // last arrival less first, 0 within BoundNS
	BoundNS  uint64 // how far two arrivals may be off against each other
	Last     int    // rank that arrived last; -1: the bound leaves it open
}

// LateAt tells whether a cell is later than the error of the clocks explains.
func (r *Raster) LateAt(cell int) bool {
	return float64(r.LatenessNS[cell]) > float64(r.Columns[cell%len(r.Columns)].BoundNS)
}

// Late tells whether any cell is.
func (r *Raster) Late() bool {
	for i := range r.LatenessNS {
		if r.LateAt(i) {
			return true
		}
	}
	return false
}

// arrivalSource is what an Arrival was made of.
type arrivalSource struct {
	class *arrival.Class
	site  *arrival.Site
}

// finishRasters makes the rasters of the places with the most waiting.
func (b *builder) finishRasters(result *arrival.Result, sources map[*Arrival]arrivalSource) {
	for _, a := range b.report.Arrivals[:min(len(b.report.Arrivals), b.options.Rasters)] {
		if r := newRaster(a, result, sources[a]); r != nil {
			b.report.Rasters = append(b.report.Rasters, r)
		}
	}
}

// newRaster reads the samples of a place, spread evenly over all of them; nil
// if there are none.
func newRaster(a *Arrival, result *arrival.Result, source arrivalSource) *Raster {
	samples := thin(result.SamplesOf(source.class, source.site), rasterSamples)
	if len(samples) == 0 {
		return nil
	}
	r := &Raster{Arrival: a}
	var rowOf map[int32]int
	for column, index := range samples {
		s := result.Sample(source.class, index)
		if column == 0 {
			rowOf = r.addRows(s.Arrivals, len(samples))
		}
		r.Columns = append(r.Columns, RasterColumn{s.Sequence, wholeNS(s.WorstNS), boundNS(s.BoundNS), int(s.Last)})
		first := int64(math.MaxInt64)
		for i := range s.Arrivals {
			first = min(first, s.Arrivals[i].EnterNS)
		}
		for i := range s.Arrivals {
			if row, ok := rowOf[s.Arrivals[i].Rank]; ok {
				cell := &r.LatenessNS[row*len(samples)+column]
				*cell = max(*cell, float32(s.Arrivals[i].EnterNS-first))
			}
		}
	}
	return r
}

// addRows puts the ranks into rows and returns the row of each.
func (r *Raster) addRows(arrivals []arrival.Arrival, columns int) map[int32]int {
	ranks := make([]int32, 0, len(arrivals))
	for i := range arrivals {
		ranks = append(ranks, arrivals[i].Rank)
	}
	slices.Sort(ranks)
	rowOf := make(map[int32]int, len(ranks))
	group := max(1, (len(ranks)+groupsMax-1)/groupsMax)
	for part := range slices.Chunk(ranks, group) {
		for _, rank := range part {
			rowOf[rank] = len(r.Rows)
		}
		r.Rows = append(r.Rows, RasterRow{int(part[0]), int(part[len(part)-1]), len(part)})
	}
	r.LatenessNS = slices.Repeat([]float32{-1}, len(r.Rows)*columns)
	return rowOf
}

// thin keeps at most n elements at even distances, the first and the last
// among them.
func thin(list []int, n int) []int {
	if len(list) <= n {
		return list
	}
	out := make([]int, n)
	for i := range out {
		out[i] = list[i*(len(list)-1)/(n-1)]
	}
	return out
}
