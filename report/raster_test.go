package report

import (
	"math"
	"testing"

	"github.com/mpitrace/mpitrace/internal/synth"
	"github.com/mpitrace/mpitrace/segment"
)

// TestRaster compares the lateness of each cell with the segments. All ranks
// share a clock, so that it is exact.
func TestRaster(t *testing.T) {
	for _, ranks := range []int{5, 1100} {
		j := synth.Job{ID: "raster", Ranks: ranks, RanksPerNode: ranks, Sampled: true}
		r := load(t, j, Options{Rasters: 3})
		if len(r.Rasters) != 1 || r.Rasters[0].Arrival != r.Arrivals[0] {
			t.Fatalf("%d rasters", len(r.Rasters))
		}
		raster := r.Rasters[0]
		enters := make([]map[uint32]float64, ranks) // by rank and sequence
		for rank := range enters {
			enters[rank] = map[uint32]float64{}
			for _, a := range j.Segment(rank).Arrivals {
				enters[rank][a.Sequence] = float64(a.EnterTicks) / 2
			}
		}
		if len(raster.Columns) != rasterSamples || len(raster.Rows) > groupsMax || len(raster.LatenessNS) != len(raster.Rows)*len(raster.Columns) {
			t.Fatalf("%d columns, %d rows, %d cells", len(raster.Columns), len(raster.Rows), len(raster.LatenessNS))
		}
		for c, column := range raster.Columns {
			first := math.Inf(1)
			for rank := range ranks {
				first = min(first, enters[rank][column.Sequence])
			}
			for i, row := range raster.Rows {
				want := 0.0
				for rank := row.First; rank <= row.Last; rank++ {
					want = max(want, enters[rank][column.Sequence]-first)
				}
				if got := float64(raster.LatenessNS[i*len(raster.Columns)+c]); math.Abs(got-want) > 2+want/1e6 {
					t.Fatalf("%d ranks, operation %d, row %+v: %g ns late, want %g", ranks, column.Sequence, row, got, want)
				}
			}
		}
		all := 0
		for _, row := range raster.Rows {
			all += row.Ranks
		}
		if all != ranks || !raster.Late() {
			t.Errorf("%d ranks in the rows, want %d", all, ranks)
		}
	}
}

// TestRasterPlaces: a place has only the operations that were called from it.
func TestRasterPlaces(t *testing.T) {
	second := func(a *segment.RawArrival) bool { return a.Sequence%3 == 0 }
	j := synth.Job{ID: "places", Ranks: 4, RanksPerNode: 4, Sampled: true, Mutate: func(_ int, s *synth.Segment) *synth.Segment {
		for i := range s.Arrivals {
			if a := &s.Arrivals[i]; second(a) {
				a.Address += 0x100
			}
		}
		return s
	}}
	r := load(t, j, Options{Rasters: 6})
	if len(r.Rasters) != 2 {
		t.Fatalf("%d rasters, want 2", len(r.Rasters))
	}
	for _, raster := range r.Rasters {
		moved := raster.Arrival.Site.Offset == 0x14a0
		if len(raster.Columns) != min(raster.Arrival.Sampled, rasterSamples) {
			t.Errorf("%d columns of %d samples", len(raster.Columns), raster.Arrival.Sampled)
		}
		for _, column := range raster.Columns {
			if (column.Sequence%3 == 0) != moved {
				t.Errorf("operation %d is in the raster of %#x", column.Sequence, raster.Arrival.Site.Offset)
			}
		}
	}
}

// TestThin keeps both ends and the order.
func TestThin(t *testing.T) {
	list := make([]int, 1000)
	for i := range list {
		list[i] = i
	}
	got := thin(list, 160)
	for i := 1; i < len(got); i++ {
		if step := got[i] - got[i-1]; step < 6 || step > 7 {
			t.Errorf("a step of %d", step)
		}
	}
	if got[0] != 0 || got[len(got)-1] != 999 || len(got) != 160 || len(thin(list[:7], 160)) != 7 {
		t.Errorf("%v", got)
	}
}
