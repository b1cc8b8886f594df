package report

import (
	"math"
	"reflect"
	"testing"
)

func TestDuration(t *testing.T) {
	for ns, want := range map[uint64]string{
		0: "0 ns", 999: "999 ns", 1000: "1.00 us", 9_996: "10.0 us", 99_960: "100 us", 999_600: "1.00 ms", 1_500_000_000: "1.50 s",
		119e9: "119 s", 120e9: "2.00 min", 7200e9: "2.00 h", 172800e9: "2.00 d", math.MaxUint64: "213504 d",
	} {
		if got := duration(ns); got != want {
			t.Errorf("%d ns is %q, want %q", ns, got, want)
		}
	}
}

func TestSizes(t *testing.T) {
	for n, want := range map[uint64]string{0: "0 B", 9999: "9999 B", 10_000: "10.0 kB", 999_600: "1.00 MB", 1_500_000_000: "1.50 GB", math.MaxUint64: "18.4 EB"} {
		if got := bytesText(n); got != want {
			t.Errorf("%d bytes are %q, want %q", n, got, want)
		}
	}
	for n, want := range map[uint64]string{0: "0", 999: "999", 1000: "1,000", 9_999_999: "9,999,999", 12_300_000: "12.3 M", 12_300_000_000: "12.3 G", math.MaxUint64: "18446744 T"} {
		if got := countText(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
	for share, want := range map[float64]string{0: "0.0 %", 0.0001: "<0.1 %", 0.051: "5.1 %", 0.0999: "10 %", 1: "100 %"} {
		if got := percent(share); got != want {
			t.Errorf("%v is %q, want %q", share, got, want)
		}
	}
}

func TestFormatRanks(t *testing.T) {
	for _, test := range []struct {
		ranks []int
		limit int
		want  string
	}{
		{[]int{3}, 4, "3"}, {[]int{0, 1, 2, 3}, 4, "0-3"}, {[]int{5, 4, 9, 4}, 4, "4,5,9"}, {[]int{0, 2, 4, 6, 8}, 2, "0,2,… (5)"}, {[]int{-1, 2}, 4, "not numbered yet,2"}, {nil, 4, ""},
	} {
		if got := formatRanks(test.ranks, test.limit); got != test.want {
			t.Errorf("%v is %q, want %q", test.ranks, got, test.want)
		}
	}
}

// TestBins merges what the clock cannot tell apart, and loses no count.
func TestBins(t *testing.T) {
	var counts [64]uint64
	counts[0], counts[1], counts[4], counts[5], counts[6], counts[63] = 1, 2, 3, 4, 5, 6
	for resolution, want := range map[float64][]Bin{
		0:  {{0, 1, 1}, {1, 2, 2}, {8, 16, 3}, {16, 32, 4}, {32, 64, 5}, {1 << 62, 0, 6}},
		20: {{0, 32, 10}, {32, 64, 5}, {1 << 62, 0, 6}},
	} {
		if got := bins(&counts, resolution); !reflect.DeepEqual(got, want) {
			t.Errorf("resolution %v: %v, want %v", resolution, got, want)
		}
	}
}

func TestBars(t *testing.T) {
	unicode, ascii := &View{}, &View{ASCII: true}
	for share, want := range map[float64]string{-1: "", 0: "", 0.001: "▏", 0.5: "█████", 1: "██████████", 7: "██████████"} {
		if got := unicode.bar(share, 10); got != want {
			t.Errorf("%v is %q, want %q", share, got, want)
		}
	}
	if got := ascii.bar(0.5, 10); got != "#####" {
		t.Errorf("half in ASCII is %q", got)
	}
	if got := unicode.spark([]float64{0, 1, 4, 8}, 8); got != " ▁▄█" {
		t.Errorf("spark %q", got)
	}
	if got, each := fold([]float64{1, 3, 5, 7, 9}, 3); each != 2 || !reflect.DeepEqual(got, []float64{2, 6, 9}) {
		t.Errorf("folded %v by %d", got, each)
	}
}

func TestChange(t *testing.T) {
	for m, want := range map[Metric]string{
		{"", 0, 0}: "same", {"", 0, 1}: "new", {"", 1, 0}: "gone", {"", 100, 105}: "+5.0 %", {"", 100, 50}: "-50 %", {"", 1, 20}: "×20.0", {"", 1e6, 1e6 + 1}: "±0.0 %",
	} {
		if got := changeText(m.Change()); got != want {
			t.Errorf("%+v is %q, want %q", m, got, want)
		}
	}
}

// TestWords keeps figures and their units on one line.
func TestWords(t *testing.T) {
	want := []string{"3.2 ms", "of", "the", "5 s,", "62 %", "of", "2", "ranks", "in", "ms"}
	if got := words("3.2 ms of the 5 s, 62 % of 2 ranks in ms"); !reflect.DeepEqual(got, want) {
		t.Errorf("%q", got)
	}
}

func TestSomeOf(t *testing.T) {
	names := []string{"a", "b", "c", "d"}
	for n, want := range map[int]string{0: "", 1: "a", 2: "a and b", 3: "a, b and c", 4: "a, b and 2 more places"} {
		if got := someOf(names[:n], 2); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}
