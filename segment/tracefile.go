package segment

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unsafe"
)

const magicTrace = "MPITRTRC"

// TraceFileSuffix ends the name of a trace file.
const TraceFileSuffix = ".mtt"

const (
	traceChunk    = 4096      // events that are handed out at a time
	traceTail     = 16384     // events at the end that BeyondTrace compares
	traceLimit    = 1<<40 + 1 // the largest MPITRACE_TRACE_BYTES, and more than a file has
	traceEventMax = 1024      // bytes of an event in a newer minor version
)

// Process is the identity of the process that wrote the trace file.
func (f *RawTraceFile) Process() Process {
	return Process{Text(f.Node[:]), Text(f.BootID[:]), f.PID, f.PIDStart}
}

// TraceFiles is the paths of the trace files in a result directory, in order.
// A result that is one file has none.
func TraceFiles(dir string) ([]string, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("result: %w", err)
	}
	if !info.IsDir() {
		return nil, nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("result: %w", err)
	}
	var out []string
	for _, entry := range entries {
		if name := entry.Name(); strings.HasSuffix(name, TraceFileSuffix) && !strings.HasPrefix(name, ".") {
			out = append(out, filepath.Join(dir, name))
		}
	}
	return out, nil
}

// WalkTrace hands the events of all trace files of a result directory to
// visit, file by file, in the order in which they were written, some thousand
// at a time; visit must not keep them. What a process recorded last is not
// there but in its segment, see BeyondTrace.
//
// Files that cannot be read, or not to their end, become problems; the events
// before that place are visited. An error of visit ends the walk and is
// returned.
func WalkTrace(dir string, visit func(head RawTraceFile, events []RawEvent) error) ([]string, error) {
	paths, err := TraceFiles(dir)
	if err != nil {
		return nil, err
	}
	w := &traceWalker{visit: visit, seen: map[Process]string{}}
	var problems []string
	for _, path := range paths {
		problem, err := w.file(path)
		if err != nil {
			return problems, err
		}
		if problem != nil {
			problems = append(problems, problem.Error())
		}
	}
	return problems, nil
}

// traceWalker visits the events of one file after the other.
type traceWalker struct {
	visit  func(RawTraceFile, []RawEvent) error
	seen   map[Process]string // where the events of a process came from
	data   []byte
	events []RawEvent
}

// file visits the events of one file. problem is about the file, err comes
// from visit.
func (w *traceWalker) file(path string) (problem, err error) {
	t, problem := openTrace(path)
	if problem != nil {
		return problem, nil
	}
	defer t.Close()
	process := t.head.Process()
	if first, ok := w.seen[process]; ok {
		return fmt.Errorf("trace file %s: is of the same process as %s and left out: %w", path, first, ErrCorrupt), nil
	}
	w.seen[process] = path
	for at := int64(0); at < t.count; {
		n := int(min(traceChunk, t.count-at))
		w.events, w.data, problem = t.read(at, n, w.events[:0], w.data)
		if len(w.events) > 0 {
			if err := w.visit(t.head, w.events); err != nil {
				return nil, err
			}
		}
		if problem != nil {
			return problem, nil
		}
		at += int64(n)
	}
	return t.rest(), nil
}

// traceFile is an open trace file.
type traceFile struct {
	*os.File
	path   string
	head   RawTraceFile
	size   int64 // when it was opened: it may grow
	count  int64 // whole events in it
	stride int
}

// openTrace opens a trace file and checks its head.
func openTrace(path string) (*traceFile, error) {
	f, info, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	t := &traceFile{File: f, path: path, size: info.Size}
	if err := t.readHead(); err != nil {
		f.Close()
		return nil, fmt.Errorf("trace file %s: %w", path, err)
	}
	t.stride = int(t.head.EventBytes)
	t.count = (t.size - int64(unsafe.Sizeof(t.head))) / int64(t.stride)
	return t, nil
}

