package advise

import (
	"fmt"
	"math"
)

// speedup is by how much arrival-aware algorithms made a collective of an
// application faster: over the native one, least, median and greatest of the
// published cells.
//
// Source: Qian's thesis (Queen's University 2010), on 4, 8 and 16 processes:
// Table 6.2, PAP_Direct alltoall in NAS FT (1.08 1.01 1.10 1.04 1.14 1.17);
// Table 6.3, PAP_Shm_Direct allgather in N-BODY and RADIX (1.01 0.92 1.03 1.53
// 1.52 1.62).
type speedup struct{ least, median, most float64 }

var published = map[kind]speedup{
	alltoall:  {1.01, 1.09, 1.17},
	allgather: {0.92, 1.275, 1.62},
}

// saved is the part of the old time that a speedup saves; negative if it is a
// slowdown.
func saved(speedup float64) float64 { return 1 - 1/speedup }

// arrivalAware is what early ranks could do while they wait for late ones:
// exchange with those that are there. An operation cannot save more than it
// works, less the part of the last rank, nor more than it waits.
func arrivalAware(in *Input) ([]Recommendation, []string) {
	var out []Recommendation
	var notes []string
	for i := range in.Sites {
		s := &in.Sites[i]
		if s.Waiting == nil || s.Waiting.WaitingNS == 0 {
			continue
		}
		gain, ok := published[s.kind()]
		if !ok {
			if n := waitingNote(in, s); n != "" {
				notes = append(notes, n)
			}
			continue
		}
		if r := collectiveAt(s, gain); r.SavedSeconds.Expected > 0 {
			out = append(out, r)
		}
	}
	return out, notes
}

func collectiveAt(s *Site, gain speedup) Recommendation {
	w := s.Waiting
	others := float64(max(0, w.Processes-2)) / float64(max(1, w.Processes-1)) // what need not wait for the last rank
	most := math.Min(seconds(w.WaitingNS), seconds(w.WorkNS)*others)
	whole := seconds(w.WaitingNS) + seconds(w.WorkNS)
	persistence := clamp(w.Persistence)
	expected := math.Min(most, persistence*saved(gain.median)*whole)
	r := Recommendation{Function: s.Function, Place: s.Place, SavedSeconds: ordered(persistence*saved(gain.least)*whole, expected, most),
		Assumptions: []string{
			fmt.Sprintf("the gain is that of the published applications, %.2f to %.2f times, as far as ranks come late in a steady pattern", gain.least, gain.most),
			"an operation saves no more than it waits, and no more than it works",
			"waiting is scaled from the operations sampled to all",
		}}
	switch {
	case gain.least < 1 && persistence < 0.8:
		r.Confidence, r.Reason = Low, "one published case became slower, and the pattern is not steady"
	case persistence < 0.5:
		r.Confidence, r.Reason = Low, "the ranks that come late change"
	case w.Coverage < 0.01 || w.Operations < 10:
		r.Confidence, r.Reason = Low, "few operations were sampled"
	default:
		r.Confidence, r.Reason = Medium, "the ranks that come late are steady; how much the algorithm uses that is known from other programs only"
	}
	return r
}

// waitingNote says what to do about waiting that no technique removes.
func waitingNote(in *Input, s *Site) string {
	waiting := seconds(s.Waiting.WaitingNS)
	if waiting < MinSeconds || waiting < MinShare*seconds(in.MPINS) {
		return ""
	}
	return fmt.Sprintf("%s at %s: %s of waiting for late ranks; no algorithm removes it, only balanced work does", s.Function, s.Place, secondsText(waiting))
}

// clamp is v between 0 and 1; 0 if it is no number.
func clamp(v float64) float64 {
	if !(v > 0) {
		return 0
	}
	return math.Min(1, v)
}
