package arrival

import (
	"math"

	"github.com/mpitrace/mpitrace/internal/stats"
	"github.com/mpitrace/mpitrace/segment"
)

// Limits of plausible clocks.
const (
	rateErrorHeader = 5e-4 // of a rate calibrated in 0.2 ms, or of a clock that NTP steers
	rateErrorWrong  = 1e-2 // a pair that differs so much from the header is impossible
	spanUsefulNS    = 1e6  // pairs closer together say nothing of the rate
	deviationNS     = 2e7  // a rank so far from its node's fit has a clock of its own
	readingNS       = 20   // between the readings of the two clocks of a pair: all pairs of a moment may share it, so that no residual shows it
)

// pair is a moment of two clocks.
type pair struct{ ticks, ns float64 }

// clockPairs is what a header says of the clock of a process.
type clockPairs struct {
	node, boot string
	source     uint32
	rate       float64 // ticks per ns, 0 if unusable
	resolution float64 // ticks
	originT    uint64  // first pair
	originN    uint64
	spanT      uint64 // last pair after the first, 0 without one
	spanN      uint64
	rejected   int
}

// pairsOf takes the two pairs of a header that can be true.
func pairsOf(h *segment.RawHeader) clockPairs {
	c := clockPairs{
		node: h.NodeName(), boot: segment.Text(h.BootID[:]), source: h.ClockSource, rate: h.TicksPerNS,
		resolution: float64(min(h.ClockResolutionTicks, 1<<40)), originT: h.FirstTicks, originN: h.FirstMonotonicNS,
	}
	if !(c.rate >= 1e-4 && c.rate <= 1e4) {
		c.rate = 0
	}
	if c.originT == 0 || c.originT > spanMax || c.originN > spanMax {
		c.originT, c.originN = 0, 0
		c.rejected++
		return c
	}
	if h.LastTicks == h.FirstTicks && h.LastMonotonicNS == h.FirstMonotonicNS || h.LastTicks == 0 {
		return c
	}
	if !c.believes(h.LastTicks, h.LastMonotonicNS) {
		c.rejected++
		return c
	}
	c.spanT, c.spanN = h.LastTicks-c.originT, h.LastMonotonicNS-c.originN
	return c
}

// believes tells whether a later pair fits the first one and the rate.
func (c *clockPairs) believes(ticks, ns uint64) bool {
	if ticks <= c.originT || ns <= c.originN || ticks > spanMax || ns > spanMax {
		return false
	}
	span := float64(ns - c.originN)
	if c.rate == 0 || span < spanUsefulNS {
		return true
	}
	return math.Abs(float64(ticks-c.originT)/span/c.rate-1) <= rateErrorWrong
}

// domain is the ranks that share one clock.
type domain struct {
	clockPairs // of the first process
	processes  []uint32
	rejected   int     // pairs that cannot be true
	originT    int64   // tick that is nanosecond originN
	originN    int64   //
	nsPerTick  float64 //
	rateError  float64 // relative
	residual   float64 // ns, largest distance of a used pair from the fit
	errorNS    float64 // of comparing two ranks of it
	violations uint64

	component int32 // domains that can be compared have the same
	parent    int32 // in the tree of alignments, -1 at its root
	link      *envelope
	inverse   bool // link tells this clock less the parent's
	status    Status
}

// ns is a moment of the clock in nanoseconds of the domain.
func (d *domain) ns(ticks int64) int64 {
	ns := float64(ticks-d.originT) * d.nsPerTick
	if math.Abs(ns) > spanMax/2 {
		ns = math.Copysign(spanMax/2, ns)
	}
	return d.originN + int64(math.Round(ns))
}

type domainKey struct {
	node, boot string
	source     uint32
}

// makeDomains groups processes by clock and fits each clock once. A process
// whose pairs are far from the fit gets a domain of its own.
func (a *Analysis) makeDomains() {
	known := map[domainKey]int{}
	for i := range a.processes {
		c := &a.processes[i].clock
		key := domainKey{c.node, c.boot, c.source}
		d, ok := known[key]
		if !ok {
			d = len(a.domains)
			known[key] = d
			a.domains = append(a.domains, domain{clockPairs: *c})
		}
		a.domains[d].processes = append(a.domains[d].processes, uint32(i))
	}
	for i := range len(a.domains) {
		for _, strange := range a.fit(&a.domains[i]) {
			own := domain{clockPairs: a.processes[strange].clock, processes: []uint32{strange}}
			a.fit(&own)
			a.domains = append(a.domains, own)
		}
	}
	for i := range a.domains {
		for _, p := range a.domains[i].processes {
			a.processes[p].domain = int32(i)
		}
	}
}

