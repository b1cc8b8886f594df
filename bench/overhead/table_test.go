package main

import (
	"strings"
	"testing"

	"github.com/mpitrace/mpitrace/internal/stats"
	"github.com/mpitrace/mpitrace/test/mpijob"
)

func TestQuantile(t *testing.T) {
	values := []float64{4, 1, 3, 2}
	for _, c := range []struct{ q, want float64 }{{0, 1}, {0.5, 2.5}, {1, 4}, {0.25, 1.75}} {
		if got := stats.Quantile(values, c.q); got != c.want {
			t.Errorf("quantile %v is %v, want %v", c.q, got, c.want)
		}
	}
	if values[0] != 4 {
		t.Error("quantile sorted the caller's values")
	}
}

// allMPIs are those that the tests pretend to have measured.
var allMPIs = mpijob.All

var sixLoops = []string{"Comm_rank", "Iprobe", "Sendrecv", "Sendrecv_64x13", "Irecv+Send+Wait", "Allreduce"}

// synthetic makes figures in which the shim adds the given time everywhere
// while the machine drifts from repetition to repetition.
func synthetic(added float64, loops ...string) *figures {
	f := newFigures(allMPIs[0], nil, []variant{{name: nativeName}, {name: shimName}})
	for _, loop := range loops {
		for _, native := range []float64{100, 200, 300} {
			f.append(nativeName, loop, native)
			f.append(shimName, loop, native+added)
		}
	}
	return f
}

func TestTableWithinLimits(t *testing.T) {
	text, within := synthetic(15, append(sixLoops, "2ranks_Allreduce")...).table()
	if !within {
		t.Errorf("15 ns everywhere is within all limits, but the table says not:\n%s", text)
	}
	if !strings.Contains(text, "+15.0") {
		t.Errorf("paired differences of 15 ns are not in the table:\n%s", text)
	}
}

func TestTableOverLimits(t *testing.T) {
	text, within := synthetic(22, append(sixLoops, "2ranks_Allreduce")...).table()
	if within || strings.Count(text, "OVER") != 1 {
		t.Errorf("22 ns is over the limit of Comm_rank alone:\n%s", text)
	}
}

// line is the row of the table that begins with a name.
func line(t *testing.T, text, name string) string {
	t.Helper()
	for _, l := range strings.Split(text, "\n") {
		if strings.HasPrefix(l, name+" ") {
			return l
		}
	}
	t.Fatalf("no row %s in the table:\n%s", name, text)
	return ""
}

func TestTwoRankLimits(t *testing.T) {
	for _, c := range []struct {
		loop   string
		limit  float64
		prints string
	}{
		{"2ranks_ping-pong_8B", 70, "<= 70 "},
		{"2ranks_window_64", 40 * 67 / 64.0, "<= 41.9 "},
		{"2ranks_Allreduce", 35, "<= 35 "},
	} {
		text, within := synthetic(c.limit, c.loop).table()
		if row := line(t, text, c.loop); !within || !strings.HasSuffix(row, c.prints+"ok") {
			t.Errorf("%v ns keep the limit without the six loops beside: %q", c.limit, row)
		}
		text, within = synthetic(c.limit+0.1, c.loop).table()
		if row := line(t, text, c.loop); within || !strings.HasSuffix(row, c.prints+"OVER") {
			t.Errorf("%v ns are beyond the limit: %q", c.limit+0.1, row)
		}
	}
}

func TestTwoRankPrediction(t *testing.T) {
	f := synthetic(16, sixLoops...)
	for _, native := range []float64{100, 200, 300} {
		f.append(nativeName, "2ranks_ping-pong_8B", native)
		f.append(shimName, "2ranks_ping-pong_8B", native+50)
	}
	text, within := f.table()
	row := line(t, text, "2ranks_ping-pong_8B")
	if !within || !strings.HasSuffix(row, "<= 70 ok; the mean of the six predicts +32.0") {
		t.Errorf("limit and prediction are not both in the row: %q", row)
	}
}

func TestTwoRankSpreadIsNoAllowance(t *testing.T) {
	const loop = "2ranks_Allreduce"
	f := synthetic(0)
	for _, added := range []float64{-1000, 40, 1000} {
		f.append(nativeName, loop, 2000)
		f.append(shimName, loop, 2000+added)
	}
	text, within := f.table()
	if row := line(t, text, loop); within || !strings.HasSuffix(row, "<= 35 OVER; spread larger than the difference") {
		t.Errorf("40 ns are over 35 whatever the spread, and the row must tell of it: %q", row)
	}
}

func TestVariantOfOneProgram(t *testing.T) {
	f := synthetic(15, append(sixLoops, "cold_Iprobe")...)
	f.variants = append(f.variants, variant{name: floorName, only: self.name})
	for _, loop := range sixLoops {
		for _, native := range []float64{100, 200, 300} {
			f.append(floorName, loop, native+12)
		}
	}
	text, _ := f.table()
	if row := line(t, text, "Iprobe"); !strings.Contains(row, "+15.0 ±   0.0     +12.0 ±   0.0") {
		t.Errorf("the floor is not beside the shim: %q", row)
	}
	if row := line(t, text, "cold_Iprobe"); !strings.HasSuffix(row, strings.Repeat(" ", 18)+"  ") {
		t.Errorf("the floor was not measured here, its place is not blank: %q", row)
	}
	if strings.Contains(f.raw(), "2-counter-reads cold_Iprobe") {
		t.Errorf("raw figures name a loop that was not run:\n%s", f.raw())
	}
	if row := line(t, text, "mean of the six"); !strings.Contains(row, "+15.0") || !strings.Contains(row, "+12.0") {
		t.Errorf("a mean is missing: %q", row)
	}
}

func TestColumnBetweenVariants(t *testing.T) {
	f := synthetic(15, "stack_Sendrecv")
	f.variants = append(f.variants, variant{name: stackName})
	f.further = []column{{"stack=4 - default", stackName, shimName}}
	for _, native := range []float64{100, 200, 300} {
		f.append(stackName, "stack_Sendrecv", native+55)
	}
	text, within := f.table()
	row := line(t, text, "stack_Sendrecv")
	if !within || !strings.Contains(row, "+15.0 ±   0.0     +55.0 ±   0.0     +40.0 ±   0.0") {
		t.Errorf("want 15 and 55 ns beyond native, 40 ns between them: %q", row)
	}
}

func TestAddRefusesOutputWithoutResults(t *testing.T) {
	f := synthetic(0)
	if err := f.add("native", []byte("nothing\n")); err == nil {
		t.Error("output without a result line was taken")
	}
	if err := f.add("native", []byte("result x fast\n")); err == nil {
		t.Error("a result that is no number was taken")
	}
}
