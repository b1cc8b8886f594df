package segment

import (
	"errors"
	"fmt"
	"unsafe"
)

// Errors that Parse, ReadFile, ReadNodeFile and ReadResult wrap.
var (
	ErrNotSegment = errors.New("not written by mpitrace")
	ErrVersion    = errors.New("another version of the format")
	ErrCorrupt    = errors.New("damaged")
	ErrTruncated  = errors.New("truncated")
	ErrNoResult   = errors.New("not a result of mpitrace")
)

// Segment is a parsed copy of one segment. It does not change.
type Segment struct {
	Path     string // where it was read from, for messages
	Header   RawHeader
	Warnings []string // oddities that do not prevent reading, as sentences

	// Alive, Owner and ReadNS are set by ReadFile and ReadResult for segments
	// that lie in shared memory.
	Alive  bool   // the process existed when the segment was read
	Owner  uint32 // user id that owns the file
	ReadNS uint64 // CLOCK_MONOTONIC_RAW at the time of reading, 0 in a node file

	sections []RawSection
	data     []byte
	torn     []bool // by entry of THREAD, nil if all are whole
}

// entryBytes is the size of an entry by kind of section. Kinds that this
// version does not know are kept but not looked at.
var entryBytes = map[uint32]uintptr{
	SectionKindThread:     unsafe.Sizeof(RawThread{}),
	SectionKindSites:      unsafe.Sizeof(RawSite{}),
	SectionKindFunctions:  unsafe.Sizeof(RawFunction{}),
	SectionKindPeers:      unsafe.Sizeof(RawPeer{}),
	SectionKindCommTotals: unsafe.Sizeof(RawTotal{}),
	SectionKindTypeTotals: unsafe.Sizeof(RawTotal{}),
	SectionKindComms:      unsafe.Sizeof(RawComm{}),
	SectionKindTypes:      unsafe.Sizeof(RawDatatype{}),
	SectionKindModules:    unsafe.Sizeof(RawModule{}),
	SectionKindStacks:     unsafe.Sizeof(RawStack{}),
	SectionKindPhases:     unsafe.Sizeof(RawPhase{}),

	SectionKindArrivals:       unsafe.Sizeof(RawArrival{}),
	SectionKindArrivalClasses: unsafe.Sizeof(RawArrivalClass{}),
	SectionKindBuffers:        unsafe.Sizeof(RawBuffer{}),
	SectionKindReuse:          unsafe.Sizeof(RawReuse{}),
	SectionKindEvents:         unsafe.Sizeof(RawEvent{}),

	SectionKindAct:          unsafe.Sizeof(RawAct{}),
	SectionKindActCounts:    unsafe.Sizeof(RawActCount{}),
	SectionKindActDecisions: unsafe.Sizeof(RawActDecision{}),
}

// Parse reads a segment from data, which may be any bytes; name goes into
// messages. The segment keeps data, which must not be changed afterwards.
//
// The error wraps ErrNotSegment, ErrVersion, ErrTruncated or ErrCorrupt.
func Parse(name string, data []byte) (*Segment, error) {
	header, err := parseHeader(name, data)
	if err != nil {
		return nil, err
	}
	s := &Segment{Path: name, Header: header, data: data}
	if header.SectionCount > SectionsMax {
		return nil, fmt.Errorf("segment %s: %d sections, at most %d are possible: %w", name, header.SectionCount, SectionsMax, ErrCorrupt)
	}
	count := int(header.SectionCount)
	stride := int(unsafe.Sizeof(RawSection{}))
	if len(data) < SectionsOffset+count*stride {
		return nil, fmt.Errorf("segment %s: %d bytes do not hold the %d entries of its directory: %w", name, len(data), count, ErrTruncated)
	}
	s.sections = decode[RawSection](nil, data[SectionsOffset:], stride, count)
	used := uint64(0)
	for i := range s.sections {
		if err := s.checkSection(i); err != nil {
			return nil, err
		}
		used += uint64(s.sections[i].Used) * uint64(s.sections[i].EntryBytes)
	}
	if used > uint64(len(data)) {
		return nil, fmt.Errorf("segment %s: its sections overlap: %w", name, ErrCorrupt)
	}
	s.warn()
	return s, nil
}