// fit finds rate and origin of a domain from all its pairs, and returns the
// processes that do not belong to it.
func (a *Analysis) fit(d *domain) (strange []uint32) {
	d.rejected = 0
	var rates []float64
	var clocks []*clockPairs
	for _, p := range d.processes {
		c := &a.processes[p].clock
		d.rejected += c.rejected
		d.errorNS = max(d.errorNS, c.resolution)
		if c.rate > 0 {
			rates = append(rates, c.rate)
		}
		if c.originT > 0 {
			clocks = append(clocks, c)
		}
	}
	d.nsPerTick, d.rateError = 1, 1
	if len(rates) > 0 {
		d.nsPerTick, d.rateError = 1/stats.Median(rates), rateErrorHeader
	}
	if len(clocks) > 0 {
		d.originT, d.originN = int64(clocks[0].originT), int64(clocks[0].originN)
		d.line(clocks)
	}
	d.errorNS *= d.nsPerTick
	if len(d.processes) == 1 {
		return nil
	}
	return a.expel(d)
}

// line refines rate and origin by the pairs: median slope of the long ones,
// then least squares over the pairs close to it.
func (d *domain) line(clocks []*clockPairs) {
	longest := uint64(0)
	for _, c := range clocks {
		longest = max(longest, c.spanN)
	}
	var slopes []float64
	var points []pair
	for _, c := range clocks {
		t, n := float64(int64(c.originT)-d.originT), float64(int64(c.originN)-d.originN)
		points = append(points, pair{t, n})
		if c.spanT > 0 {
			points = append(points, pair{t + float64(c.spanT), n + float64(c.spanN)})
		}
		if c.spanT > 0 && c.spanN >= longest/2 {
			slopes = append(slopes, float64(c.spanN)/float64(c.spanT))
		}
	}
	slope := d.nsPerTick
	if len(slopes) > 0 && float64(longest) >= spanUsefulNS {
		slope = stats.Median(slopes)
	}
	d.settle(slope, points)
}

// settle takes the fitted line if it is better than the rate of the headers.
func (d *domain) settle(slope float64, points []pair) {
	inliers := near(points, slope)
	fitted, _ := leastSquares(inliers)
	span := spread(inliers) * slope
	residual := worst(inliers, fitted)
	if e := 2 * (residual + readingNS) / span; span >= spanUsefulNS && e < d.rateError && math.Abs(fitted/slope-1) < rateErrorWrong {
		d.nsPerTick, d.rateError = fitted, max(e, 1e-12)
	}
	offset := middle(inliers, d.nsPerTick)
	d.originN += int64(math.Round(offset))
	d.residual = worst(inliers, d.nsPerTick)
}

// expel removes processes whose pairs are all far from the fit.
func (a *Analysis) expel(d *domain) (strange []uint32) {
	var stay []uint32
	for _, p := range d.processes {
		c := &a.processes[p].clock
		far := func(ticks, ns uint64) bool {
			off := math.Abs(float64(d.ns(int64(ticks)) - int64(ns)))
			return off > deviationNS+float64(c.spanN)*d.rateError
		}
		if c.originT > 0 && far(c.originT, c.originN) && far(c.originT+c.spanT, c.originN+c.spanN) {
			strange = append(strange, p)
			continue
		}
		stay = append(stay, p)
	}
	if len(stay) == 0 {
		return nil
	}
	d.processes = stay
	return strange
}

// near is the points not far from the line of this slope, by the median of
// the distances (Rousseeuw, Croux 1993: 1.4826 medians are a standard
// deviation), but always those within a microsecond.
func near(points []pair, slope float64) []pair {
	rest := make([]float64, len(points))
	for i, p := range points {
		rest[i] = p.ns - slope*p.ticks
	}
	centre := stats.Median(rest)
	for i := range rest {
		rest[i] = math.Abs(rest[i] - centre)
	}
	limit := max(1000, 4*1.4826*stats.Median(rest))
	var out []pair
	for i, p := range points {
		if rest[i] <= limit {
			out = append(out, p)
		}
	}
	return out
}

func leastSquares(points []pair) (slope, offset float64) {
	var t, n float64
	for _, p := range points {
		t += p.ticks / float64(len(points))
		n += p.ns / float64(len(points))
	}
	var tt, tn float64
	for _, p := range points {
		tt += (p.ticks - t) * (p.ticks - t)
		tn += (p.ticks - t) * (p.ns - n)
	}
	if tt == 0 {
		return 0, 0
	}
	return tn / tt, n - tn/tt*t
}

// spread is the ticks between the first and the last point.
func spread(points []pair) float64 {
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, p := range points {
		lo, hi = min(lo, p.ticks), max(hi, p.ticks)
	}
	return max(hi-lo, 0)
}

// middle is the median distance of points from a line through the origin.
func middle(points []pair, slope float64) float64 {
	if len(points) == 0 {
		return 0
	}
	rest := make([]float64, len(points))
	for i, p := range points {
		rest[i] = p.ns - slope*p.ticks
	}
	return stats.Median(rest)
}

// worst is the largest distance of points from the best line of this slope.
func worst(points []pair, slope float64) float64 {
	centre, most := middle(points, slope), 0.0
	for _, p := range points {
		most = max(most, math.Abs(p.ns-slope*p.ticks-centre))
	}
	return most
}