func (t *traceFile) readHead() error {
	size := int64(unsafe.Sizeof(t.head))
	data := make([]byte, min(t.size, size))
	if _, err := t.ReadAt(data, 0); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if len(data) < len(magicTrace) || string(data[:len(magicTrace)]) != magicTrace {
		return fmt.Errorf("does not begin with %s: %w", magicTrace, ErrNotSegment)
	}
	// A newer version may have another head: the version goes first.
	if len(data) >= 16 {
		if err := checkVersion("its format", decode[uint32](nil, data[8:], 4, 1)[0]); err != nil {
			return err
		}
	}
	if int64(len(data)) < size {
		return fmt.Errorf("only %d bytes: %w", t.size, ErrTruncated)
	}
	t.head = decode[RawTraceFile](nil, data, len(data), 1)[0]
	want := uint32(unsafe.Sizeof(RawEvent{}))
	longer := t.head.VersionMinor > VersionMinor && t.head.EventBytes > want && t.head.EventBytes <= traceEventMax
	switch {
	case t.head.EventBytes != want && !longer:
		return fmt.Errorf("events of %d bytes, should be %d: %w", t.head.EventBytes, want, ErrCorrupt)
	case t.size > traceLimit:
		return fmt.Errorf("%d bytes, more than any trace has: %w", t.size, ErrCorrupt)
	}
	return nil
}

// read appends n events from number at on to events; data is scratch space,
// returned to be used again. After a failure the events before it are there.
func (t *traceFile) read(at int64, n int, events []RawEvent, data []byte) ([]RawEvent, []byte, error) {
	start := int64(unsafe.Sizeof(t.head)) + at*int64(t.stride)
	data = slices.Grow(data[:0], n*t.stride)[:n*t.stride]
	got, err := t.ReadAt(data, start)
	if got == len(data) {
		err = nil
	}
	from := len(events)
	events = decode(events, data, t.stride, got/t.stride)
	for i := from; i < len(events); i++ {
		if events[i].Kind == 0 { // no event: a place that was allocated and never written
			why := fmt.Errorf("trace file %s: event %d is empty: what follows is lost: %w", t.path, at+int64(i-from), ErrCorrupt)
			return events[:i], data, why
		}
	}
	if errors.Is(err, io.EOF) {
		err = fmt.Errorf("shrank from %d bytes while it was read: %w", t.size, ErrTruncated)
	}
	if err != nil {
		err = fmt.Errorf("trace file %s: %w", t.path, err)
	}
	return events, data, err
}

// rest says that the last event is not whole, nil if it is.
func (t *traceFile) rest() error {
	over := (t.size - int64(unsafe.Sizeof(t.head))) % int64(t.stride)
	if over == 0 {
		return nil
	}
	return fmt.Errorf("trace file %s: ends within an event, after %d whole ones (the process was killed, the disk was full, or it still writes): %w", t.path, t.count, ErrTruncated)
}

// BeyondTrace is the segment without the events that the trace file of its
// process in the result directory dir holds too. That happens to a process
// that was killed, or failed, between writing its events to the file and
// emptying them here: the file then ends with the first events of a section,
// or with all of them. A file that cannot be read takes nothing away;
// WalkTrace says what is wrong with it.
func (s *Segment) BeyondTrace(dir string) *Segment {
	tail := s.traceEnd(dir)
	if len(tail) == 0 {
		return s
	}
	out := *s
	out.sections = slices.Clone(s.sections)
	for i := range out.sections {
		sec := &out.sections[i]
		if sec.Kind != SectionKindEvents || sec.Used == 0 {
			continue
		}
		events := decode[RawEvent](nil, s.data[sec.Offset:], int(sec.EntryBytes), int(sec.Used))
		n := uint32(heldBy(tail, events))
		sec.Offset += uint64(n) * uint64(sec.EntryBytes)
		sec.Used -= n
		sec.Capacity -= n
	}
	return &out
}

// traceEnd is the last events of the trace file of the process, nil if there
// is none.
func (s *Segment) traceEnd(dir string) []RawEvent {
	h := &s.Header
	events := slices.ContainsFunc(s.sections, func(sec RawSection) bool { return sec.Kind == SectionKindEvents && sec.Used > 0 })
	name := h.NodeName() + "." + strconv.FormatUint(uint64(h.PID), 10) + "." + strconv.FormatUint(h.PIDStart, 10) + TraceFileSuffix
	if !events || filepath.Base(name) != name {
		return nil
	}
	t, err := openTrace(filepath.Join(dir, name))
	if err != nil {
		return nil
	}
	defer t.Close()
	if t.head.Process() != h.Process() {
		return nil
	}
	n := min(t.count, traceTail)
	tail, _, _ := t.read(t.count-n, int(n), nil, nil)
	return tail
}

// heldBy is how many events, from the first on, stand in tail one after the
// other: all of them, or those that tail ends with.
func heldBy(tail, events []RawEvent) int {
	for i := range tail {
		if tail[i] != events[0] {
			continue
		}
		n := min(len(events), len(tail)-i)
		if slices.Equal(tail[i:i+n], events[:n]) {
			return n
		}
	}
	return 0
}
