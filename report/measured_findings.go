package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/mpitrace/mpitrace/segment"
)

// What a finding must matter to be told: of the MPI time, and of the time of
// all ranks.
const (
	materialOfMPI = 0.02
	materialOfRun = 0.005
	often         = 0.5 // share of accesses to buffers used before, or of time overlapped
	hardly        = 0.1 // share of time overlapped that is as good as none
)

// finding is a sentence and the time that it is about, in ns over all ranks.
type finding struct {
	ns   uint64
	text string
}

// material tells whether a time is worth a word.
func (r *Report) material(ns uint64) bool {
	return ns > 0 && float64(ns) >= materialOfMPI*float64(r.Job.MPINS) && float64(ns) >= materialOfRun*float64(r.wallNS())
}

// measuredFindings is what arrivals, requests and buffers tell: first the time
// that is lost, most of it first, then what could be made use of.
func (b *builder) measuredFindings() []string {
	r := b.report
	lost := slices.Concat(r.arrivalFindings(), r.overlapFindings(), r.messageFindings(), r.pollingFindings())
	slices.SortStableFunc(lost, func(x, y finding) int { return -cmp.Compare(x.ns, y.ns) })
	var out []string
	for _, f := range lost {
		out = append(out, f.text)
	}
	out = append(out, r.reuseFindings()...)
	return append(out, b.arrivalNotes()...)
}

// spot is where a call site is: its line, else module, offset and function.
func (r *Report) spot(s *Site) string {
	if r.resolve(s); s.Line > 0 {
		return r.location(s)
	}
	return r.place(s)
}

