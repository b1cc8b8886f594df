package stats

import (
	"slices"
	"testing"
)

func TestQuantile(t *testing.T) {
	values := []float64{40, 10, 30, 20}
	for _, test := range []struct{ q, want float64 }{{0, 10}, {0.25, 17.5}, {0.5, 25}, {0.75, 32.5}, {1, 40}} {
		if got := Quantile(values, test.q); got != test.want {
			t.Errorf("quantile %v: got %v, want %v", test.q, got, test.want)
		}
	}
	if !slices.Equal(values, []float64{40, 10, 30, 20}) {
		t.Errorf("the values were sorted in place: %v", values)
	}
	if Quantile(nil, 0.5) != 0 || Median([]float64{7}) != 7 || Median([]float64{1, 9, 2}) != 2 {
		t.Error("of none, one or an odd number of values")
	}
}
