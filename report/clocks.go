package report

import (
	"fmt"
	"strings"

	"github.com/mpitrace/mpitrace/arrival"
)

// Clock is ranks of one node that share a clock, and how it was compared with
// the clocks of other nodes.
type Clock struct {
	Node       string  `json:"node"`
	Ranks      int     `json:"ranks"`
	Status     string  `json:"status"`    // reference, aligned, alone or contradictory
	Component  int     `json:"component"` // clocks with the same can be compared
	Via        int     `json:"via"`       // clock that it was compared with: index into clocks, -1 for none
	OffsetNS   float64 `json:"offset_ns"` // clock of via less this one
	DriftPPM   float64 `json:"drift_ppm"` // how fast that grows
	BoundNS    uint64  `json:"bound_ns"`  // against the reference
	ErrorNS    uint64  `json:"error_ns"`  // between two ranks of this clock
	Compared   int     `json:"compared"`  // operations used
	Cuts       int     `json:"cuts"`      // times that the clock was set or jumped
	Violations uint64  `json:"violations"`
	TicksPerNS float64 `json:"ticks_per_ns"`
}

func clocksOf(clocks []arrival.Clock) []Clock {
	out := []Clock{}
	for _, c := range clocks {
		out = append(out, Clock{c.Node, c.Ranks, string(c.Status), c.Component, c.Via, number(c.OffsetNS), number(c.DriftPPM), boundNS(c.BoundNS),
			boundNS(c.ErrorNS), c.Compared, c.Cuts, c.Violations, number(c.TicksPerNS)})
	}
	return out
}

// clockBound is how far two arrivals of the job may be off against each other
// at most.
func (r *Report) clockBound() uint64 {
	first, second := uint64(0), uint64(0)
	for i := range r.Clocks {
		c := &r.Clocks[i]
		b := c.BoundNS + c.ErrorNS
		if b > first {
			first, second = b, first
			continue
		}
		second = max(second, b)
	}
	return first + second
}

// clockLines says how the clocks of the ranks compare, in sentences.
func (r *Report) clockLines() []string {
	by := map[string][]*Clock{}
	for i := range r.Clocks {
		c := &r.Clocks[i]
		by[c.Status] = append(by[c.Status], c)
	}
	var out []string
	switch aligned := by[string(arrival.StatusAligned)]; {
	case len(r.Clocks) == 1:
		out = append(out, fmt.Sprintf("one clock for all ranks, arrivals are exact to %s", duration(r.clockBound())))
	case len(aligned) > 0:
		out = append(out, fmt.Sprintf("%d clocks aligned by common operations; %s; arrivals at different nodes are exact to %s",
			len(aligned)+len(by[string(arrival.StatusReference)]), extremes(aligned), duration(r.clockBound())))
	}
	for _, status := range []arrival.Status{arrival.StatusAlone, arrival.StatusContradictory} {
		if list := by[string(status)]; len(list) > 0 {
			out = append(out, clockTrouble(status, list))
		}
	}
	return out
}

// extremes is the offset and drift of the clocks that are farthest off.
func extremes(clocks []*Clock) string {
	offset, drift := clocks[0], clocks[0]
	for _, c := range clocks {
		if abs(c.OffsetNS) > abs(offset.OffsetNS) {
			offset = c
		}
		if abs(c.DriftPPM) > abs(drift.DriftPPM) {
			drift = c
		}
	}
	text := fmt.Sprintf("most offset %s%s (%s)", sign(offset.OffsetNS), duration(wholeNS(abs(offset.OffsetNS))), offset.Node)
	if abs(drift.DriftPPM) < 0.005 {
		return text + ", no drift"
	}
	return text + fmt.Sprintf(", most drift %+.2f ppm (%s)", drift.DriftPPM, drift.Node)
}

func abs(v float64) float64 { return max(v, -v) }

func sign(v float64) string {
	if v < 0 {
		return "-"
	}
	return "+"
}

// clockTrouble names clocks that cannot be compared.
func clockTrouble(status arrival.Status, clocks []*Clock) string {
	const shown = 4
	var names []string
	for _, c := range clocks[:min(shown, len(clocks))] {
		names = append(names, fmt.Sprintf("%s (%s)", c.Node, plural(c.Ranks, "rank")))
	}
	if rest := len(clocks) - shown; rest > 0 {
		names = append(names, fmt.Sprintf("%d more", rest))
	}
	why := "alone: no common operation that needs all ranks was sampled, so arrivals there compare only with each other"
	if status == arrival.StatusContradictory {
		why = "contradictory: no line fits, the clock was set or jumps; arrivals there compare only with each other"
	}
	return strings.Join(names, ", ") + " " + why
}
