package proof

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestScenarios replays testdata. -rewrite writes the expected output anew.
//
//	new [hold=N] [most=N] [looks=A,B]   a trial of reuse against copy
//	epochs N known=NS newcomer=NS       so many epochs of these costs
//	until known=NS newcomer=NS          as many as the state needs to change
//	noise N share=S seed=K              N noisy epochs, of the newcomer S as long
//	give-up                             the newcomer cannot be measured
//	row                                 the row of the ledger
//
// c/test/trial_test.c replays the same files on the version of the ranks.
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		var trial *Trial
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "new":
				o := Options{}
				d.MaybeScanArgs(t, "hold", &o.Hold)
				d.MaybeScanArgs(t, "most", &o.HoldMost)
				trial = New(Candidate{"copy", 900}, Candidate{"reuse", 700}, o)
				return ""
			case "give-up":
				trial.GiveUp()
				return trial.State().String() + "\n"
			case "row":
				return fmt.Sprintf("%+v\n", trial.Row("halo.c:91", 1024, 2048))
			case "noise":
				return noisy(t, trial, d)
			case "epochs", "until":
				return epochs(t, trial, d)
			}
			d.Fatalf(t, "unknown command %s", d.Cmd)
			return ""
		})
	})
}

func epochs(t *testing.T, trial *Trial, d *datadriven.TestData) string {
	cost := [2]float64{}
	for i, name := range []string{"known", "newcomer"} {
		var text string
		d.ScanArgs(t, name, &text)
		var err error
		if cost[i], err = strconv.ParseFloat(text, 64); err != nil {
			d.Fatalf(t, "%v", err)
		}
	}
	limit, before := 100_000, trial.State()
	if d.Cmd == "epochs" {
		limit, _ = strconv.Atoi(d.CmdArgs[0].Key)
	}
	var order strings.Builder
	n := 0
	for ; n < limit && (d.Cmd == "epochs" || trial.State() == before); n++ {
		who := 0
		if trial.Newcomer() {
			who = 1
		}
		order.WriteByte("kn"[who])
		// A little apart, so that no two differences are equal.
		trial.Epoch(cost[who] * (1 + 1e-6*float64(n%7)))
	}
	shown := order.String()
	if len(shown) > 32 {
		shown = shown[:32] + ".."
	}
	return fmt.Sprintf("%d epochs %s: %s\n", n, shown, trial.State())
}

// noisy tells at which epochs the state changes.
func noisy(t *testing.T, trial *Trial, d *datadriven.TestData) string {
	var text string
	var random uint64
	d.ScanArgs(t, "share", &text)
	d.ScanArgs(t, "seed", &random)
	share, err := strconv.ParseFloat(text, 64)
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	limit, _ := strconv.Atoi(d.CmdArgs[0].Key)
	next := func() float64 {
		random = random*6364136223846793005 + 1442695040888963407
		return float64(random>>11) / (1 << 53)
	}
	var out strings.Builder
	for n := range limit {
		before, ns := trial.State(), 1000.0
		if trial.Newcomer() {
			ns = 1000 * share
		}
		wide := float64(0.4 * next()) // rounded, as in C
		ns *= 0.8 + wide
		if next() < 0.05 {
			ns *= 5
		}
		trial.Epoch(ns)
		if trial.State() != before {
			fmt.Fprintf(&out, "%d: %s\n", n, trial.State())
		}
	}
	return out.String()
}

// TestSignedRank compares with the sum over all pairs (i <= j) of the sign of
// d[i] + d[j], which is the same statistic by definition (Walsh averages).
func TestSignedRank(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for range 2000 {
		d := make([]float64, 1+random.IntN(40))
		for i := range d {
			d[i] = random.NormFloat64()
		}
		sum := 0.0
		for i := range d {
			for j := i; j < len(d); j++ {
				sum += math.Copysign(1, d[i]+d[j])
			}
		}
		n := float64(len(d))
		want := math.Copysign(max(0, math.Abs(sum)-1), sum) / math.Sqrt(n*(n+1)*(2*n+1)/6)
		if got := signedRank(d); math.Abs(got-want) > 1e-9 {
			t.Fatalf("%v: %g, want %g", d, got, want)
		}
	}
	for _, d := range [][]float64{nil, {0, 0}, {math.NaN()}} {
		if signedRank(d) != 0 {
			t.Errorf("%v is evidence", d)
		}
	}
	// Ties, by hand: ranks 1.5, 1.5, 3; sum -3; variance 14 - 6/12.
	if got, want := signedRank([]float64{1, -1, -2}), -2/math.Sqrt(13.5); math.Abs(got-want) > 1e-12 {
		t.Errorf("with ties %g, want %g", got, want)
	}
}

