package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mpitrace/mpitrace/segment"
)

// What a finding on arrivals, buffers or requests must matter to be told.
const (
	materialShare = 0.01 // of the MPI time
	arrivalTold   = 3    // findings of a kind
	often         = 0.5  // share of accesses to buffers used before, or of time overlapped
)

// material tells whether a time is worth a word.
func (r *Report) material(ns uint64) bool {
	return ns > 0 && float64(ns) >= materialShare*float64(r.Job.MPINS)
}

// measuredFindings is what arrivals, requests and buffers tell.
func (b *builder) measuredFindings() []string {
	r := b.report
	out := append(r.arrivalFindings(), r.overlapFindings()...)
	out = append(out, r.messageFindings()...)
	out = append(out, r.reuseFindings()...)
	return append(out, b.arrivalNotes()...)
}

// arrivalFindings names those that others wait for in collectives.
func (r *Report) arrivalFindings() []string {
	var out []string
	for _, group := range r.arrivalGroups() {
		a := group[0]
		if sum := group.waiting(); len(out) < arrivalTold && r.material(sum) && a.Worst.Mean > a.BoundNS && !r.restricted {
			out = append(out, r.arrivalFinding(group))
		}
	}
	return out
}

// arrivalGroup is one place on all communicators.
type arrivalGroup []*Arrival

func (g arrivalGroup) waiting() (sum uint64) {
	for _, a := range g {
		sum += a.Waiting.NS
	}
	return sum
}

func (g arrivalGroup) blocked() (sum uint64) {
	for _, a := range g {
		sum += a.Blocked.NS
	}
	return sum
}

// arrivalGroups puts the communicators of each place together, most waiting
// first.
func (r *Report) arrivalGroups() []arrivalGroup {
	var out []arrivalGroup
	index := map[*Site]int{}
	for _, a := range r.Arrivals {
		i, ok := index[a.Site]
		if !ok {
			i = len(out)
			index[a.Site] = i
			out = append(out, nil)
		}
		out[i] = append(out[i], a)
	}
	slices.SortStableFunc(out, func(x, y arrivalGroup) int {
		switch a, b := x.waiting(), y.waiting(); {
		case a > b:
			return -1
		case a < b:
			return 1
		}
		return 0
	})
	return out
}

func (r *Report) arrivalFinding(group arrivalGroup) string {
	a := group[0]
	waiting, spent := duration(group.waiting()), duration(group.blocked())
	cause := a.Ranks[0]
	named := len(group) == 1 && cause.CausedNS*2 > a.Waiting.NS
	place := r.location(a.Site)
	switch {
	case len(group) > 1:
		return fmt.Sprintf("%s of the %s spent in %s at %s, on %d communicators, is waiting for ranks that arrive late", waiting, spent, a.Function.Name, place, len(group))
	case a.rooted && named:
		return fmt.Sprintf("rank %d, the root, arrives late at %s: %s of the %s spent in its %s %s there is waiting for it",
			cause.Rank, place, waiting, spent, countText(a.Operations), calls(a))
	case named:
		return fmt.Sprintf("rank %d arrives last at %s in %s of %s %s; %s of the %s spent there is waiting for rank %d",
			cause.Rank, place, percent(cause.Share), countText(a.Operations), calls(a), duration(cause.CausedNS), spent, cause.Rank)
	}
	last, _ := a.lastRank()
	return fmt.Sprintf("%s of the %s spent in %s at %s is waiting for the last rank, which changes: rank %d most often, in %s of %s calls%s",
		waiting, spent, a.Function.Name, place, last.Rank, percent(last.Share), countText(a.Operations), a.sampledText())
}

// calls names the calls of a place.
func calls(a *Arrival) string {
	return a.Function.Name + " calls" + a.sampledText()
}

// sampledText says how many calls the figures come from, if not from all.
func (a *Arrival) sampledText() string {
	if uint64(a.Sampled) >= a.Operations {
		return ""
	}
	return fmt.Sprintf(" (%s sampled)", countText(uint64(a.Sampled)))
}

// overlapFindings says what the program blocks for requests of which nothing,
// or less than half, was overlapped.
func (r *Report) overlapFindings() []string {
	var nothing, partly []*Overlap
	for _, o := range r.Overlap {
		switch {
		case o.BlockedNS == 0 || o.Overlapped >= often:
		case o.Overlapped < 0.01:
			nothing = append(nothing, o)
		default:
			partly = append(partly, o)
		}
	}
	var out []string
	for _, group := range [][]*Overlap{nothing, partly} {
		if text := r.overlapFinding(group); text != "" {
			out = append(out, text)
		}
	}
	return out
}

