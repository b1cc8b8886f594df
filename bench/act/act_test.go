package main

import (
	"bytes"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/mpitrace/mpitrace/internal/golden"
	"github.com/mpitrace/mpitrace/internal/microbench"
)

// TestBoundsHold: of many simulated measurements, in 95 % of each kind the true
// slowdown is above the lower bound, and below the upper one.
func TestBoundsHold(t *testing.T) {
	const trials, pairs, truth = 4000, 5, 0.03
	random := rand.New(rand.NewPCG(5, 6))
	above, below := 0, 0
	for range trials {
		var base, other []float64
		for range pairs {
			machine := math.Exp(0.2 * random.NormFloat64()) // of the moment; both of a pair have it
			base = append(base, machine*math.Exp(0.02*random.NormFloat64()))
			other = append(other, (1+truth)*machine*math.Exp(0.02*random.NormFloat64()))
		}
		s := slowdownOf(base, other)
		if s.lower <= truth {
			above++
		}
		if truth <= s.upper {
			below++
		}
	}
	for _, n := range []int{above, below} {
		if share := float64(n) / trials; math.Abs(share-0.95) > 0.02 {
			t.Errorf("the bound holds in %.1f %% of the trials", 100*share)
		}
	}
}

func TestSlowdown(t *testing.T) {
	for _, c := range []struct {
		base, other        []float64
		mean, lower, upper float64
	}{
		{[]float64{2, 4}, []float64{4, 8}, 1, 1, 1},
		{[]float64{2, 2}, []float64{4, 1}, 0, math.Expm1(-6.314 * math.Ln2), math.Expm1(6.314 * math.Ln2)},
		{[]float64{2}, []float64{3}, 0.5, math.Inf(-1), math.Inf(1)},
	} {
		got := slowdownOf(c.base, c.other)
		for _, x := range [][2]float64{{got.mean, c.mean}, {got.lower, c.lower}, {got.upper, c.upper}} {
			if x[0] != x[1] && math.Abs(x[0]-x[1]) > 1e-9*(1+math.Abs(x[1])) {
				t.Errorf("%v against %v: %+v", c.other, c.base, got)
			}
		}
	}
	if s := slowdownOf(nil, nil); !math.IsNaN(s.mean) || s.pairs != 0 {
		t.Errorf("of no runs: %+v", s)
	}
}

func TestTook(t *testing.T) {
	got, err := parseTook("1500000000\n0m0.000000s 0m0.010000s\n1m2.500000s 0m0.250000s\n")
	if err != nil || got.seconds != 1.5 || got.cpu != 62.75 {
		t.Errorf("%+v, %v", got, err)
	}
	for _, text := range []string{"", "x\ny\nz\n", "1\n2\n", "1\n2\n3\n4\n"} {
		if got, err := parseTook(text); err == nil {
			t.Errorf("%q is read as %+v", text, got)
		}
	}
}

func TestGoals(t *testing.T) {
	x := func(v float64) *float64 { return &v }
	var text bytes.Buffer
	writeGoals(&text, []goal{
		{what: "time", where: "here", got: x(1.2), most: x(1.3)},
		{what: "time", where: "there", got: x(1.4), most: x(1.3)},
		{what: "share", where: "here", got: x(0.95), native: x(0.667), least: x(0.95)},
		{what: "share", where: "there", got: x(0.66), least: x(0.95)},
		{what: "rate", where: "here", got: x(0.7)},
		{what: "rate", where: "there", least: x(1)},
	})
	golden.Compare(t, "goals.txt", text.Bytes())
}

// sweep is a report of delays as the benchmark gives it.
func sweep() *microbench.Report {
	res := &microbench.Result{Name: "progress-recv"}
	for _, p := range []struct {
		delay       string
		native, act float64
	}{{"0", 9000, 9500}, {"8000us", 16500, 9600}, {"16000us", 25000, 9500}} {
		res.Rows = append(res.Rows, &microbench.Row{
			Dims: []microbench.Dim{{Key: "delay", Value: p.delay}}, Metric: "latency_us",
			Native: &microbench.Sample{Median: p.native}, Act: []microbench.Acted{{Sample: &microbench.Sample{Median: p.act}}, {}},
		})
	}
	return &microbench.Report{Act: []string{"rndv=read-event", "none"}, Benchmarks: []*microbench.Result{res}}
}

func TestTimeline(t *testing.T) {
	res := &microbench.Result{Name: "snapshot"}
	for metric, at := range map[string][2]float64{
		"posted_us": {20, 30}, "first_us": {25000, 900}, "last_us": {25000, 9400}, "wait_us": {16820, 16900}, "end_us": {25000, 16950},
	} {
		res.Rows = append(res.Rows, &microbench.Row{Metric: metric, Native: &microbench.Sample{Median: at[0]},
			Act: []microbench.Acted{{Sample: &microbench.Sample{Median: at[1]}}, {}}})
	}
	c := timelineOf(&microbench.Report{Act: []string{"rndv=read", "none"}, Benchmarks: []*microbench.Result{res}}, "a < b")
	if want := (bar{"rndv=read", 30, 900, 9400, 16900, 16950}); len(c.bars) != 2 || c.bars[1] != want {
		t.Fatalf("%+v", c)
	}
	golden.Compare(t, "timeline.svg", []byte(c.svg()))
	if empty := timelineOf(sweep(), ""); len(empty.bars) != 0 {
		t.Errorf("of another benchmark: %+v", empty)
	}
}

func TestPlot(t *testing.T) {
	c := chartOf(sweep(), "progress-recv", "a < b")
	if len(c.lines) != 2 || len(c.lines[1].points) != 3 || c.lines[0].points[2] != (point{16000, 25000}) {
		t.Fatalf("%+v", c)
	}
	golden.Compare(t, "plot.svg", []byte(c.svg()))
	if empty := chartOf(sweep(), "progress-send", ""); len(empty.lines) != 0 || !strings.HasPrefix(empty.svg(), "<svg") {
		t.Errorf("of another benchmark: %+v", empty)
	}
}
