package report

import (
	"github.com/mpitrace/mpitrace/segment"
)

// processSpans is where the modules of one process lie.
type processSpans struct {
	world string
	rank  int32
}

// moduleSpan is the addresses of one module.
type moduleSpan struct {
	start, end, base uint64
	module           int32 // index into Report.modules plus 1
}

// placeKey is a place in the program, whatever the phase and the callers.
type placeKey struct {
	offset uint64
	call   uint32
	module int32 // index into Report.modules plus 1
}

// keepSpans notes where the modules of a process lie, for addresses that come
// without their module.
func (b *builder) keepSpans(l *local) {
	list := make([]moduleSpan, 0, len(l.modules))
	for i := range l.modules {
		m := &l.modules[i]
		list = append(list, moduleSpan{m.Start, m.End, m.Base, l.module[i]})
	}
	b.spans[processSpans{l.s.Header.WorldID(), l.s.Header.WorldRank}] = list
}

// placeOf translates an address in a rank of a world.
func (b *builder) placeOf(world string, rank int32, address uint64, call uint32) placeKey {
	for _, s := range b.spans[processSpans{world, rank}] {
		if s.start <= address && address < s.end {
			return placeKey{address - s.base, call, s.module}
		}
	}
	return placeKey{address, call, 0}
}

// indexPlaces finds the call sites of each place.
func (b *builder) indexPlaces() {
	b.byPlace = map[placeKey][]*Site{}
	for _, s := range b.report.Sites {
		if !s.Other {
			key := placeKey{s.key.offset, s.key.call, s.key.module}
			b.byPlace[key] = append(b.byPlace[key], s)
		}
	}
}

// placeSite is the row of a place: its call site, or the sum of several that
// differ in phase or callers, or a new one without totals.
func (b *builder) placeSite(key placeKey) *Site {
	sites := b.byPlace[key]
	if large := uint32(segment.CallLarge); len(sites) == 0 && key.call < large {
		// Samples name the function without its large-count form.
		sites = b.byPlace[placeKey{key.offset, key.call + large, key.module}]
	}
	if len(sites) == 1 {
		return sites[0]
	}
	if site, ok := b.places[key]; ok {
		return site
	}
	site := b.newSite(siteKey{offset: key.offset, call: key.call, module: key.module})
	for _, s := range sites {
		site.Totals.add(s.Totals)
		site.RequestNS += s.RequestNS
		site.BeforeNS += s.BeforeNS
		site.BlockedNS += s.BlockedNS
		site.Peerless += s.Peerless
		site.Callback, site.Binding = site.Callback || s.Callback, site.Binding || s.Binding
		site.mergeSpread(&s.Spread)
	}
	site.Function.Totals = site.Totals
	b.places[key] = site
	return site
}

// mergeSpread takes the widest spread of the rows of a place: the times of a
// rank in several of them cannot be added any more.
func (s *Site) mergeSpread(other *Spread) {
	if other.MaxNS >= s.Spread.MaxNS {
		s.Spread = *other
	}
}
