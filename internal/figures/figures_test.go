package figures

import "testing"

// TestFigures: what would be rounded up to the next unit belongs to it.
func TestFigures(t *testing.T) {
	for got, want := range map[string]string{
		Duration(999):     "999 ns",
		Duration(999_499): "999 us",
		Duration(999_600): "1.00 ms",
		Duration(119e9):   "119 s",
		Duration(3600e9):  "60.0 min",
		Digits(9.994):     "9.99",
		Digits(99.94):     "99.9",
		Bytes(9999):       "9999 B",
		Bytes(999_499):    "999 kB",
		Bytes(999_500):    "1.00 MB",
		Count(9_999_999):  "9,999,999",
		Count(10_000_000): "10.0 M",
		Percent(0.0004):   "<0.1 %",
		Percent(0.0995):   "10 %",
		Percent(0):        "0.0 %",
	} {
		if got != want {
			t.Errorf("%q instead of %q", got, want)
		}
	}
}
