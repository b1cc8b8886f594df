package advise

import (
	"fmt"
	"math"

	"github.com/mpitrace/mpitrace/internal/figures"
	"github.com/mpitrace/mpitrace/reusetrack"
)

// assumedWaitNS stands for the time until the network has read a small buffer
// where it is not known: a request with less work behind it than this is taken
// for one that waits.
const assumedWaitNS = 5000

// amplyHidden: so many times the wait behind a send on average, and hardly one
// will notice it.
const amplyHidden = 4

// zeroCopyEager is what sending straight from reused buffers would save at the
// places that send small messages.
func zeroCopyEager(in *Input) ([]Recommendation, []string) {
	return fromReuse(in, ZeroCopyEager, "send", func(k kind) bool { return k == send || k == startSend })
}

// zeroCopyOneSided is the same for the origin buffers of puts and gets.
func zeroCopyOneSided(in *Input) ([]Recommendation, []string) {
	return fromReuse(in, ZeroCopyOneSided, "origin", func(k kind) bool { return k == put || k == get })
}

// fromReuse spreads the savings of one path over its call sites: those of a
// size class go to the sites whose mean payload lies in it, by messages.
// Buffers are not counted by call site, so this is the best that can be told.
func fromReuse(in *Input, technique, path string, wanted func(kind) bool) ([]Recommendation, []string) {
	shares := newShares()
	var lost float64
	var losing uint64
	seen := false
	for i := range in.Reuse {
		p := &in.Reuse[i]
		if p.Path != path {
			continue
		}
		seen = true
		if p.Hidden.NetNS <= 0 {
			lost -= p.Hidden.NetNS
			losing += p.Accesses
			continue
		}
		shares.spread(in, p, wanted)
	}
	var notes []string
	if !seen && !in.ReuseKnown && hasSites(in, wanted) {
		notes = append(notes, technique+": the reuse of buffers was not recorded, or the costs of this machine are not known")
	}
	if losing > 0 {
		note := fmt.Sprintf("%s: %s messages are in sizes where copying is cheaper, or their buffers are not used often enough", technique, figures.Count(losing))
		if lost >= 1e9*MinSeconds {
			note += "; following them would cost " + secondsText(lost/1e9)
		}
		notes = append(notes, note)
	}
	if n := shares.waitNote(in, technique); n != "" {
		notes = append(notes, n)
	}
	return shares.recommendations(in), notes
}

// hasSites tells whether there are small messages; calls that send to nobody
// have no bytes.
func hasSites(in *Input, wanted func(kind) bool) bool {
	for i := range in.Sites {
		if wanted(in.Sites[i].kind()) && in.Sites[i].Bytes > 0 && in.Sites[i].Mean() <= in.EagerLimit {
			return true
		}
	}
	return false
}

// shareOf is what one site gets of the savings, in ns.
type shareOf struct {
	site                *Site // nil: no site fits the class
	class               *reusetrack.Prediction
	low, expected, high float64
	buffers, bytes      float64
	hidden              bool // the wait is known, or is assumed, to be hidden
	bound               bool // see Prediction.LowerBound
}

type shares struct {
	list []*shareOf
	at   map[*Site]*shareOf
}

func newShares() *shares { return &shares{at: map[*Site]*shareOf{}} }

// of is the share of a site, made if it is new.
func (s *shares) of(site *Site, p *reusetrack.Prediction) *shareOf {
	if got, ok := s.at[site]; ok {
		return got
	}
	got := &shareOf{site: site, class: p, hidden: true}
	s.at[site] = got
	s.list = append(s.list, got)
	return got
}

func (s *shares) spread(in *Input, p *reusetrack.Prediction, wanted func(kind) bool) {
	var fit []*Site
	total := uint64(0)
	for i := range in.Sites {
		site := &in.Sites[i]
		if mean := site.Mean(); wanted(site.kind()) && mean >= p.From && (mean < p.To || p.To == 0) && site.requests() > 0 {
			fit = append(fit, site)
			total += site.requests()
		}
	}
	if len(fit) == 0 {
		s.of(nil, p).add(p, 1, false)
		return
	}
	for _, site := range fit {
		s.of(site, p).add(p, float64(site.requests())/float64(total), hides(site, p))
	}
}

// hides tells whether a site need not notice the wait for the network to have
// read its buffer: a put or get is completed by a later call, a nonblocking
// send if there is enough time before its Wait.
func hides(site *Site, p *reusetrack.Prediction) bool {
	wait := assumedWaitNS * 1.0
	if p.ExposedKnown {
		wait = p.ExposedNS
	}
	switch site.kind() {
	case put, get:
		return true
	case startSend:
		return site.windowPerRequest() >= wait
	}
	return wait == 0
}

