package report

import (
	"cmp"
	"math/bits"
	"strings"

	"github.com/mpitrace/mpitrace/segment"
)

// tally collects the time of one rank, spread over several rows and shards,
// before it goes into a Spread.
type tally struct {
	serial int // the segment that ns belongs to
	rank   *Rank
	ns     uint64
}

// add adds time of the current rank; what an earlier rank left behind goes
// into the spread first.
func (t *tally) add(spread *Spread, serial int, rank *Rank, ns uint64) {
	if t.serial != serial {
		t.flush(spread)
		t.serial, t.rank, t.ns = serial, rank, 0
	}
	t.ns += ns
}

func (t *tally) flush(spread *Spread) {
	if t.serial == 0 {
		return
	}
	if spread.Ranks == 0 || t.ns < spread.MinNS {
		spread.MinNS, spread.MinRank = t.ns, t.rank.Rank
	}
	if spread.Ranks == 0 || t.ns > spread.MaxNS {
		spread.MaxNS, spread.MaxRank = t.ns, t.rank.Rank
	}
	spread.Ranks++
	spread.groups[t.rank.group] += t.ns
	t.serial = 0
}

func (t *Totals) add(other Totals) {
	t.Calls += other.Calls
	t.TimeNS += other.TimeNS
	t.Bytes += other.Bytes
	t.MaxNS = max(t.MaxNS, other.MaxNS)
}

// setup tells whether a function begins or ends MPI: its time is no MPI time
// in the sense of this report.
func setup(call uint32) bool { return segment.Call(call).Setup() }

// estimated tells whether the time of a function is known from a part of its
// calls only.
func estimated(call uint32) bool {
	class := segment.Call(call).Class()
	return class == "quick" || class == "convert"
}

// function is the row of a function, made if it is new.
func (b *builder) function(call uint32) *Function {
	f, ok := b.functions[call]
	if !ok {
		f = &Function{Name: segment.Call(call).String(), setup: setup(call), Estimated: estimated(call)}
		b.functions[call] = f
		b.report.Functions = append(b.report.Functions, f)
	}
	return f
}

// addSites takes over the call sites, and from them all totals of calls.
func (b *builder) addSites(l *local) {
	h, rank := &l.s.Header, l.rank
	if b.options.Detail {
		l.ranks = map[uint32]*RankFunction{}
	}
	l.busyNS = map[uint32]uint64{}
	var ownNS float64
	l.s.EachSite(func(shard uint32, raw *segment.RawSite) {
		totals := Totals{raw.Calls, h.NS(raw.Ticks), raw.Bytes, h.NS(raw.MaxTicks)}
		site := b.site(l, raw)
		site.Totals.add(totals)
		site.RequestNS += h.NS(raw.RequestTicks)
		site.BeforeNS += h.NS(raw.BeforeTicks)
		site.BlockedNS += h.NS(raw.BlockedTicks)
		site.Peerless += raw.Peerless
		site.tally.add(&site.Spread, b.serial, rank, totals.TimeNS)
		call := uint32(raw.Call)
		f := b.function(call)
		f.Totals.add(totals)
		f.tally.add(&f.Spread, b.serial, rank, totals.TimeNS)
		if l.ranks != nil {
			if l.ranks[call] == nil {
				l.ranks[call] = &RankFunction{Name: f.Name}
			}
			l.ranks[call].add(totals)
		}
		rank.Calls += raw.Calls
		rank.Bytes += raw.Bytes
		if segment.Call(call).Messages() {
			ownNS += float64(raw.Calls) * h.OwnMessageNS
		} else {
			ownNS += float64(raw.Calls) * h.OwnCallNS
		}
		phase := b.report.Phases[at(l.phase, int(raw.Phase))]
		phase.Calls += raw.Calls
		phase.Bytes += raw.Bytes
		// The time of a call inside a callback is part of the outer call's.
		if raw.Flags&segment.SiteFlagCallback == 0 && !f.setup {
			rank.MPINS += totals.TimeNS
			phase.MPINS += totals.TimeNS
			l.busyNS[shard] += totals.TimeNS
		}
	})
	for shard, ns := range l.busyNS {
		if int64(shard) != l.shared {
			rank.BusyNS = max(rank.BusyNS, ns)
		}
	}
	if ownNS > 0 && ownNS < 1e18 {
		rank.OwnCostNS = uint64(ownNS)
	}
	rank.OwnCostNS += h.OwnInitNS + h.OwnFinalizeNS
}

