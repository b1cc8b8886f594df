package reusetrack

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/mpitrace/mpitrace/segment"
)

// PathName is the name of a path (segment.Path*) in messages and JSON, empty
// for one that does not exist.
func PathName(path int) string {
	switch path {
	case segment.PathSend:
		return "send"
	case segment.PathReceive:
		return "receive"
	case segment.PathOrigin:
		return "origin"
	}
	return ""
}

// Bin of a histogram: Count from From to less than To.
type Bin struct {
	From  uint64 `json:"from"`
	To    uint64 `json:"to"` // 0: no limit
	Count uint64 `json:"count"`
}

// Path is the statistics of one path, of a rank or over ranks. Accesses are
// exact. All that comes from the table of buffers is exact as long as no table
// stopped; else it is a lower bound, because what a buffer that was turned away
// did later is not known.
type Path struct {
	Path     string `json:"path"`     // send, receive, origin
	Accesses uint64 `json:"accesses"` // uses of a buffer, also untracked ones
	Reused   uint64 `json:"reused"`   // of them, of a buffer used before
	// Untracked: to a buffer that was turned away, or without an address
	// (NULL, MPI_BOTTOM).
	Untracked uint64 `json:"untracked"`
	Buffers   uint64 `json:"buffers"` // different ones, each rank's own
	Resized   uint64 `json:"resized"` // uses with another payload than the one before
	Ranks     uint64 `json:"ranks"`   // that used the path
	Stopped   uint64 `json:"stopped"` // ranks whose table takes no more buffers
	// LowerBound: tables stopped and turned buffers away, so reuse, buffers
	// and shares may be higher than given.
	LowerBound bool `json:"lower_bound"`

	Eager      Part      `json:"eager"`      // payload up to the eager limit
	Rendezvous Part      `json:"rendezvous"` // above it
	Classes    []Class   `json:"classes"`    // by payload
	Sizes      []SizeUse `json:"sizes"`      // the most used, at most ten
	Uses       []Bin     `json:"uses"`       // buffers by the number of their uses
	Distances  []Bin     `json:"distances"`  // uses again by the accesses since the one before, on all paths of the shard
}

// Part is a part of the accesses by payload.
type Part struct {
	Accesses uint64 `json:"accesses"`
	Reused   uint64 `json:"reused"`
	Buffers  uint64 `json:"buffers"`
	// Estimated: the limit lies inside a bin whose buffers changed size or are
	// not all known, so that the bin was split in the ratio of those known.
	Estimated bool `json:"estimated"`
}

// Class is the accesses with payloads of one bin. Buffers are in the class of
// their latest payload.
type Class struct {
	From     uint64 `json:"from"`
	To       uint64 `json:"to"` // 0: no limit
	Accesses uint64 `json:"accesses"`
	Reused   uint64 `json:"reused"`
	Buffers  uint64 `json:"buffers"`
	MaxUses  uint64 `json:"max_uses"` // of one buffer
	Resized  uint64 `json:"resized"`
}

// SizeUse is how often buffers of one payload were used.
type SizeUse struct {
	Bytes    uint64 `json:"bytes"`
	Accesses uint64 `json:"accesses"`
	Buffers  uint64 `json:"buffers"`
}

// ReusedShare is the share of accesses to buffers used before, 0 to 1. If
// tables stopped, the share is at least low and, had every untracked access
// been one, at most high; else they are the same.
func (p *Path) ReusedShare() (low, high float64) {
	low = share(p.Reused, p.Accesses)
	if !p.LowerBound {
		return low, low
	}
	return low, share(p.Reused+p.Untracked, p.Accesses)
}

// Note says in a sentence how exact the statistics are; empty if they are.
func (p *Path) Note() string {
	if !p.LowerBound {
		return ""
	}
	return fmt.Sprintf("the tables of %d of %d ranks took no more %s buffers: %d of %d accesses were to buffers not followed, so reuse is a lower bound",
		p.Stopped, p.Ranks, p.Path, p.Untracked, p.Accesses)
}

// share is a/b, at most 1; 0 if b is 0.
func share(a, b uint64) float64 {
	if b == 0 {
		return 0
	}
	return min(1, float64(a)/float64(b))
}

