package reusetrack

import (
	"math"
	"math/bits"

	"github.com/mpitrace/mpitrace/segment"
)

// Options of NewSummary.
type Options struct {
	EagerLimit    uint64 // largest payload of eager size; 0: DefaultEagerLimit
	OneSidedLimit uint64 // the same for one-sided operations; 0: DefaultOneSidedLimit
	// Costs of the machine; nil: no predictions and no Table2.
	Costs *Costs
	// Speculation of the predictions and of Table2; 0: Quarter.
	Speculation Speculation
}

// Summary adds ranks up. It keeps no rows: a job of any size takes the same
// memory. It is not safe for concurrent use.
type Summary struct {
	options Options
	paths   [segment.PathPaths]pathSums
}

// pathSums is one path over the ranks.
type pathSums struct {
	totals
	rows    [segment.SizeBins]rowSums
	uses    [33]uint64 // buffers by bit length of their uses
	sizes   sizes
	ranks   uint64
	table1  table1
	table2  table2
	savings [segment.SizeBins]savings
	eager   Part // sum over ranks, each split by its own rows
	rest    Part
}

// NewSummary is an empty summary. Costs that were not validated may give
// numbers without meaning, never a failure.
func NewSummary(options Options) *Summary {
	if options.EagerLimit == 0 {
		options.EagerLimit = DefaultEagerLimit
	}
	if options.OneSidedLimit == 0 {
		options.OneSidedLimit = DefaultOneSidedLimit
	}
	if options.Speculation == 0 {
		options.Speculation = Quarter
	}
	s := &Summary{options: options}
	for path := range s.paths {
		s.paths[path].sizes = sizes{}
	}
	return s
}

// Add adds one rank.
func (s *Summary) Add(r *Rank) {
	for path := range s.paths {
		p := &s.paths[path]
		t := &r.paths[path]
		used := false
		for _, n := range t.accesses {
			used = used || n > 0
		}
		rows := r.pathRows(path)
		if !used && len(rows) == 0 {
			continue
		}
		p.addRank(t, rows, s.limit(path))
		if s.options.Costs != nil && path != segment.PathReceive {
			s.predict(path, t, rows)
		}
	}
}

// limit is the largest payload of eager size of a path.
func (s *Summary) limit(path int) uint64 {
	if path == segment.PathOrigin {
		return s.options.OneSidedLimit
	}
	return s.options.EagerLimit
}

func (p *pathSums) addRank(t *totals, rows []segment.RawBuffer, limit uint64) {
	p.ranks++
	p.totals.add(t)
	var own [segment.SizeBins]rowSums
	for i := range rows {
		own[sizeBin(rows[i].Bytes)].add(&rows[i], limit)
		p.uses[bits.Len32(rows[i].Accesses)]++
		p.sizes.add(&rows[i])
	}
	eager, rest := split(t, &own, limit)
	p.eager.add(eager)
	p.rest.add(rest)
	p.table1.add(rows, limit)
	for bin := range own {
		p.rows[bin].merge(&own[bin])
	}
}

func (s *rowSums) merge(other *rowSums) {
	s.buffers += other.buffers
	s.accesses += other.accesses
	s.resized += other.resized
	s.maxUses = max(s.maxUses, other.maxUses)
	s.bytes += other.bytes
	s.eagerBuffers += other.eagerBuffers
	s.eagerAccesses += other.eagerAccesses
}

// Path is the statistics of one path (segment.Path*) over the ranks.
func (s *Summary) Path(path int) Path {
	p := &s.paths[path]
	out := Path{
		Path: PathName(path), Untracked: p.untracked, Ranks: p.ranks, Stopped: p.stopped,
		LowerBound: p.stopped > 0 && p.untracked > 0,
		Eager:      p.eager, Rendezvous: p.rest,
		Classes: classes(&p.totals, &p.rows), Sizes: p.sizes.top(sizesShown),
		Uses: bins(p.uses[:]), Distances: bins(p.distances[:]),
	}
	for _, c := range out.Classes {
		out.Accesses += c.Accesses
		out.Reused += c.Reused
		out.Buffers += c.Buffers
		out.Resized += c.Resized
	}
	return out
}

// Prediction is what sending straight from reused buffers would do to the
// messages of one path and size class, over all ranks. Times are ns. A buffer
// counts with its latest payload for all its uses.
type Prediction struct {
	Path      string  `json:"path"` // send or origin
	From      uint64  `json:"from"` // payload, the part of the class up to the eager limit
	To        uint64  `json:"to"`   // less than; 0: no limit
	Accesses  uint64  `json:"accesses"`
	Reused    uint64  `json:"reused"`
	Buffers   uint64  `json:"buffers"`
	MeanBytes uint64  `json:"mean_bytes"` // over accesses
	CopyNS    float64 `json:"copy_ns"`    // Cm, Rm, V and Lm at MeanBytes
	RegNS     float64 `json:"register_ns"`
	LookUpNS  float64 `json:"lookup_ns"`
	ExposedNS float64 `json:"exposed_ns"` // 0 if not known

	Hidden  Saving `json:"hidden"`  // if no send waits for the network to have read its buffer (Lm = 0)
	Exposed Saving `json:"exposed"` // if every send does; all zero if Lm is not known
	Best    Saving `json:"best"`    // as Hidden, and the sources are never in the cache

	ExposedKnown bool `json:"exposed_known"`
	LowerBound   bool `json:"lower_bound"` // buffers were turned away: what they would have saved is missing
	Estimated    bool `json:"estimated"`   // accesses and reuse up to the limit are not exact, see Part
}

