package main

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
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

// TestQuotient: the bounds hold as often as they say, and no outlier moves them.
func TestQuotient(t *testing.T) {
	sample := func(values ...float64) *microbench.Sample { return &microbench.Sample{Values: values} }
	const trials, truth = 4000, 1.1
	random := rand.New(rand.NewPCG(7, 8))
	for pairs, want := range map[int]float64{5: 31. / 32, 7: 127. / 128, 21: 0.961} { // heads in so many throws: none, none, at most 6
		above, below := 0, 0
		for range trials {
			base, other := sample(), sample()
			for range pairs {
				x := math.Exp(random.NormFloat64())
				base.Values = append(base.Values, x)
				other.Values = append(other.Values, x*truth*math.Exp(0.02*random.NormFloat64()))
			}
			q := quotientOf(base, other)
			if q.lower <= truth {
				above++
			}
			if truth <= q.upper {
				below++
			}
		}
		for _, n := range []int{above, below} {
			if share := float64(n) / trials; math.Abs(share-want) > 0.012 {
				t.Errorf("%d pairs: the bound holds in %.1f %% of the trials", pairs, 100*share)
			}
		}
	}
	if q := quotientOf(sample(1, 2, 1, 1, 1), sample(2, 2, 3, 99, 1)); *q != (quotient{2, 1, 99}) {
		t.Errorf("%+v", q)
	}
	if q := quotientOf(sample(1, 2), sample(2, 2)); q.median != 1.5 || !math.IsInf(q.lower, -1) || !math.IsInf(q.upper, 1) {
		t.Errorf("%+v", q)
	}
	for _, of := range [][2]*microbench.Sample{{nil, sample(1)}, {sample(1), nil}, {sample(1, 2), sample(1)}, {sample(0), sample(1)}} {
		if q := quotientOf(of[0], of[1]); q != nil {
			t.Errorf("%+v of no pairs", q)
		}
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
		goal{what: "loss", where: "here", most: x(1.01)}.of(&quotient{1.02, 0.99, 1.04}),
		goal{what: "loss", where: "there", most: x(1.01)}.of(&quotient{1.06, 1.02, 1.09}),
		goal{what: "gain", where: "here", least: x(0.99)}.of(&quotient{0.98, 0.9, 1.01}),
		goal{what: "gain", where: "there", least: x(0.99)}.of(&quotient{0.98, math.Inf(-1), math.Inf(1)}),
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

// TestGain: the share of Equation 5.6 that a ping-pong reaches, by what two ranks
// measured of their copies.
func TestGain(t *testing.T) {
	result := t.TempDir()
	for rank, text := range []string{
		`{"look_up_ns": 20, "reuse_costs": [{"from": 1024, "to": 2048, "copy_ns": 100}, {"from": 8192, "to": 16384, "copy_ns": 400}]}`,
		`{"look_up_ns": 40, "reuse_costs": [{"from": 128, "to": 256, "copy_ns": 30}, {"from": 1024, "to": 2048, "copy_ns": 160}]}`,
	} {
		if err := os.WriteFile(filepath.Join(result, fmt.Sprintf("act-world-%d.json", rank)), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	costs, err := spared(result)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		bytes            string
		copied, straight float64 // us
		want             *float64
	}{
		{"1024", 2, 1.91, ptr(0.9)}, // 0.1 of 2 us could be gained, 0.09 were
		{"8192", 10, 9.62, ptr(1)},
		{"1024", 2, 2.05, ptr(-0.5)},
		{"128", 1, 0.9, nil}, // the copy is cheaper than the look-up
		{"4096", 1, 0.9, nil},
	} {
		row := &microbench.Row{
			Dims: []microbench.Dim{{Key: "size", Value: c.bytes}},
			Act:  []microbench.Acted{{Sample: &microbench.Sample{Median: c.copied}}, {Sample: &microbench.Sample{Median: c.straight}}},
		}
		got := gain(row, costs, "here").got
		if (got == nil) != (c.want == nil) || got != nil && math.Abs(*got-*c.want) > 1e-9 {
			t.Errorf("%+v: %s, want %s", c, figure(got), figure(c.want))
		}
	}
	if costs, err := spared(t.TempDir()); err == nil {
		t.Errorf("of no ledger: %+v", costs)
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
