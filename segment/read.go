package segment

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// readLimit bounds what is read of one segment: far above SegmentBytesMax,
// which a user may raise, and far below what would hurt.
const readLimit = 64 << 20

// settleTries is how often the call in progress is read again until it is
// seen whole.
const settleTries = 6

// ReadFile reads the segment of a live or dead process, or of it only the
// sections of some kinds (SectionKind*): the others look empty then. It follows
// no symbolic link and never maps the file. The error names the file and wraps
// fs errors or those of Parse.
func ReadFile(path string, kinds ...uint32) (*Segment, error) {
	f, _, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ReadOpen(path, f, kinds...)
}

// ReadOpen is ReadFile of a file that is open already, and may have lost its
// name since; name goes into messages.
func ReadOpen(name string, f *os.File, kinds ...uint32) (*Segment, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("segment %s: %w", name, err)
	}
	if info.Size() > readLimit {
		return nil, fmt.Errorf("segment %s: %d bytes, more than any segment has: %w", name, info.Size(), ErrCorrupt)
	}
	data, origin, err := readGrowing(f, kinds)
	if err != nil {
		return nil, fmt.Errorf("segment %s: %w", name, err)
	}
	s, err := Parse(name, data)
	if err != nil {
		return nil, err
	}
	s.settle(f, origin)
	s.settleMoved(f)
	s.settlePair(f)
	s.settleAct(f, origin)
	s.ReadNS = monotonicNS()
	s.Owner = info.Sys().(*syscall.Stat_t).Uid
	s.Alive = Alive(&s.Header)
	return s, nil
}

// readGrowing reads header and directory first and the rest after it, so that
// the used counts are older than the entries they speak of. A file that grows
// or shrinks meanwhile is no error here. With kinds, only sections of these are
// read, and origin is where each section lies in the file.
func readGrowing(f *os.File, kinds []uint32) (data []byte, origin []uint64, err error) {
	head := make([]byte, SectionsOffset+SectionsMax*int(unsafe.Sizeof(RawSection{})))
	n, err := f.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if n < len(head) || info.Size() <= int64(n) {
		return head[:n], nil, nil
	}
	if len(kinds) > 0 {
		return readKinds(f, uint64(info.Size()), head, kinds)
	}
	data = make([]byte, min(info.Size(), readLimit))
	copy(data, head)
	rest, err := f.ReadAt(data[n:], int64(n))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, err
	}
	return data[:n+rest], nil, nil
}

// readKinds reads sections of some kinds and moves them together behind the
// directory, in which the others become empty. What is wrong with the head or
// with a section stays as it is, for Parse to say.
func readKinds(f io.ReaderAt, size uint64, head []byte, kinds []uint32) (data []byte, origin []uint64, err error) {
	const stride = uint64(unsafe.Sizeof(RawSection{}))
	header, err := parseHeader("", head)
	if err != nil || header.SectionCount > SectionsMax {
		return head, nil, nil
	}
	data = head[:SectionsOffset+uint64(header.SectionCount)*stride]
	sections := decode[RawSection](nil, data[SectionsOffset:], int(stride), int(header.SectionCount))
	first := uint64(len(data))
	for i := range sections {
		sec := &sections[i]
		origin = append(origin, sec.Offset)
		bytes := uint64(sec.Used) * uint64(sec.EntryBytes)
		switch {
		case !slices.Contains(kinds, sec.Kind):
			sec.Used = 0
			continue
		case bytes == 0 || sec.Offset < first || sec.Offset > size || bytes > size-sec.Offset:
			continue
		case uint64(len(data))+bytes > size:
			return nil, nil, fmt.Errorf("its sections overlap: %w", ErrCorrupt)
		}
		part := make([]byte, bytes)
		if n, err := f.ReadAt(part, int64(sec.Offset)); n < len(part) {
			if errors.Is(err, io.EOF) {
				err = fmt.Errorf("it shrank while it was read: %w", ErrTruncated)
			}
			return nil, nil, err
		}
		sec.Offset = uint64(len(data))
		data = append(data, part...)
	}
	copy(data[SectionsOffset:], Encode(sections...))
	return data, origin, nil
}

