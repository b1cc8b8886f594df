package advise

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/mpitrace/mpitrace/internal/figures"
	"github.com/mpitrace/mpitrace/reusetrack"
)

// Schema is the version of the JSON form of Result.
const Schema = 1

// What a technique must save to be worth a word, both of them.
const (
	MinShare   = 0.01 // of the MPI time
	MinSeconds = 0.1  // summed over ranks
)

// mostly is the share of the MPI time from which on waiting explains it.
const mostly = 0.5

// siteShare is the part of what its technique saves below which a call site is
// not listed by itself.
const siteShare = 0.05

// Techniques, and the switch that will turn each on.
const (
	ZeroCopyEager    = "zero-copy eager"
	ReadRendezvous   = "read rendezvous"
	ArrivalAware     = "arrival-aware collective"
	ZeroCopyOneSided = "zero-copy one-sided"
)

var switches = map[string]string{
	ZeroCopyEager:    "--act zero-copy-eager",
	ReadRendezvous:   "--act read-rendezvous",
	ArrivalAware:     "--act arrival-aware",
	ZeroCopyOneSided: "--act zero-copy-rma",
}

// Degrees of confidence.
const (
	Low    = "low"
	Medium = "medium"
	High   = "high"
)

// Range is seconds summed over ranks, from the least that is to be expected to
// the most that is possible.
type Range struct {
	Low      float64 `json:"low"`
	Expected float64 `json:"expected"`
	High     float64 `json:"high"`
}

// Recommendation is what one technique would have saved at one call site.
type Recommendation struct {
	Technique         string   `json:"technique"`
	Function          string   `json:"function"`
	Place             string   `json:"place"` // empty: several places
	SavedSeconds      Range    `json:"saved_seconds"`
	ShareOfMPITime    float64  `json:"share_of_mpi_time"` // of the expected saving, 0 to 1
	Confidence        string   `json:"confidence"`
	Reason            string   `json:"reason"` // for the confidence
	Assumptions       []string `json:"assumptions"`
	How               string   `json:"how"`                          // the switch of act mode
	MinUses           uint64   `json:"min_uses,omitempty"`           // of a buffer, for registering it to pay
	RegisteredBuffers uint64   `json:"registered_buffers,omitempty"` // in all ranks
	RegisteredBytes   uint64   `json:"registered_bytes,omitempty"`
}

// Result is the advice for a job.
type Result struct {
	Schema          int              `json:"schema"`
	Ranks           int              `json:"ranks"`
	MPISeconds      float64          `json:"mpi_seconds"`
	Verdict         string           `json:"verdict"`
	Recommendations []Recommendation `json:"recommendations"`
	Notes           []string         `json:"notes"` // what was looked at and does not pay, or cannot be told
}

// Advise looks at each technique in turn. What it lists is sorted by expected
// saving. A technique that would save less than MinShare of the MPI time or
// MinSeconds in all is left away, and a note says so.
func Advise(in Input) *Result {
	if in.EagerLimit == 0 {
		in.EagerLimit = reusetrack.DefaultEagerLimit
	}
	if !(in.TransferBytesPerNS > 0) || math.IsInf(in.TransferBytesPerNS, 1) {
		in.TransferBytesPerNS = 0
	}
	r := &Result{Schema: Schema, Ranks: in.Ranks, MPISeconds: seconds(in.MPINS), Recommendations: []Recommendation{}, Notes: []string{}}
	for _, technique := range []struct {
		name string
		find func(*Input) ([]Recommendation, []string)
	}{
		{ZeroCopyEager, zeroCopyEager}, {ReadRendezvous, readRendezvous}, {ArrivalAware, arrivalAware}, {ZeroCopyOneSided, zeroCopyOneSided},
	} {
		found, notes := technique.find(&in)
		r.take(technique.name, found)
		r.Notes = append(r.Notes, notes...)
	}
	slices.SortStableFunc(r.Recommendations, func(a, b Recommendation) int {
		return cmp.Or(-cmp.Compare(a.SavedSeconds.Expected, b.SavedSeconds.Expected),
			strings.Compare(a.Technique, b.Technique), strings.Compare(a.Place, b.Place), strings.Compare(a.Function, b.Function))
	})
	r.Verdict = r.verdict(&in)
	return r
}

