package report

import (
	"math"

	"github.com/mpitrace/mpitrace/arrival"
	"github.com/mpitrace/mpitrace/segment"
)

// exactTotals is what the call sites tell of a group of arrivals: calls and
// time of all places that its ranks called from.
type exactTotals struct {
	calls, ns uint64
	known     bool // every place is in the table of call sites
	alone     bool // no place has part in another group
}

// settleArrivals makes the sums of each place, which are extrapolated from
// samples, agree with its calls and time, which are counted: they never exceed
// them, and where all calls of a function are operations of one communicator,
// they are them (ratio estimation, Cochran 1977, 6.2).
func (b *builder) settleArrivals(classes []*arrival.Class) {
	groups := b.report.arrivalGroups()
	shared := map[*Site]int{}
	for _, g := range groups {
		for site := range g.places() {
			shared[site]++
		}
	}
	for _, g := range groups {
		exact := exactTotals{known: true, alone: true}
		for site := range g.places() {
			exact.calls += site.Calls
			exact.ns += site.TimeNS
			exact.known = exact.known && site.Calls > 0
			exact.alone = exact.alone && shared[site] == 1
		}
		if exact.known {
			g.settle(exact, exact.alone && len(g) == 1 && b.inOneClass(g[0].call, classes))
		}
	}
}

// inOneClass tells that all calls of a function are operations of one
// communicator whose ranks were all seen.
func (b *builder) inOneClass(call segment.Call, classes []*arrival.Class) bool {
	var calls, operations uint64
	for _, id := range []uint32{uint32(call), uint32(call + segment.CallLarge)} {
		if f := b.functions[id]; f != nil {
			calls += f.Calls
		}
	}
	found := 0
	for _, c := range classes {
		if c.Call == call {
			found++
			operations = c.Instances * uint64(c.Size)
		}
	}
	return found == 1 && calls == operations
}

// places is the call sites of all ranks in the group.
func (g arrivalGroup) places() map[*Site]bool {
	out := map[*Site]bool{}
	for _, a := range g {
		out[a.Site] = true
		for _, site := range a.others {
			out[site] = true
		}
	}
	return out
}

// settle scales the group; equal: to what is exact, else at most down to it.
// The time of operations that do not block is not in their calls.
func (g arrivalGroup) settle(exact exactTotals, equal bool) {
	var calls, ns float64
	for _, a := range g {
		calls += float64(a.Operations) * float64(a.RanksSeen)
		ns += float64(a.Blocked.NS)
	}
	scale := func(exact uint64, estimate float64) float64 {
		if estimate <= 0 || !equal && estimate <= float64(exact) {
			return 1
		}
		return float64(exact) / estimate
	}
	operations, time := scale(exact.calls, calls), 1.0
	if g[0].call.Class() == "coll" {
		time = scale(exact.ns, ns)
	}
	for _, a := range g {
		if g[0].call.Class() == "coll" && len(g.places()) == 1 {
			a.spentNS = exact.ns
		}
		a.Operations = max(uint64(a.Sampled), uint64(math.Round(float64(a.Operations)*operations)))
		a.scale(time)
	}
}

// scale multiplies all extrapolated times.
func (a *Arrival) scale(by float64) {
	if by == 1 {
		return
	}
	times := []*uint64{&a.UndecidedNS}
	for _, e := range []*Estimate{&a.Blocked, &a.Waiting, &a.Beyond, &a.Unclaimed} {
		times = append(times, &e.NS)
		if e.ErrorNS > 0 {
			e.ErrorNS = int64(wholeNS(float64(e.ErrorNS) * by))
		}
	}
	for i := range a.Ranks {
		r := &a.Ranks[i]
		times = append(times, &r.CausedNS, &r.WaitingNS, &r.BlockedNS)
	}
	for _, ns := range times {
		*ns = wholeNS(math.Floor(float64(*ns) * by)) // rounded down, so that sums stay below what is exact
	}
}