// rowSums adds buffers of one bin up.
type rowSums struct {
	buffers, accesses, resized, maxUses, bytes uint64 // bytes: payload times accesses
	eagerBuffers, eagerAccesses                uint64 // of them, up to the eager limit
}

func (s *rowSums) add(b *segment.RawBuffer, limit uint64) {
	uses := uint64(b.Accesses)
	s.buffers++
	s.accesses += uses
	s.resized += uint64(b.Resized)
	s.maxUses = max(s.maxUses, uses)
	s.bytes += b.Bytes * uses
	if b.Bytes <= limit {
		s.eagerBuffers++
		s.eagerAccesses += uses
	}
}

// classes lists the bins that are not empty.
func classes(t *totals, rows *[segment.SizeBins]rowSums) []Class {
	out := []Class{}
	for bin := range rows {
		r := &rows[bin]
		if t.accesses[bin] == 0 && r.buffers == 0 {
			continue
		}
		c := Class{Accesses: t.accesses[bin], Reused: t.reused[bin], Buffers: r.buffers, MaxUses: r.maxUses, Resized: r.resized}
		c.From, c.To = sizeBounds(bin)
		out = append(out, c)
	}
	return out
}

// split divides the accesses at the eager limit.
func split(t *totals, rows *[segment.SizeBins]rowSums, limit uint64) (eager, rendezvous Part) {
	for bin := range rows {
		r := &rows[bin]
		from, to := sizeBounds(bin)
		all := Part{t.accesses[bin], t.reused[bin], r.buffers, false}
		switch {
		case to != 0 && to-1 <= limit:
			eager.add(all)
		case from > limit:
			rendezvous.add(all)
		default:
			small := straddling(all, r)
			eager.add(small)
			rendezvous.add(Part{all.Accesses - small.Accesses, all.Reused - small.Reused, all.Buffers - small.Buffers, small.Estimated})
		}
	}
	return eager, rendezvous
}

// straddling is the eager part of the bin that holds the limit, from the
// buffers in it: exact if they account for every access.
func straddling(all Part, r *rowSums) Part {
	small := Part{Buffers: r.eagerBuffers, Estimated: all.Accesses > 0 && (r.accesses != all.Accesses || r.resized > 0)}
	if !small.Estimated {
		small.Accesses = min(all.Accesses, r.eagerAccesses)
		small.Reused = min(all.Reused, small.Accesses, r.eagerAccesses-r.eagerBuffers)
		return small
	}
	ratio := share(r.eagerAccesses, r.accesses)
	small.Accesses = min(all.Accesses, uint64(float64(all.Accesses)*ratio))
	small.Reused = min(all.Reused, uint64(float64(all.Reused)*ratio), small.Accesses)
	return small
}

func (p *Part) add(other Part) {
	p.Accesses += other.Accesses
	p.Reused += other.Reused
	p.Buffers += other.Buffers
	p.Estimated = p.Estimated || other.Estimated
}

// Limits of the list of sizes: how many are reported, and how many are kept
// before those used least are forgotten.
const (
	sizesShown = 10
	sizesKept  = 4096
)

// sizes counts buffers by payload.
type sizes map[uint64]SizeUse

func (s sizes) add(b *segment.RawBuffer) {
	u := s[b.Bytes]
	s[b.Bytes] = SizeUse{b.Bytes, u.Accesses + uint64(b.Accesses), u.Buffers + 1}
	if len(s) > 2*sizesKept {
		for _, u := range s.top(len(s))[sizesKept:] {
			delete(s, u.Bytes)
		}
	}
}

// top lists the n most used sizes.
func (s sizes) top(n int) []SizeUse {
	out := make([]SizeUse, 0, len(s))
	for _, u := range s {
		out = append(out, u)
	}
	slices.SortFunc(out, func(a, b SizeUse) int {
		return cmp.Or(-cmp.Compare(a.Accesses, b.Accesses), cmp.Compare(a.Bytes, b.Bytes))
	})
	return out[:min(n, len(out))]
}

// bins lists the bins of counts by bit length that are not empty.
func bins(counts []uint64) []Bin {
	out := []Bin{}
	for i, count := range counts {
		if count == 0 {
			continue
		}
		bin := Bin{Count: count}
		if i > 0 {
			bin.From = 1 << (i - 1)
		}
		if i < len(counts)-1 {
			bin.To = 1 << i
		}
		out = append(out, bin)
	}
	return out
}
