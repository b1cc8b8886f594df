package segment

// StartTicks is when the process began to work with MPI: the return of
// MPI_Init, or its entry while it has not returned; 0 if it is not known.
func (s *Segment) StartTicks() uint64 {
	if s.Header.InitExitTicks > 0 {
		return s.Header.InitExitTicks
	}
	return s.Header.InitEnterTicks
}

// NowTicks is the clock of the process at the moment when its segment was
// read from shared memory; 0 for a segment in a node file.
func (s *Segment) NowTicks() uint64 {
	h := &s.Header
	if s.ReadNS <= h.FirstMonotonicNS {
		return 0
	}
	rate, _ := h.rate()
	return h.FirstTicks + uint64(float64(s.ReadNS-h.FirstMonotonicNS)*rate)
}

// EndTicks is when the process ended to work with MPI: the entry of
// MPI_Finalize, or exit() without it; now, if it is alive; else the last
// moment that it is known to have lived.
func (s *Segment) EndTicks() uint64 {
	h := &s.Header
	switch {
	case h.FinalizeEnterTicks > 0:
		return h.FinalizeEnterTicks
	case s.Alive && s.NowTicks() > 0:
		return s.NowTicks()
	case h.ExitTicks > 0:
		return h.ExitTicks
	}
	end := h.LastTicks
	for _, t := range s.Threads() {
		for _, ticks := range [2]uint64{t.EnterTicks, t.ExitTicks} {
			// The last pair may be old; a call years after it is damage.
			if ticks > end && h.NS(ticks-end) < lifetimeNS {
				end = ticks
			}
		}
	}
	return end
}

// lifetimeNS is longer than any process lives: ten years.
const lifetimeNS = 10 * 365 * 24 * 3600 * 1_000_000_000

// EachSite calls f for each row of call sites with the shard it belongs to.
func (s *Segment) EachSite(f func(shard uint32, site *RawSite)) {
	for i := range s.sections {
		sec := &s.sections[i]
		if sec.Kind != SectionKindSites || sec.Used == 0 {
			continue
		}
		sites := decode[RawSite](nil, s.data[sec.Offset:], int(sec.EntryBytes), int(sec.Used))
		for j := range sites {
			f(sec.Shard, &sites[j])
		}
	}
}