// noise is a machine: each epoch differs by 10 %, one in twenty is hit by
// something five times as long, and all drift together.
type noise struct {
	random *rand.Rand
	drift  float64
}

func (n *noise) epoch(ns float64) float64 {
	n.drift += 0.01 * n.random.NormFloat64()
	ns *= math.Exp(n.drift + 0.1*n.random.NormFloat64())
	if n.random.IntN(20) == 0 {
		ns *= 5
	}
	return ns
}

// decisions is how many of so many trials keep a newcomer that takes the share
// of the time of what is known, and the mean number of pairs of a trial. before
// is what an earlier trial decided.
func decisions(share float64, before State, trials int) (kept, pairs float64) {
	n := &noise{random: rand.New(rand.NewPCG(7, 8))}
	for range trials {
		n.drift = 0
		trial := New(Candidate{Name: "known"}, Candidate{Name: "newcomer"}, Options{})
		trial.before = before
		for trial.State() == Trying {
			cost := 1000.0
			if trial.Newcomer() {
				cost *= share
			}
			trial.Epoch(n.epoch(cost))
		}
		if trial.State() == Kept {
			kept++
		}
		pairs += float64(trial.Row("", 0, 0).Pairs)
	}
	return kept / float64(trials), pairs / float64(trials)
}

// TestRates holds the rates that docs/policy.md states. The generator is
// seeded, so that they are the same in every run.
func TestRates(t *testing.T) {
	for _, c := range []struct {
		share       float64
		before      State
		least, most float64
	}{
		{0.70, Trying, 0.99, 1},
		{0.80, Trying, 0.99, 1},
		{0.90, Trying, 0.95, 0.99},
		{0.95, Trying, 0.40, 0.55},
		{1.00, Trying, 0.01, 0.03},
		{1.02, Trying, 0, 0.01},
		{1.10, Trying, 0, 0.001},
		{0.90, Kept, 0.999, 1},
		{1.00, Kept, 0.97, 0.99},
		{1.10, Kept, 0.04, 0.08},
		{1.50, Kept, 0, 0.001},
	} {
		kept, pairs := decisions(c.share, c.before, 4000)
		t.Logf("newcomer takes %.2f of the time, before %s: kept in %.2f %% of trials, %.1f pairs", c.share, c.before, 100*kept, pairs)
		if kept < c.least || kept > c.most {
			t.Errorf("newcomer takes %.2f of the time, before %s: kept in %.4f of the trials, not between %g and %g", c.share, c.before, kept, c.least, c.most)
		}
	}
}

// TestBadEpochs: what is no time changes nothing.
func TestBadEpochs(t *testing.T) {
	trial := New(Candidate{}, Candidate{}, Options{})
	for _, ns := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		first := trial.Newcomer()
		trial.Epoch(ns)
		if trial.Newcomer() != first || trial.Row("", 0, 0).Pairs != 0 {
			t.Errorf("%g was taken", ns)
		}
	}
}

// TestOrder: in a trial both sides go first equally often.
func TestOrder(t *testing.T) {
	trial := New(Candidate{}, Candidate{}, Options{Looks: []int{100}})
	var order []bool
	for range 40 {
		order = append(order, trial.Newcomer())
		trial.Epoch(1)
	}
	if !slices.Equal(order[:4], []bool{false, true, true, false}) || !slices.Equal(order[:4], order[36:]) {
		t.Errorf("%v", order)
	}
}
