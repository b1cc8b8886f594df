package microbench

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/mpitrace/mpitrace/internal/stats"
)

// dumbQuantile stretches the sorted values over a fine grid, a thousand steps
// between neighbours, and looks the answer up.
func dumbQuantile(values []float64, q float64) float64 {
	const steps = 1000
	sorted := slices.Clone(values)
	for range sorted { // bubble sort
		for i := 1; i < len(sorted); i++ {
			if sorted[i] < sorted[i-1] {
				sorted[i], sorted[i-1] = sorted[i-1], sorted[i]
			}
		}
	}
	grid := []float64{sorted[0]}
	for i := 1; i < len(sorted); i++ {
		for s := 1; s <= steps; s++ {
			grid = append(grid, sorted[i-1]+(sorted[i]-sorted[i-1])*float64(s)/steps)
		}
	}
	return grid[int(math.Round(q*float64(len(grid)-1)))]
}

func TestQuantileAgainstDumbTwin(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		values := make([]float64, 1+random.IntN(12))
		for i := range values {
			values[i] = math.Round(random.NormFloat64()*10) / 4
		}
		before := slices.Clone(values)
		for _, q := range []float64{0, 0.25, 0.5, 0.75, 1} {
			if got, want := stats.Quantile(values, q), dumbQuantile(values, q); math.Abs(got-want) > 1e-9 {
				t.Fatalf("quantile %v of %v is %v, want %v", q, values, got, want)
			}
		}
		if !slices.Equal(values, before) {
			t.Fatal("quantile changed the values")
		}
	}
}

// dumbRatio is ratio for an odd number of pairs that all count.
func dumbRatio(native, preloaded []float64) float64 {
	for i := range native {
		r, below, above := preloaded[i]/native[i], 0, 0
		for k := range native {
			switch other := preloaded[k] / native[k]; {
			case other < r:
				below++
			case other > r:
				above++
			}
		}
		if 2*below < len(native) && 2*above < len(native) {
			return r
		}
	}
	return math.NaN()
}

func TestRatioAgainstDumbTwin(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 500 {
		n := 1 + 2*random.IntN(5)
		natives, preloads := make([]float64, n), make([]float64, n)
		for i := range n {
			natives[i], preloads[i] = 1+random.Float64(), 1+random.Float64()
		}
		if got, want := ratio(natives, preloads), dumbRatio(natives, preloads); got == nil || *got != want {
			t.Fatalf("ratio of %v to %v: %v, want %v", preloads, natives, got, want)
		}
	}
}

func TestRatioOfPairsOnly(t *testing.T) {
	nan := math.NaN()
	if r := ratio([]float64{nan, 2, 0, 4}, []float64{7, 3, 9, nan}); r == nil || *r != 1.5 {
		t.Errorf("one pair of 3/2 counts, got %v", r)
	}
	if r := ratio([]float64{0, nan}, []float64{1, 1}); r != nil {
		t.Errorf("no native value above 0, and yet a ratio %v", *r)
	}
	if r := ratio([]float64{1, 1}, nil); r != nil {
		t.Errorf("nothing preloaded, and yet a ratio %v", *r)
	}
}

func TestSample(t *testing.T) {
	if s := newSample(nil); s != nil {
		t.Errorf("a sample of nothing: %+v", s)
	}
	if s := newSample([]float64{4, 1, 3, 2}); s.Median != 2.5 || s.Spread != 0.75 {
		t.Errorf("%+v, want median 2.5 and spread 0.75", s)
	}
}
