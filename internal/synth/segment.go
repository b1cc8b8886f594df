// Package synth makes synthetic segments and result directories: tests of the
// readers build what they need without an MPI, and scale tests build jobs that
// no test machine could run. It writes what libmpishim.so would write and
// nothing else; it does not read.
package synth

import (
	"slices"
	"sync"
	"unsafe"

	"github.com/mpitrace/mpitrace/segment"
)

// Segment is what one process has measured, before it becomes bytes. Change
// any field, then call Bytes.
type Segment struct {
	Header     segment.RawHeader
	Threads    []segment.RawThread
	Sites      []segment.RawSite
	Functions  []segment.RawFunction
	Peers      []segment.RawPeer
	Comms      []segment.RawComm
	CommTotals []segment.RawTotal
	Types      []segment.RawDatatype
	TypeTotals []segment.RawTotal
	Modules    []segment.RawModule
	Stacks     []segment.RawStack
	Phases     []segment.RawPhase

	// What a default run has too; sections without entries are left away.
	Arrivals       []segment.RawArrival
	ArrivalClasses []segment.RawArrivalClass
	Buffers        []segment.RawBuffer
	Reuse          []segment.RawReuse
	Events         []segment.RawEvent

	Extra []Section // further sections: other shards, growth, kinds of the future
}

// Section is one section as bytes.
type Section struct {
	segment.RawSection
	Data []byte
}

// NewSection makes a section of entries.
func NewSection[T any](kind, shard uint32, entries ...T) Section {
	size := uint32(unsafe.Sizeof(*new(T)))
	return Section{segment.RawSection{Kind: kind, Shard: shard, EntryBytes: size, Used: uint32(len(entries))}, segment.Encode(entries...)}
}

// spareEntries is how many unused entries lie behind the used ones of each
// section, as in a real segment.
const spareEntries = 3

// Bytes is the segment as it lies in shared memory.
func (s *Segment) Bytes() []byte {
	sections := append([]Section{
		NewSection(segment.SectionKindThread, 0, s.Threads...),
		NewSection(segment.SectionKindComms, 0, s.Comms...),
		NewSection(segment.SectionKindTypes, 0, s.Types...),
		NewSection(segment.SectionKindModules, 0, s.Modules...),
		NewSection(segment.SectionKindStacks, 0, s.Stacks...),
		NewSection(segment.SectionKindPhases, 0, s.Phases...),
		NewSection(segment.SectionKindSites, 0, s.Sites...),
		NewSection(segment.SectionKindFunctions, 0, s.Functions...),
		NewSection(segment.SectionKindPeers, 0, s.Peers...),
		NewSection(segment.SectionKindCommTotals, 0, s.CommTotals...),
		NewSection(segment.SectionKindTypeTotals, 0, s.TypeTotals...),
	}, append(s.sampled(), s.Extra...)...)
	offset := uint64(segment.SectionsOffset + segment.SectionsMax*unsafe.Sizeof(segment.RawSection{}))
	directory := make([]segment.RawSection, len(sections))
	for i := range sections {
		sec := &sections[i]
		sec.Offset, sec.Capacity = offset, sec.Used+spareEntries
		offset += (uint64(sec.Capacity)*uint64(sec.EntryBytes) + 63) &^ 63
		directory[i] = sec.RawSection
	}
	s.Header.SectionCount, s.Header.FileBytes = uint32(len(sections)), offset
	out := make([]byte, offset)
	copy(out, segment.Encode(s.Header))
	copy(out[segment.SectionsOffset:], segment.Encode(directory...))
	for i := range sections {
		copy(out[sections[i].Offset:], sections[i].Data)
	}
	return out
}

// sampled is the sections beyond calls and times.
func (s *Segment) sampled() []Section {
	all := []Section{
		NewSection(segment.SectionKindArrivals, 0, s.Arrivals...),
		NewSection(segment.SectionKindArrivalClasses, 0, s.ArrivalClasses...),
		NewSection(segment.SectionKindBuffers, 0, s.Buffers...),
		NewSection(segment.SectionKindReuse, 0, s.Reuse...),
		NewSection(segment.SectionKindEvents, 0, s.Events...),
	}
	return slices.DeleteFunc(all, func(sec Section) bool { return sec.Used == 0 })
}

// SetText stores text in a fixed-size field, cut so that a NUL remains.
func SetText(field []byte, text string) {
	clear(field)
	copy(field[:len(field)-1], text)
}

// ID is the id of a function of MPI; an unknown name is a mistake in a test
// and panics.
func ID(name string) uint32 {
	if id, ok := ids.Load(name); ok {
		return id.(uint32)
	}
	id, ok := segment.CallByName(name)
	if !ok {
		panic("synth: no function " + name)
	}
	ids.Store(name, uint32(id))
	return uint32(id)
}

// ids is what ID has found: large jobs ask for the same few millions of times.
var ids sync.Map