// overlapFinding sums places up; the first blocks most. It is empty if that
// does not matter.
func (r *Report) overlapFinding(group []*Overlap) string {
	var all Overlap
	for _, o := range group {
		all.BlockedNS += o.BlockedNS
		all.RequestNS += o.RequestNS
		all.BeforeNS += o.BeforeNS
	}
	if !r.material(all.BlockedNS) {
		return ""
	}
	overlapped := ratio(all.BeforeNS, all.RequestNS)
	how := percent(overlapped) + " of the requests' time overlapped"
	if overlapped < 0.01 {
		how = "nothing overlapped"
	}
	var names []string
	for _, o := range group {
		names = append(names, o.Function.Name+" at "+r.location(o.Site))
	}
	return fmt.Sprintf("%s: %s blocked in completing calls, %s", someOf(names, 1), duration(all.BlockedNS), how)
}

// messageFindings names the place that waits most for the other end.
func (r *Report) messageFindings() []string {
	var most *Overlap
	for _, o := range r.Overlap {
		if most == nil || o.waitingNS() > most.waitingNS() {
			most = o
		}
	}
	if most == nil || !r.material(most.waitingNS()) {
		return nil
	}
	m := most.Messages
	if m.LateSenderNS >= m.LateReceiverNS {
		return []string{fmt.Sprintf("%s at %s waits %s for late senders, in %s of %s receives",
			most.Function.Name, r.location(most.Site), duration(m.LateSenderNS), countText(m.LateSenders), countText(m.Receives))}
	}
	return []string{fmt.Sprintf("%s at %s waits %s for late receivers, in %s of %s sends",
		most.Function.Name, r.location(most.Site), duration(m.LateReceiverNS), countText(m.LateReceivers), countText(m.Sends))}
}

// reuseFindings says of the sends that take time whether they come from the
// same buffers again and again. Buffers are not counted by place: the places
// named are those that send such sizes.
func (r *Report) reuseFindings() []string {
	var out []string
	for _, p := range r.reuseParts() {
		if p.reuse.Path.Path != "send" || p.Accesses == 0 || p.Estimated {
			continue
		}
		places, ns := r.senders(func(bytes uint64) bool { return (bytes <= p.reuse.EagerLimit) == (p.name == "send eager") })
		share := ratio(p.Reused, p.Accesses)
		if !r.material(ns) || share < often || len(places) == 0 {
			continue
		}
		each := (p.Buffers + p.reuse.Ranks - 1) / max(1, p.reuse.Ranks)
		out = append(out, fmt.Sprintf("%s of the %s sends %s use a buffer again: about %s a rank, at %s",
			p.shareText(), countText(p.Accesses), sizeWords(&p), plural(int(each), "buffer"), someOf(places, 2)))
	}
	return out
}

func sizeWords(p *reusePart) string {
	if p.name == "send eager" {
		return "up to " + binaryText(p.reuse.EagerLimit)
	}
	return "above " + binaryText(p.reuse.EagerLimit)
}

// senders is the places whose mean message has a wanted size, those with most
// calls first, and the time spent there.
func (r *Report) senders(wanted func(bytes uint64) bool) (places []string, ns uint64) {
	list := slices.Clone(r.Sites)
	slices.SortStableFunc(list, func(x, y *Site) int { return int(one(y.Calls > x.Calls)) - int(one(y.Calls < x.Calls)) })
	for _, s := range list {
		if !strings.Contains(segment.Call(s.key.call).Class(), "send") || s.Calls == 0 || s.Bytes == 0 || !wanted(s.Bytes/s.Calls) {
			continue
		}
		ns += s.TimeNS + s.BlockedNS
		if place := r.location(s); !slices.Contains(places, place) {
			places = append(places, place)
		}
	}
	return places, ns
}

// someOf lists the first of some names.
func someOf(names []string, shown int) string {
	if len(names) <= shown+1 {
		return strings.Join(names, " and ")
	}
	return fmt.Sprintf("%s and %d more places", strings.Join(names[:shown], ", "), len(names)-shown)
}

// arrivalNotes says which samples could not be used.
func (b *builder) arrivalNotes() []string {
	var out []string
	if n := b.measured.tornRanks; n > 0 {
		out = append(out, fmt.Sprintf("%s died while thinning out samples of arrivals: those are left out", plural(n, "rank")))
	}
	if n := b.report.unaligned; n > 0 {
		out = append(out, fmt.Sprintf("%s sampled collective operations ran on clocks that cannot be compared: nothing is said of their arrivals", countText(uint64(n))))
	}
	return out
}
