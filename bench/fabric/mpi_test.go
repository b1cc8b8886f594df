package main

import "testing"

// TestRatios: each round against the better MPI of that round.
func TestRatios(t *testing.T) {
	natives := []contender{
		{rounds: []figures{{2, 1, 100}, {8, 4, 50}}},
		{rounds: []figures{{4, 0.5, 50}, {4, 8, 200}}},
	}
	got := ratios([]figures{{1, 1, 100}, {2, 2, 100}}, natives)
	for i, want := range []figures{{0.5, 2, 1}, {0.5, 0.5, 0.5}} {
		if got[i] != want {
			t.Errorf("round %d: %v, want %v", i, got[i], want)
		}
	}
	if m := medianOf(got, func(f figures) float64 { return f.least }); m != 1.25 {
		t.Errorf("median %v", m)
	}
}
