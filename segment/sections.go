package segment

import "unsafe"

// rows is a copy of all entries of one kind, in directory order.
func rows[T any](s *Segment, kind uint32) []T {
	n := 0
	for i := range s.sections {
		if s.sections[i].Kind == kind {
			n += int(s.sections[i].Used)
		}
	}
	if n == 0 {
		return nil
	}
	out := make([]T, 0, n)
	for i := range s.sections {
		if sec := &s.sections[i]; sec.Kind == kind && sec.Used > 0 {
			out = decode(out, s.data[sec.Offset:], int(sec.EntryBytes), int(sec.Used))
		}
	}
	return out
}

// Thread is the state of one shard.
type Thread struct {
	RawThread
	Shard uint32 // whose rows of call sites and the like are this thread's
	// Torn tells that the call in progress was not to be read whole in a few
	// tries, because the thread enters and leaves calls all the time. The
	// counters are good.
	Torn bool
}

// Threads is the state of each shard: the call in progress and counters.
func (s *Segment) Threads() []Thread {
	var threads []Thread
	for i := range s.sections {
		sec := &s.sections[i]
		if sec.Kind != SectionKindThread || sec.Used == 0 {
			continue
		}
		for _, raw := range decode[RawThread](nil, s.data[sec.Offset:], int(sec.EntryBytes), int(sec.Used)) {
			n := len(threads)
			threads = append(threads, Thread{RawThread: raw, Shard: sec.Shard, Torn: n < len(s.torn) && s.torn[n]})
		}
	}
	return threads
}

// SharedShard is the shard of the threads that found none of their own: its times
// are the sum over them, not those of one thread. It is -1 if there is none, if only
// one thread has used it, or if there is no other shard.
func SharedShard(threads []Thread) int64 {
	shared, others := int64(-1), false
	for i := range threads {
		if t := &threads[i]; t.Overflow != 0 && t.ThreadsServed > 1 {
			shared = int64(t.Shard)
		} else {
			others = true
		}
	}
	if !others {
		return -1
	}
	return shared
}

// Sites is the rows of all shards; a key may come once per shard.
func (s *Segment) Sites() []RawSite { return rows[RawSite](s, SectionKindSites) }

// Functions is the rows of all shards; a function may come once per shard.
func (s *Segment) Functions() []RawFunction { return rows[RawFunction](s, SectionKindFunctions) }

// Peers is the rows of all shards; a peer may come once per shard.
func (s *Segment) Peers() []RawPeer { return rows[RawPeer](s, SectionKindPeers) }

// Comms is the communicators of the process. Entry 0 is the row "other".
func (s *Segment) Comms() []RawComm { return rows[RawComm](s, SectionKindComms) }

// Types is the datatypes of the process. Entry 0 is the row "other".
func (s *Segment) Types() []RawDatatype { return rows[RawDatatype](s, SectionKindTypes) }

// Modules is the executable and the shared objects that hold call sites.
func (s *Segment) Modules() []RawModule { return rows[RawModule](s, SectionKindModules) }

// Stacks is the call stacks, if the user asked for them.
func (s *Segment) Stacks() []RawStack { return rows[RawStack](s, SectionKindStacks) }

// Phases is the phases of the program. Entry 0 is the time outside any phase.
func (s *Segment) Phases() []RawPhase { return rows[RawPhase](s, SectionKindPhases) }

// Arrivals is the collective operations that the shards have kept, and whether
// a shard was cut off while it thinned its rows out, so that they are left away.
func (s *Segment) Arrivals() (kept []RawArrival, torn bool) {
	for i := range s.sections {
		sec := &s.sections[i]
		if sec.Kind != SectionKindArrivals || sec.Used == 0 {
			continue
		}
		if sec.Reserved0%2 != 0 {
			torn = true
			continue
		}
		kept = decode(kept, s.data[sec.Offset:], int(sec.EntryBytes), int(sec.Used))
	}
	return kept, torn
}

// ArrivalClasses says of each collective function on each communicator how
// many operations there were and which Arrivals has; a class may come once per
// shard.
func (s *Segment) ArrivalClasses() []RawArrivalClass {
	return rows[RawArrivalClass](s, SectionKindArrivalClasses)
}

// Buffers is the message buffers of all shards; a buffer may come once per
// shard.
func (s *Segment) Buffers() []RawBuffer { return rows[RawBuffer](s, SectionKindBuffers) }