// settle reads each call in progress again until function and entry time are
// the same before and after the fields between them were read. origin is where
// the sections lie in the file, nil: where they lie in the data.
func (s *Segment) settle(f io.ReaderAt, origin []uint64) {
	size := int(unsafe.Sizeof(RawThread{}))
	fresh := make([]byte, size)
	for i := range s.sections {
		sec := &s.sections[i]
		if sec.Kind != SectionKindThread {
			continue
		}
		for j := range int(sec.Used) {
			at := sec.Offset + uint64(j)*uint64(sec.EntryBytes)
			inFile := at
			if origin != nil {
				inFile = origin[i] + uint64(j)*uint64(sec.EntryBytes)
			}
			s.torn = append(s.torn, !settleOne(f, s.data[at:at+uint64(size)], fresh, int64(inFile)))
		}
	}
}

// settleMoved looks at the directory again for sections whose rows a living
// process moves: arrivals that were thinned out while they were read are marked
// as torn, events that went to the trace file meanwhile are left away.
func (s *Segment) settleMoved(f io.ReaderAt) {
	stride := int(unsafe.Sizeof(RawSection{}))
	directory := make([]byte, len(s.sections)*stride)
	if n, _ := f.ReadAt(directory, SectionsOffset); n < len(directory) {
		return // shrunk under us: what was read first has to do
	}
	fresh := decode[RawSection](nil, directory, stride, len(s.sections))
	for i := range s.sections {
		sec := &s.sections[i]
		switch {
		case sec.Kind == SectionKindArrivals && sec.Reserved0 != fresh[i].Reserved0:
			sec.Reserved0 |= 1
		case sec.Kind == SectionKindEvents && fresh[i].Used < sec.Used:
			sec.Used = 0
		}
	}
}

// settlePair drops the last pair of clocks if the process took another one since
// the header was read: its halves may belong to two.
func (s *Segment) settlePair(f io.ReaderAt) {
	page := make([]byte, unsafe.Sizeof(RawHeader{}))
	if n, _ := f.ReadAt(page, 0); n < len(page) {
		return // shrunk under us: what was read first has to do
	}
	h := &s.Header
	if fresh := decode[RawHeader](nil, page, len(page), 1)[0]; fresh.ClockSequence != h.ClockSequence {
		h.LastTicks, h.LastMonotonicNS = h.FirstTicks, h.FirstMonotonicNS
	}
}

// settleOne compares the record with a second reading and takes that one over
// if they differ; false if they still do after a few tries.
func settleOne(f io.ReaderAt, record, fresh []byte, at int64) bool {
	for try := range settleTries {
		if n, err := f.ReadAt(fresh, at); n < len(fresh) {
			// Shrunk under us: what was read first has to do.
			return err == nil
		}
		a := decode[RawThread](nil, record, len(record), 1)[0]
		b := decode[RawThread](nil, fresh, len(fresh), 1)[0]
		copy(record, fresh)
		if a.Call == b.Call && a.EnterTicks == b.EnterTicks {
			return true
		}
		time.Sleep(10 * time.Microsecond << try)
	}
	return false
}

// openRegular opens a regular file for reading without following a symbolic
// link or waiting for the other end of a pipe.
func openRegular(path string) (*os.File, *unix.Stat_t, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ELOOP) {
		return nil, nil, fmt.Errorf("%s: is a symbolic link, which is not followed here", path)
	}
	if err != nil {
		return nil, nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	var info unix.Stat_t
	if err := unix.Fstat(fd, &info); err != nil {
		unix.Close(fd)
		return nil, nil, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if info.Mode&unix.S_IFMT != unix.S_IFREG {
		unix.Close(fd)
		return nil, nil, fmt.Errorf("%s: is not a regular file", path)
	}
	return os.NewFile(uintptr(fd), path), &info, nil
}

// monotonicNS is CLOCK_MONOTONIC_RAW, the clock of the pairs in a header.
func monotonicNS() uint64 {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC_RAW, &ts) != nil {
		return 0
	}
	return uint64(ts.Nano())
}
