package arrival

import (
	"cmp"
	"math"
	"slices"
	"sort"
)

// The difference of two clocks is a line: offset plus drift times time. Each
// sampled operation that needs all ranks bounds it from both sides; the lines
// between all bounds are a polygon in the plane of offset and drift.
//
// A rate that wanders is allowed for: every bound is relaxed by what the
// wander can do over the span of the fit. Spans longer than windowNS get
// windows of their own, whose drift the whole span has already confined.
// Where no line fits (a clock that was set or jumped), the span is cut.

const windowNS = 100e9

// bracket is what one operation says of the difference of two clocks: below
// upper at one moment, above lower at another, in ns of the second clock after
// the origin.
type bracket struct {
	upperAt, upper float64
	lowerAt, lower float64
}

// dot is one end of a bracket.
type dot struct{ t, v float64 }

// polygon is the feasible lines: for some drifts the highest and the lowest
// offset at the origin. Its corners are among them.
type polygon struct{ drift, high, low []float64 }

// at is the range of the feasible lines at a moment.
func (p *polygon) at(t float64) (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for i, d := range p.drift {
		low, high = min(low, p.low[i]+d*t), max(high, p.high[i]+d*t)
	}
	return low, high
}

// drifts is the range of feasible drifts.
func (p *polygon) drifts() (low, high float64) { return p.drift[0], p.drift[len(p.drift)-1] }

// feasible finds the lines between the brackets, each relaxed by slack, with a
// drift from least to most; false if there are none.
//
// The width in offset is concave and piecewise linear in the drift, with its
// corners at the slopes of the two convex hulls, so it is enough to look there
// and, where the width changes its sign, in between.
func feasible(brackets []bracket, slack, least, most float64) (polygon, bool) {
	upper, lower := make([]dot, len(brackets)), make([]dot, len(brackets))
	for i, b := range brackets {
		upper[i], lower[i] = dot{b.upperAt, b.upper + slack}, dot{b.lowerAt, -(b.lower - slack)}
	}
	upper, lower = hull(upper), hull(lower)
	drifts := []float64{least, most}
	for i := 1; i < len(upper); i++ {
		drifts = append(drifts, slope(upper[i-1], upper[i]))
	}
	for i := 1; i < len(lower); i++ {
		drifts = append(drifts, -slope(lower[i-1], lower[i]))
	}
	slices.Sort(drifts)
	drifts = slices.DeleteFunc(slices.Compact(drifts), func(d float64) bool { return d < least || d > most })
	var p polygon
	before := 0.0
	for i, d := range drifts {
		width := lowest(upper, d) + lowest(lower, -d)
		if i > 0 && (before < 0) != (width < 0) {
			p.add(upper, lower, drifts[i-1]+(d-drifts[i-1])*before/(before-width))
		}
		if width >= 0 {
			p.add(upper, lower, d)
		}
		before = width
	}
	return p, len(p.drift) > 0
}

// add takes the range of offsets at a drift; rounding may have turned it.
func (p *polygon) add(upper, lower []dot, drift float64) {
	high, low := lowest(upper, drift), -lowest(lower, -drift)
	if high < low {
		high, low = (high+low)/2, (high+low)/2
	}
	p.drift, p.high, p.low = append(p.drift, drift), append(p.high, high), append(p.low, low)
}

// lowest is the least offset at the origin of lines of this drift through the
// dots.
func lowest(dots []dot, drift float64) float64 {
	least := math.Inf(1)
	for _, p := range dots {
		least = min(least, p.v-drift*p.t)
	}
	return least
}

func slope(a, b dot) float64 { return (b.v - a.v) / (b.t - a.t) }

// hull is the lower convex hull (Andrew 1979), from left to right.
func hull(dots []dot) []dot {
	slices.SortFunc(dots, func(a, b dot) int { return cmp.Or(cmp.Compare(a.t, b.t), cmp.Compare(a.v, b.v)) })
	var out []dot
	for _, p := range dots {
		if n := len(out); n > 0 && out[n-1].t == p.t {
			continue // the lower one came first
		}
		for len(out) >= 2 && slope(out[len(out)-2], out[len(out)-1]) >= slope(out[len(out)-1], p) {
			out = out[:len(out)-1]
		}
		out = append(out, p)
	}
	return out
}

// stretch is a span of time in which one line fits all brackets.
type stretch struct {
	from, to float64
	whole    polygon
	windows  map[int]polygon // by number of windowNS since from
}

// envelope is the range of the difference between two clocks over a job: the
// time of the first clock minus that of the second.
type envelope struct {
	originT, originV int64 // ns of the second clock, ns of difference
	stretches        []stretch
	brackets         int
	wander           float64
}

// terms is what a fit assumes.
type terms struct{ slack, drift, wander float64 }