// Reuse is the accesses to buffers of all shards; a path comes once per shard.
func (s *Segment) Reuse() []RawReuse { return rows[RawReuse](s, SectionKindReuse) }

// Events is the end of the trace that is not in the trace file yet.
func (s *Segment) Events() []RawEvent { return rows[RawEvent](s, SectionKindEvents) }

// EachEvents calls f with the Events of each shard that has any.
func (s *Segment) EachEvents(f func(shard uint32, events []RawEvent)) {
	for i := range s.sections {
		if sec := &s.sections[i]; sec.Kind == SectionKindEvents && sec.Used > 0 {
			f(sec.Shard, decode[RawEvent](nil, s.data[sec.Offset:], int(sec.EntryBytes), int(sec.Used)))
		}
	}
}

// CommTotals is the totals by communicator, summed over shards: entry i
// belongs to entry i of Comms.
func (s *Segment) CommTotals() []RawTotal { return s.totals(SectionKindCommTotals) }

// TypeTotals is the totals by datatype, summed over shards: entry i belongs
// to entry i of Types.
func (s *Segment) TypeTotals() []RawTotal { return s.totals(SectionKindTypeTotals) }

// totals adds the arrays of the shards element by element.
func (s *Segment) totals(kind uint32) []RawTotal {
	var sum []RawTotal
	length := map[uint32]int{} // entries seen so far, by shard
	for i := range s.sections {
		sec := &s.sections[i]
		if sec.Kind != kind || sec.Used == 0 {
			continue
		}
		start := length[sec.Shard]
		length[sec.Shard] += int(sec.Used)
		for j, t := range decode[RawTotal](nil, s.data[sec.Offset:], int(sec.EntryBytes), int(sec.Used)) {
			if start+j == len(sum) {
				sum = append(sum, RawTotal{})
			}
			sum[start+j].add(&t)
		}
	}
	return sum
}

func (t *RawTotal) add(other *RawTotal) {
	t.Calls += other.Calls
	t.Ticks += other.Ticks
	t.SentBytes += other.SentBytes
	t.ReceivedBytes += other.ReceivedBytes
	t.Collectives += other.Collectives
}

// Dropped is the number of entries of one kind (SectionKind*) that found no
// place; what they held is in the row "other".
func (s *Segment) Dropped(kind uint32) uint64 {
	var n uint64
	for i := range s.sections {
		if s.sections[i].Kind == kind {
			n += s.sections[i].Dropped
		}
	}
	return n
}

// UsedBytes is the size of the header, the directory and all used entries;
// FileBytes of the header is what was allocated.
func (s *Segment) UsedBytes() uint64 {
	n := SectionsOffset + uint64(len(s.sections))*uint64(unsafe.Sizeof(RawSection{}))
	for i := range s.sections {
		n += uint64(s.sections[i].Used) * uint64(s.sections[i].EntryBytes)
	}
	return n
}

// Compact is the segment with used entries only and offsets to match, as it
// goes into a node file. Sections of unknown kinds are kept.
func (s *Segment) Compact() []byte {
	sections := make([]RawSection, 0, len(s.sections))
	stride := uint64(unsafe.Sizeof(RawSection{}))
	kept := uint64(0)
	for i := range s.sections {
		if s.sections[i].Used > 0 || s.sections[i].Dropped > 0 {
			kept++
		}
	}
	offset := SectionsOffset + kept*stride
	out := make([]byte, 0, s.UsedBytes())
	header := s.Header
	out = append(out, Encode(header)...)
	var body []byte
	for _, sec := range s.sections {
		if sec.Used == 0 && sec.Dropped == 0 {
			continue
		}
		bytes := uint64(sec.Used) * uint64(sec.EntryBytes)
		if sec.Used > 0 {
			body = append(body, s.data[sec.Offset:sec.Offset+bytes]...)
		}
		for len(body)%8 != 0 {
			body = append(body, 0)
		}
		sec.Offset, sec.Capacity = offset, sec.Used
		offset = SectionsOffset + kept*stride + uint64(len(body))
		sections = append(sections, sec)
	}
	out = append(append(out, Encode(sections...)...), body...)
	header.SectionCount, header.FileBytes = uint32(kept), uint64(len(out))
	copy(out, Encode(header))
	return out
}