// spots lists call sites, the rest counted.
func (r *Report) spots(sites []*Site, shown int) string {
	var names []string
	for _, s := range sites {
		if name := r.spot(s); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return someOf(names, shown)
}

// overlapFindings says what the program blocks for requests of which nothing,
// or less than half, was overlapped.
func (r *Report) overlapFindings() []finding {
	var none, some []*Overlap
	for _, o := range r.Overlap {
		switch {
		case o.BlockedNS == 0 || o.Overlapped >= often:
		case o.Overlapped < hardly:
			none = append(none, o)
		default:
			some = append(some, o)
		}
	}
	return slices.Concat(r.overlapFinding(none), r.overlapFinding(some))
}

// overlapFinding sums places up; of those that move data the first blocks most,
// and those that only have MPI_PROC_NULL as partner are not named. It is empty
// if that does not matter.
func (r *Report) overlapFinding(group []*Overlap) []finding {
	var all Overlap
	var names []string
	slices.SortStableFunc(group, func(x, y *Overlap) int { return -cmp.Compare(one(x.Function.Bytes > 0), one(y.Function.Bytes > 0)) })
	for _, o := range group {
		all.BlockedNS += o.BlockedNS
		all.RequestNS += o.RequestNS
		all.BeforeNS += o.BeforeNS
		if o.Function.Bytes > 0 || len(names) == 0 {
			names = append(names, o.Function.Name+" at "+r.spot(o.Site))
		}
	}
	if !r.material(all.BlockedNS) {
		return nil
	}
	overlapped := ratio(all.BeforeNS, all.RequestNS)
	how := percent(overlapped) + " of the requests' time overlapped"
	if overlapped < 0.01 {
		how = "nothing overlapped"
	}
	return []finding{{all.BlockedNS, fmt.Sprintf("%s: %s blocked in %s, %s", someOf(names, 1), duration(all.BlockedNS), r.completingText(), how)}}
}

// completingText names the place of the calls that complete requests, if
// hardly any other takes time.
func (r *Report) completingText() string {
	var most *Site
	sum := uint64(0)
	for _, s := range r.Sites {
		if class := segment.Call(s.key.call).Class(); strings.HasPrefix(class, "wait") || strings.HasPrefix(class, "test") {
			sum += s.TimeNS
			if most == nil || s.TimeNS > most.TimeNS {
				most = s
			}
		}
	}
	if most == nil || ratio(most.TimeNS, sum) < 0.95 {
		return "completing calls"
	}
	return most.Function.Name + " at " + r.spot(most)
}

// messageFindings is the waiting for late senders and for late receivers, and
// the place where it is most.
func (r *Report) messageFindings() []finding {
	var sender, receiver *Overlap
	var senders, receivers uint64
	for _, o := range r.Overlap {
		if o.Messages == nil {
			continue
		}
		senders += o.Messages.LateSenderNS
		receivers += o.Messages.LateReceiverNS
		if sender == nil || o.Messages.LateSenderNS > sender.Messages.LateSenderNS {
			sender = o
		}
		if receiver == nil || o.Messages.LateReceiverNS > receiver.Messages.LateReceiverNS {
			receiver = o
		}
	}
	var out []finding
	if r.material(senders) {
		m := sender.Messages
		out = append(out, finding{senders, fmt.Sprintf("receives wait %s for late senders%s, in %s", duration(senders),
			r.mostAt(sender, m.LateSenderNS, senders), someOfIts(m.LateSenders, m.Receives, "receive"))})
	}
	if r.material(receivers) {
		m := receiver.Messages
		out = append(out, finding{receivers, fmt.Sprintf("sends wait %s for late receivers%s, in %s", duration(receivers),
			r.mostAt(receiver, m.LateReceiverNS, receivers), someOfIts(m.LateReceivers, m.Sends, "send"))})
	}
	return out
}

// mostAt names the place of a part of a sum.
func (r *Report) mostAt(o *Overlap, part, sum uint64) string {
	where := o.Function.Name + " at " + r.spot(o.Site)
	if duration(part) == duration(sum) {
		return " at the " + where
	}
	return ": " + duration(part) + " of it at the " + where
}

// someOfIts counts the messages of a place that had to wait.
func someOfIts(n, of uint64, what string) string {
	switch {
	case of == 1:
		return "its only " + what
	case n == of:
		return fmt.Sprintf("all its %s %ss", countText(of), what)
	}
	return fmt.Sprintf("%s of its %s %ss", countText(n), countText(of), what)
}

// polled is calls that ask whether something has happened.
type polled struct {
	what    string // that may have happened
	happens uint64
	sites   []*Site
	calls   uint64
	ns      uint64
}

// pollsPerEvent is how many calls for each event are polling.
const pollsPerEvent = 10

// pollingFindings names the places that ask again and again.
func (r *Report) pollingFindings() []finding {
	tests := polled{what: "request that was completed"}
	for _, f := range r.Functions {
		tests.happens += f.Completed
	}
	probes := polled{what: "message that was received", happens: r.Job.Messages.ReceivedMessages}
	for _, s := range r.Sites { // most time first
		p := &tests
		switch class := segment.Call(s.key.call).Class(); {
		case class == "improbe" || s.Function.Name == "MPI_Iprobe":
			p = &probes
		case !strings.HasPrefix(class, "test"):
			continue
		}
		p.sites = append(p.sites, s)
		p.calls += s.Calls
		p.ns += s.TimeNS
	}
	var out []finding
	for _, p := range []polled{tests, probes} {
		if p.calls >= pollsPerEvent*max(1, p.happens) && r.material(p.ns) {
			out = append(out, finding{p.ns, fmt.Sprintf("the program polls: %s in %s calls of %s at %s, %s for each %s",
				duration(p.ns), countText(p.calls), p.sites[0].Function.Name, r.spots(p.sites, 2), digits(float64(p.calls)/float64(max(1, p.happens))), p.what)})
		}
	}
	return out
}

// reuseFindings says of the sends that take time whether they come from the
// same buffers again and again. Buffers are not counted by place: the places
// named are those that send such sizes.
func (r *Report) reuseFindings() []string {
	var out []string
	for _, p := range r.reuseParts() {
		if p.reuse.Path.Path != "send" || p.Accesses == 0 {
			continue
		}
		places, ns := r.senders(func(bytes uint64) bool { return (bytes <= p.reuse.EagerLimit) == (p.name == "send eager") })
		share := ratio(p.Reused, p.Accesses)
		if !r.material(ns) || share < often || len(places) == 0 {
			continue
		}
		each := (p.Buffers + p.reuse.Ranks - 1) / max(1, p.reuse.Ranks)
		of := "of the "
		if p.Estimated {
			of = "of about "
		}
		out = append(out, fmt.Sprintf("%s %s%s sends %s use a buffer again: about %s a rank, at %s",
			p.shareText(), of, countText(p.Accesses), sizeWords(&p), plural(int(each), "buffer"), r.spots(places, 2)))
	}
	if n := len(out); n > 0 {
		out[n-1] += " (mpitrace advise: what sending straight from them would save)"
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
func (r *Report) senders(wanted func(bytes uint64) bool) (places []*Site, ns uint64) {
	list := slices.Clone(r.Sites)
	slices.SortStableFunc(list, func(x, y *Site) int { return int(one(y.Calls > x.Calls)) - int(one(y.Calls < x.Calls)) })
	for _, s := range list {
		if !strings.Contains(segment.Call(s.key.call).Class(), "send") || s.Bytes == 0 || !wanted(mean(s.Bytes, s.Calls-s.Peerless)) {
			continue
		}
		ns += s.TimeNS + s.BlockedNS
		places = append(places, s)
	}
	return places, ns
}

// someOf lists the first of some names.
func someOf(names []string, shown int) string {
	switch n := len(names); {
	case n > shown+1:
		return fmt.Sprintf("%s and %d more places", strings.Join(names[:shown], ", "), n-shown)
	case n > 1:
		return strings.Join(names[:n-1], ", ") + " and " + names[n-1]
	}
	return strings.Join(names, "")
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