// add credits a part of a class: at worst every send waits, at best none does
// and no source is in the cache. Where the wait is amply hidden, the worst is
// that the wait's share of the time behind sends tells how many gain nothing.
func (s *shareOf) add(p *reusetrack.Prediction, part float64, hidden bool) {
	saving := &p.Exposed
	if hidden {
		saving = &p.Hidden
	}
	low := math.Min(p.Exposed.NetNS, saving.NetNS)
	if s.ample(p) {
		low = math.Max(low, saving.NetNS*(1-p.ExposedNS/s.site.windowPerRequest()))
	}
	s.low += part * low
	s.expected += part * saving.NetNS
	s.high += part * math.Max(p.Best.NetNS, saving.NetNS)
	s.buffers += part * float64(saving.Registered)
	s.bytes += part * float64(saving.RegisteredBytes)
	s.hidden = s.hidden && hidden
	s.bound = s.bound || p.LowerBound
}

// ample tells whether nonblocking sends have much more time behind them than
// the network takes, which must be known.
func (s *shareOf) ample(p *reusetrack.Prediction) bool {
	return s.site != nil && s.site.kind() == startSend && p.ExposedKnown && s.site.windowPerRequest() > 0 &&
		s.site.windowPerRequest() >= amplyHidden*p.ExposedNS
}

// recommendations is the shares that gain.
func (s *shares) recommendations(in *Input) []Recommendation {
	var out []Recommendation
	for _, share := range s.list {
		if share.expected <= 0 {
			continue
		}
		r := Recommendation{Function: "(sends of other sizes)", SavedSeconds: share.seconds(in),
			MinUses: share.minUses(), RegisteredBuffers: uint64(share.buffers + 0.5), RegisteredBytes: uint64(share.bytes + 0.5),
			Assumptions: share.assumptions(in)}
		if share.class.Path == "origin" {
			r.Function = "(one-sided operations of other sizes)"
		}
		if share.site != nil {
			r.Function, r.Place = share.site.Function, share.site.Place
		}
		r.Confidence, r.Reason = share.confidence(in)
		out = append(out, r)
	}
	return out
}

// waitNote says what is lost to sends that may not return before the network
// has read their buffer; empty if it does not matter.
func (s *shares) waitNote(in *Input, technique string) string {
	possible, places := 0.0, uint64(0)
	for _, share := range s.list {
		if share.expected <= 0 && !share.hidden && share.site != nil {
			possible += share.seconds(in).High
			places++
		}
	}
	if possible < MinSeconds || possible < MinShare*seconds(in.MPINS) {
		return ""
	}
	return fmt.Sprintf("%s: at %s each send would wait for the network to have read its buffer, which takes longer than a copy or is not known; nonblocking sends with work before their Wait could save up to %s",
		technique, plural(places, "place"), secondsText(possible))
}

// seconds is the share as a range. A site cannot save more than it took, nor
// can all that are not known by name save more than MPI took.
func (s *shareOf) seconds(in *Input) Range {
	limit := seconds(in.MPINS)
	if s.site != nil {
		limit = seconds(s.site.TimeNS) + seconds(s.site.BlockedNS)
	}
	return ordered(math.Min(s.low/1e9, limit), math.Min(s.expected/1e9, limit), math.Min(s.high/1e9, limit))
}

func (s *shareOf) minUses() uint64 {
	if s.hidden {
		return s.class.Hidden.MinUses
	}
	return s.class.Exposed.MinUses
}

func (s *shareOf) assumptions(in *Input) []string {
	out := []string{"buffers stay where they are, and are used on as they were in this run"}
	if s.hidden {
		out = append(out, "the wait for the network to have read the buffer is hidden behind other work")
	} else {
		out = append(out, fmt.Sprintf("each send waits %.0f ns for the network to have read the buffer", s.class.ExposedNS))
	}
	if in.CostsStandIn {
		out = append(out, "registering costs no more than locking memory")
	}
	return out
}

func (s *shareOf) confidence(in *Input) (degree, reason string) {
	switch {
	case s.site == nil:
		return Low, "no call site has this mean payload"
	case s.bound:
		return Low, "not all buffers were followed"
	case in.CostsStandIn:
		return Low, "registration was priced by locking memory, not on the network"
	case !s.class.ExposedKnown:
		return Medium, "the wait for the network is not known on this machine"
	case s.ample(s.class):
		return High, fmt.Sprintf("after a send the program does other things for %s on average, the network takes %s",
			secondsText(s.site.windowPerRequest()/1e9), secondsText(s.class.ExposedNS/1e9))
	case s.low >= s.expected/2:
		return High, "pays even if every send waits for the network"
	}
	return Medium, "depends on the wait for the network being hidden"
}