// take adds what was found for a technique if it is worth a word in all. Call
// sites that hardly matter become one line.
func (r *Result) take(technique string, found []Recommendation) {
	total := 0.0
	for i := range found {
		total += found[i].SavedSeconds.Expected
	}
	if total < MinSeconds || total < MinShare*r.MPISeconds {
		if len(found) > 0 {
			r.Notes = append(r.Notes, fmt.Sprintf("%s: would save %s in all, too little to matter", technique, secondsText(total)))
		}
		return
	}
	var rest []Recommendation
	for _, f := range found {
		f.Technique, f.How = technique, switches[technique]
		if f.SavedSeconds.Expected < siteShare*total {
			rest = append(rest, f)
			continue
		}
		r.add(f)
	}
	if len(rest) > 0 {
		r.add(together(rest))
	}
}

// add completes a recommendation.
func (r *Result) add(f Recommendation) {
	if r.MPISeconds > 0 {
		f.ShareOfMPITime = min(1, f.SavedSeconds.Expected/r.MPISeconds)
	}
	r.Recommendations = append(r.Recommendations, f)
}

// together sums small recommendations of one technique up; the confidence is
// the least of theirs.
func together(list []Recommendation) Recommendation {
	out := list[0]
	if len(list) == 1 {
		return out
	}
	out.Function, out.Place, out.MinUses = fmt.Sprintf("(%d more places)", len(list)), "", 0
	out.Assumptions = []string{"as for a single place, each with its own figures"}
	degrees := map[string]int{Low: 0, Medium: 1, High: 2}
	for _, f := range list[1:] {
		out.SavedSeconds = Range{out.SavedSeconds.Low + f.SavedSeconds.Low, out.SavedSeconds.Expected + f.SavedSeconds.Expected, out.SavedSeconds.High + f.SavedSeconds.High}
		out.RegisteredBuffers += f.RegisteredBuffers
		out.RegisteredBytes += f.RegisteredBytes
		if degrees[f.Confidence] < degrees[out.Confidence] {
			out.Confidence, out.Reason = f.Confidence, f.Reason
		}
	}
	return out
}

// verdict is the answer in a sentence.
func (r *Result) verdict(in *Input) string {
	if r.MPISeconds <= 0 {
		return "Nothing to gain: no time was spent in MPI."
	}
	if len(r.Recommendations) == 0 {
		text := fmt.Sprintf("Nothing to gain: no technique would save %s and %g %% of the %s in MPI", secondsText(MinSeconds), MinShare*100, secondsText(r.MPISeconds))
		if waiting := in.waiting(); waiting >= mostly*r.MPISeconds {
			text += fmt.Sprintf(". %s of it is waiting for late ranks at collectives, which only balanced work removes", secondsText(waiting))
		}
		return text + "."
	}
	total := 0.0
	for i := range r.Recommendations {
		total += r.Recommendations[i].SavedSeconds.Expected
	}
	total = min(total, r.MPISeconds)
	return fmt.Sprintf("About %s of the %s in MPI (%s) could be saved, first by %s.", secondsText(total), secondsText(r.MPISeconds), figures.Percent(total/r.MPISeconds), r.Recommendations[0].Technique)
}

// waiting is the time spent waiting for late ranks at collectives.
func (in *Input) waiting() (sum float64) {
	for i := range in.Sites {
		if w := in.Sites[i].Waiting; w != nil {
			sum += seconds(w.WaitingNS)
		}
	}
	return min(sum, seconds(in.MPINS))
}

// seconds converts ns.
func seconds(ns uint64) float64 { return float64(ns) / 1e9 }

// ordered is a range with its ends in order and nothing below zero.
func ordered(low, expected, high float64) Range {
	expected = max(0, expected)
	return Range{min(max(0, low), expected), expected, max(high, expected)}
}