// Saving is the outcome of one assumption.
type Saving struct {
	MinUses         uint64  `json:"min_uses"`         // n at MeanBytes, 0: no number pays
	Registered      uint64  `json:"registered"`       // buffers that reach their threshold, in all ranks
	RegisteredBytes uint64  `json:"registered_bytes"` // in whole pages of 4 KiB; neighbours may share some
	ZeroCopy        uint64  `json:"zero_copy"`        // uses that are no longer copied
	NetNS           float64 `json:"net_ns"`           // saved, less registrations and all look-ups; negative: lost
}

// savings is the sums behind a Prediction.
type savings struct {
	hidden, exposed, best Saving
}

// predict charges and credits the buffers of one rank.
func (s *Summary) predict(path int, t *totals, rows []segment.RawBuffer) {
	p, c, limit := &s.paths[path], s.options.Costs, s.limit(path)
	cold := c.cold()
	known := [segment.SizeBins]uint64{}
	for i := range rows {
		b := &rows[i]
		known[sizeBin(b.Bytes)] += uint64(b.Accesses)
		if b.Bytes > limit {
			continue
		}
		p.table2.add(b, c, s.options.Speculation)
		sums := &p.savings[sizeBin(b.Bytes)]
		sums.hidden.add(c, b, 0, s.options.Speculation)
		sums.best.add(cold, b, 0, s.options.Speculation)
		if len(c.Exposed) > 0 {
			sums.exposed.add(c, b, c.Exposed.At(b.Bytes), s.options.Speculation)
		}
	}
	s.chargeUnknown(path, t, &known)
}

// chargeUnknown takes the look-ups of untracked accesses off the savings. They
// are not counted by size: where a bin has more accesses than its buffers is
// where they must have been, or where a buffer was before it changed size.
func (s *Summary) chargeUnknown(path int, t *totals, known *[segment.SizeBins]uint64) {
	p, c := &s.paths[path], s.options.Costs
	excess := uint64(0)
	for bin := range known {
		excess += t.accesses[bin] - min(known[bin], t.accesses[bin])
	}
	part := share(t.untracked, excess)
	for bin := range known {
		from, _ := sizeBounds(bin)
		if from < MinBytes || from > s.limit(path) || t.accesses[bin] <= known[bin] {
			continue
		}
		lost := part * float64(t.accesses[bin]-known[bin]) * c.UsageLookUp.At(from)
		sums := &p.savings[bin]
		sums.hidden.NetNS -= lost
		sums.best.NetNS -= lost
		if len(c.Exposed) > 0 {
			sums.exposed.NetNS -= lost
		}
	}
}

// pageBytes is the granularity of registration (thesis 5.5.1).
const pageBytes = 4096

// add credits one buffer: copied until the threshold, registered at it, sent
// in place from it on. Up to there each use pays the usage table.
func (v *Saving) add(c *Costs, b *segment.RawBuffer, exposedNS float64, part Speculation) {
	if b.Bytes < MinBytes {
		return
	}
	uses := uint64(b.Accesses)
	at, ok := c.Threshold(b.Bytes, exposedNS, part)
	if !ok || uses < at {
		v.NetNS -= float64(uses) * c.UsageLookUp.At(b.Bytes)
		return
	}
	direct := uses - at + 1
	v.Registered++
	v.RegisteredBytes += pages(b) * pageBytes
	v.ZeroCopy += direct
	v.NetNS += float64(direct)*c.GainNS(b.Bytes, exposedNS) - c.Register.At(b.Bytes) - float64(at-1)*c.UsageLookUp.At(b.Bytes)
}

// pages is how many pages a buffer touches.
func pages(b *segment.RawBuffer) uint64 {
	return (b.Address%pageBytes+b.Bytes-1)/pageBytes + 1
}

// Predictions is what the cost model says of sends and one-sided operations of
// eager size, one entry per path and size class with accesses; none without
// Costs.
func (s *Summary) Predictions() []Prediction {
	out := []Prediction{}
	if s.options.Costs == nil {
		return out
	}
	for _, path := range []int{segment.PathSend, segment.PathOrigin} {
		for bin := range segment.SizeBins {
			if from, _ := sizeBounds(bin); from > s.limit(path) || s.paths[path].accesses[bin] == 0 {
				continue
			}
			if p := s.prediction(path, bin); p.Accesses > 0 {
				out = append(out, p)
			}
		}
	}
	return out
}

func (s *Summary) prediction(path, bin int) Prediction {
	p, c, limit := &s.paths[path], s.options.Costs, s.limit(path)
	r := &p.rows[bin]
	all := Part{p.accesses[bin], p.reused[bin], r.buffers, false}
	from, to := sizeBounds(bin)
	if to == 0 || to-1 > limit {
		all = straddling(all, r)
		if to = limit + 1; limit == math.MaxUint64 {
			to = 0
		}
	}
	mean := from
	if r.accesses > 0 {
		mean = min(max(from, r.bytes/r.accesses), limit)
	}
	sums := &p.savings[bin]
	out := Prediction{
		Path: PathName(path), From: from, To: to, Accesses: all.Accesses, Reused: all.Reused, Buffers: all.Buffers, MeanBytes: mean,
		CopyNS: c.Copy.At(mean), RegNS: c.Register.At(mean), LookUpNS: c.LookUpNS(mean), ExposedNS: c.Exposed.At(mean),
		Hidden: sums.hidden, Exposed: sums.exposed, Best: sums.best,
		ExposedKnown: len(c.Exposed) > 0, LowerBound: p.stopped > 0 && p.untracked > 0, Estimated: all.Estimated,
	}
	out.Hidden.MinUses, _ = c.MinUses(mean, 0)
	out.Best.MinUses, _ = c.cold().MinUses(mean, 0)
	if out.ExposedKnown {
		out.Exposed.MinUses, _ = c.MinUses(mean, out.ExposedNS)
	}
	return out
}