// newEnvelope fits brackets, which it sorts; false if too many cuts would be
// needed for the clocks to be believed.
func newEnvelope(brackets []bracket, t terms) (*envelope, bool) {
	slices.SortFunc(brackets, func(a, b bracket) int { return cmp.Compare(a.middle(), b.middle()) })
	e := &envelope{brackets: len(brackets), wander: t.wander}
	for rest := brackets; len(rest) > 0; {
		n, s := longest(rest, t)
		if n == 0 || len(e.stretches) > len(brackets)/10 {
			return e, false
		}
		s.addWindows(rest[:n], t)
		e.stretches = append(e.stretches, s)
		rest = rest[n:]
	}
	return e, len(brackets) > 0
}

func (b *bracket) middle() float64 { return (b.upperAt + b.lowerAt) / 2 }

// longest is the most brackets from the start on that one line fits.
func longest(brackets []bracket, t terms) (int, stretch) {
	fits := func(n int) (polygon, bool) { return t.fit(brackets[:n], -t.drift, t.drift) }
	n := len(brackets)
	p, ok := fits(n)
	if !ok {
		n = sort.Search(n, func(i int) bool { _, ok := fits(i + 1); return !ok })
		if n == 0 {
			return 0, stretch{}
		}
		p, ok = fits(n)
	}
	if !ok {
		return 0, stretch{}
	}
	return n, stretch{from: brackets[0].middle(), to: brackets[n-1].middle(), whole: p}
}

// fit relaxes by the wander over the span of the brackets.
func (t terms) fit(brackets []bracket, least, most float64) (polygon, bool) {
	span := brackets[len(brackets)-1].middle() - brackets[0].middle()
	return feasible(brackets, t.slack+t.wander*span, least, most)
}

// addWindows fits parts of a long stretch, with the drift of the whole.
func (s *stretch) addWindows(brackets []bracket, t terms) {
	if s.to-s.from <= windowNS {
		return
	}
	s.windows = map[int]polygon{}
	least, most := s.whole.drifts()
	for len(brackets) > 0 {
		w, n := s.window(brackets[0].middle()), 1
		for n < len(brackets) && s.window(brackets[n].middle()) == w {
			n++
		}
		part := terms{t.slack + t.wander*windowNS, t.drift, 0}
		if p, ok := part.fit(brackets[:n], least-t.wander, most+t.wander); ok {
			s.windows[w] = p
		}
		brackets = brackets[n:]
	}
}

func (s *stretch) window(t float64) int { return int(math.Floor((t - s.from) / windowNS)) }

// at is the range of the difference at a moment of a stretch.
func (s *stretch) at(t, wander float64) (low, high float64) {
	low, high = s.whole.at(t)
	if p, ok := s.windows[s.window(t)]; ok && t <= s.to {
		l, h := p.at(t)
		if l = max(l, low); l <= min(h, high) {
			low, high = l, min(h, high)
		}
	}
	outside := max(s.from-t, t-s.to, 0) * wander
	return low - outside, high + outside
}

// at is the difference in ns at a moment of the second clock, and how far the
// truth may be from it. Between two stretches either may hold.
func (e *envelope) at(ns int64) (difference int64, bound float64) {
	t := float64(ns - e.originT)
	i := sort.Search(len(e.stretches), func(i int) bool { return e.stretches[i].to >= t })
	i = min(i, len(e.stretches)-1)
	low, high := e.stretches[i].at(t, e.wander)
	if i > 0 && t < e.stretches[i].from {
		l, h := e.stretches[i-1].at(t, e.wander)
		low, high = min(l, low), max(h, high)
	}
	return e.originV + int64(math.Round((low+high)/2)), (high - low) / 2
}

// drift is the drift that leaves the widest room, of the longest stretch.
func (e *envelope) drift() float64 {
	best := &e.stretches[0]
	for i := range e.stretches {
		if s := &e.stretches[i]; s.to-s.from > best.to-best.from {
			best = s
		}
	}
	widest, drift := -1.0, 0.0
	for i, d := range best.whole.drift {
		if w := best.whole.high[i] - best.whole.low[i]; w > widest {
			widest, drift = w, d
		}
	}
	return drift
}

// inverse is at seen from the first clock: ns is a moment of it.
func (e *envelope) inverse(ns int64) (difference int64, bound float64) {
	// Drifts are small, so a few steps settle to the nanosecond.
	difference = e.originV
	for range 4 {
		difference, bound = e.at(ns - difference)
	}
	return -difference, bound
}

// span is the moments of the second clock between which there are samples.
func (e *envelope) span() (from, to int64) {
	return e.originT + int64(e.stretches[0].from), e.originT + int64(e.stretches[len(e.stretches)-1].to)
}
