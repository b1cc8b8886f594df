package proof

import (
	"fmt"
	"math"
)

// Options of New; the zero value has what the documentation states.
type Options struct {
	// Looks are the numbers of pairs after which the evidence is judged.
	Looks []int // nil: 8, 16, 32, 64
	// Deviate is how far from chance, in standard deviations, the evidence must
	// be at any look. 0: 2.4, which 8 pairs reach if all agree.
	Deviate float64
	// Hold is for how many epochs a decision stands before it is tried again; it
	// doubles with each confirmation up to HoldMost. 0: 256, 16384.
	Hold, HoldMost int
}

// State of a trial.
type State int

// The states.
const (
	Trying    State = iota
	Kept            // the newcomer is faster
	Retreated       // it is not
)

func (s State) String() string { return [...]string{"trying", "kept", "retreated"}[s] }

// Candidate is one of two protocols.
type Candidate struct {
	Name        string
	PredictedNS float64 // of a message
}

// Trial compares a newcomer with the protocol that is known to be safe, for one
// call site and size class. It is not safe for concurrent use.
type Trial struct {
	o               Options
	known, newcomer Candidate

	state State
	pairs []float64  // of this trial: log of newcomer's time over known's
	half  float64    // the first epoch of the pair under way, 0: none
	sums  [2]float64 // of this trial
	count [2]int
	all   int // pairs of all trials

	before    State // what the last trial decided; Trying: there was none
	held      int   // epochs since the decision
	hold      int   // for how many it stands
	reason    string
	fallBacks int
}

// New begins a trial. The default of each option that is 0 is taken.
func New(known, newcomer Candidate, o Options) *Trial {
	if len(o.Looks) == 0 {
		o.Looks = []int{8, 16, 32, 64}
	}
	if o.Deviate == 0 {
		o.Deviate = 2.4
	}
	if o.Hold == 0 {
		o.Hold = 256
	}
	if o.HoldMost == 0 {
		o.HoldMost = 16384
	}
	return &Trial{o: o, known: known, newcomer: newcomer, reason: "not decided yet"}
}

// State is where the trial stands.
func (t *Trial) State() State { return t.state }

// Newcomer tells whether the next epoch goes by the newcomer. In a trial the
// order within pairs alternates, so that what drifts favours neither.
func (t *Trial) Newcomer() bool {
	if t.state != Trying {
		return t.state == Kept
	}
	return (t.half == 0) == (len(t.pairs)%2 == 1)
}

// Epoch tells what the epoch cost that Newcomer was asked about, in ns a
// message. Epochs that cost nothing or no number are passed over.
func (t *Trial) Epoch(ns float64) {
	if !(ns > 0) || math.IsInf(ns, 0) {
		return
	}
	if t.state != Trying {
		if t.held++; t.held >= t.hold {
			t.again()
		}
		return
	}
	who := 0
	if t.Newcomer() {
		who = 1
	}
	t.sums[who] += ns
	t.count[who]++
	if t.half == 0 {
		t.half = ns
		return
	}
	ratio := math.Log(ns / t.half)
	if who == 0 {
		ratio = -ratio
	}
	t.pairs, t.half = append(t.pairs, ratio), 0
	t.all++
	t.look()
}

// GiveUp ends a trial whose newcomer cannot be measured: no gain of it is shown.
func (t *Trial) GiveUp() {
	if t.state == Trying {
		t.half = 0
		t.decide(Retreated, fmt.Sprintf("no gain shown in %d pairs of epochs", len(t.pairs)))
	}
}

// again begins a new trial; what the last one decided stands in the meantime.
func (t *Trial) again() {
	t.before, t.state = t.state, Trying
	t.pairs, t.sums, t.count = nil, [2]float64{}, [2]int{}
}

// look judges the evidence where it is time to.
func (t *Trial) look() {
	last := t.o.Looks[len(t.o.Looks)-1]
	due := false
	for _, n := range t.o.Looks {
		due = due || n == len(t.pairs)
	}
	if !due {
		return
	}
	z := signedRank(t.pairs)
	change := 100 * (math.Exp(median(t.pairs)) - 1)
	switch {
	case z <= -t.o.Deviate:
		t.decide(Kept, fmt.Sprintf("%.1f %% less time in %d pairs of epochs", -change, len(t.pairs)))
	case z >= t.o.Deviate:
		t.decide(Retreated, fmt.Sprintf("%.1f %% more time in %d pairs of epochs", change, len(t.pairs)))
	case len(t.pairs) >= last && t.before == Kept:
		t.decide(Kept, fmt.Sprintf("gained before, and no loss shown in %d pairs of epochs", len(t.pairs)))
	case len(t.pairs) >= last:
		t.decide(Retreated, fmt.Sprintf("no gain shown in %d pairs of epochs", len(t.pairs)))
	}
}

func (t *Trial) decide(state State, reason string) {
	if t.before == state {
		t.hold = min(2*t.hold, t.o.HoldMost)
	} else {
		t.hold = t.o.Hold
	}
	if t.before == Kept && state == Retreated {
		t.fallBacks++
	}
	t.state, t.reason, t.held = state, reason, 0
}

// Row is one row of the ledger: what was decided for a call site and size
// class, and on what grounds. Times are ns of a message.
type Row struct {
	Site       string  `json:"site"`
	From       uint64  `json:"from"` // payload
	To         uint64  `json:"to"`   // less than; 0: no limit
	Chosen     string  `json:"chosen"`
	RunnerUp   string  `json:"runner_up"`
	Predicted  float64 `json:"predicted_ns"` // of Chosen
	Measured   float64 `json:"measured_ns"`  // of Chosen, mean of the latest trial; 0: none
	RunnerUpNS float64 `json:"runner_up_ns"` // the same of RunnerUp
	Reason     string  `json:"reason"`
	Pairs      int     `json:"pairs"` // of epochs, in all trials
	FallBacks  int     `json:"fall_backs"`
}

// Row is the trial as a row of the ledger. While it is going on, what was known
// to be safe counts as chosen.
func (t *Trial) Row(site string, from, to uint64) Row {
	chosen, other := 0, 1
	if t.state == Kept || t.state == Trying && t.before == Kept {
		chosen, other = 1, 0
	}
	names := [2]Candidate{t.known, t.newcomer}
	return Row{
		Site: site, From: from, To: to, Chosen: names[chosen].Name, RunnerUp: names[other].Name, Predicted: names[chosen].PredictedNS,
		Measured: t.mean(chosen), RunnerUpNS: t.mean(other), Reason: t.reason, Pairs: t.all, FallBacks: t.fallBacks,
	}
}

func (t *Trial) mean(who int) float64 {
	if t.count[who] == 0 {
		return 0
	}
	return t.sums[who] / float64(t.count[who])
}