// parseHeader reads and checks the first page.
func parseHeader(name string, data []byte) (RawHeader, error) {
	size := int(unsafe.Sizeof(RawHeader{}))
	if len(data) < len(magicSegment) || string(data[:len(magicSegment)]) != magicSegment {
		return RawHeader{}, fmt.Errorf("segment %s: %d bytes that do not begin with %s: %w", name, len(data), magicSegment, ErrNotSegment)
	}
	// The version is looked at before all else: a newer header may have
	// another size.
	if len(data) >= 16 {
		version := decode[uint32](nil, data[8:], 4, 1)
		if err := checkVersion("segment "+name, version[0]); err != nil {
			return RawHeader{}, err
		}
	}
	if len(data) < size {
		return RawHeader{}, fmt.Errorf("segment %s: %d bytes, its header alone has %d: %w", name, len(data), size, ErrTruncated)
	}
	header := decode[RawHeader](nil, data, size, 1)[0]
	if header.HeaderBytes != uint32(size) || header.SectionEntryBytes != uint32(unsafe.Sizeof(RawSection{})) {
		return RawHeader{}, fmt.Errorf("segment %s: header of %d bytes and directory entries of %d: %w", name, header.HeaderBytes, header.SectionEntryBytes, ErrCorrupt)
	}
	if header.ClockSequence%2 != 0 {
		// It was being written, or its process died in the middle.
		header.LastTicks, header.LastMonotonicNS = header.FirstTicks, header.FirstMonotonicNS
	}
	return header, nil
}

// checkVersion refuses major versions other than ours; what names the file.
func checkVersion(what string, major uint32) error {
	switch {
	case major > VersionMajor:
		return fmt.Errorf("%s: written by a newer mpitrace (segment version %d, this one reads %d): install an mpitrace at least as new as the libmpishim.so that measured: %w", what, major, VersionMajor, ErrVersion)
	case major < VersionMajor:
		return fmt.Errorf("%s: written by an older mpitrace (segment version %d, this one reads %d): read it with the mpitrace that measured: %w", what, major, VersionMajor, ErrVersion)
	}
	return nil
}

// checkSection proves that the used entries of section i lie inside the data.
func (s *Segment) checkSection(i int) error {
	sec := &s.sections[i]
	size, known := entryBytes[sec.Kind]
	fail := func(why string, wrapped error) error {
		return fmt.Errorf("segment %s: section %d (%s): %s: %w", s.Path, i, kindName(sec.Kind), why, wrapped)
	}
	if known && uintptr(sec.EntryBytes) < size {
		return fail(fmt.Sprintf("entries of %d bytes, should be %d", sec.EntryBytes, size), ErrCorrupt)
	}
	if sec.Used > sec.Capacity {
		return fail(fmt.Sprintf("%d of %d entries used", sec.Used, sec.Capacity), ErrCorrupt)
	}
	bytes := uint64(sec.Used) * uint64(sec.EntryBytes)
	if sec.Used > 0 && sec.Offset < SectionsOffset+uint64(s.Header.SectionCount)*uint64(unsafe.Sizeof(*sec)) {
		return fail(fmt.Sprintf("begins at byte %d, inside the directory", sec.Offset), ErrCorrupt)
	}
	if sec.Used > 0 && (sec.Offset > uint64(len(s.data)) || bytes > uint64(len(s.data))-sec.Offset) {
		return fail(fmt.Sprintf("needs %d bytes from byte %d, there are %d bytes in all", bytes, sec.Offset, len(s.data)), ErrTruncated)
	}
	return nil
}

// warn notes what a reader should know of a segment that can be read.
func (s *Segment) warn() {
	h := &s.Header
	if h.VersionMinor == VersionMinor && h.LayoutHash != LayoutHash {
		s.Warnings = append(s.Warnings, fmt.Sprintf("segment %s has version %d.%d but another layout than this mpitrace knows (a development build?): figures may be wrong", s.Path, h.VersionMajor, h.VersionMinor))
	}
	if _, ok := h.rate(); !ok {
		s.Warnings = append(s.Warnings, fmt.Sprintf("segment %s has no usable clock rate: its times are not in nanoseconds", s.Path))
	}
}

// kindName names a kind of section in messages.
func kindName(kind uint32) string {
	names := [...]string{"", "threads", "call sites", "functions", "peers", "communicator totals", "datatype totals", "communicators", "datatypes", "modules", "stacks", "phases", "arrivals", "arrival classes", "buffers", "buffer reuse", "events", "act mode", "act counts", "act decisions"}
	if kind > 0 && int(kind) < len(names) {
		return names[kind]
	}
	return fmt.Sprintf("unknown kind %d", kind)
}