// ratio is a/b, at most 1; 0 if b is 0.
func ratio(a, b uint64) float64 {
	if b == 0 {
		return 0
	}
	return min(1, float64(a)/float64(b))
}

// site is the row of a call site, made if it is new.
func (b *builder) site(l *local, raw *segment.RawSite) *Site {
	key := siteKey{offset: raw.Address, call: uint32(raw.Call), phase: at(l.phase, int(raw.Phase)), flags: raw.Flags}
	if i := int(raw.Module) - 1; i >= 0 && i < len(l.modules) {
		key.module, key.offset = l.module[i], raw.Address-l.modules[i].Base
	}
	if raw.Stack > 0 {
		key.stack = at(l.stack, int(raw.Stack)-1)
	}
	if raw.Flags&segment.SiteFlagOther != 0 {
		key.offset, key.module = 0, 0
	}
	site, ok := b.sites[key]
	if !ok {
		site = b.newSite(key)
		b.sites[key] = site
		b.report.Sites = append(b.report.Sites, site)
	}
	return site
}

func (b *builder) newSite(key siteKey) *Site {
	module := at(b.report.modules, int(key.module)-1)
	return &Site{
		Function: SiteFunction{Name: segment.Call(key.call).String()},
		Module:   module.Path, BuildID: module.BuildID, Offset: key.offset, Phase: int(key.phase), Stack: []string{},
		Callback: key.flags&segment.SiteFlagCallback != 0,
		Other:    key.flags&segment.SiteFlagOther != 0,
		Binding:  key.flags&segment.SiteFlagBinding != 0,
		key:      key,
	}
}

// addFunctions takes over distributions and errors.
func (b *builder) addFunctions(l *local) {
	h := &l.s.Header
	raws := l.s.Functions()
	for i := range raws {
		raw := &raws[i]
		f := b.function(raw.Call)
		f.Errors += raw.Errors
		f.Completed += raw.Completed
		f.CompletedNS += h.NS(raw.CompletedTicks)
		f.BeforeNS += h.NS(raw.BeforeTicks)
		f.BlockedNS += h.NS(raw.BlockedTicks)
		for bin, count := range raw.TimeBins {
			if count > 0 {
				f.times[timeBin(h, bin)] += count
			}
		}
		for bin, count := range raw.SizeBins {
			f.sizes[bin] += count
		}
		if rf := l.ranks[raw.Call]; rf != nil {
			rf.Errors += raw.Errors
		}
	}
	for _, rf := range l.ranks {
		l.rank.Functions = append(l.rank.Functions, *rf)
	}
	sortBy(l.rank.Functions, func(a, b RankFunction) int {
		return cmp.Or(-cmp.Compare(a.TimeNS, b.TimeNS), strings.Compare(a.Name, b.Name))
	})
}

// timeBin is the bin in nanoseconds that holds the geometric middle of a bin
// in ticks: clocks of different ranks may have different rates.
func timeBin(h *segment.RawHeader, bin int) int {
	if bin == 0 {
		return 0
	}
	middle := h.NS(3 << (bin - 1) / 2)
	return min(bits.Len64(middle), 63)
}

// bins lists the bins that are not empty; those below the resolution, in the
// unit of the bins, become one.
func bins(counts *[64]uint64, resolution float64) []Bin {
	out := []Bin{}
	merged := 0 // bins below this one are indistinguishable
	for merged < 62 && float64(uint64(1)<<merged) <= resolution {
		merged++
	}
	for i, count := range counts {
		if count == 0 {
			continue
		}
		bin := Bin{Count: count}
		if i > 0 {
			bin.From = 1 << (i - 1)
		}
		if i < 63 {
			bin.To = 1 << i
		}
		if i <= merged && merged > 0 {
			bin.From, bin.To = 0, 1<<merged
			if len(out) > 0 && out[len(out)-1].From == 0 {
				out[len(out)-1].Count += count
				out[len(out)-1].To = bin.To
				continue
			}
		}
		out = append(out, bin)
	}
	return out
}
