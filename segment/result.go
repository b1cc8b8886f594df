package segment

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"unsafe"
)

// Result is what one job left behind, or what is known of it so far.
type Result struct {
	Dir      string      // as it was named: a directory or a file
	Segments []*Segment  // by world and rank; nil after WalkResult
	Job      []byte      // job.json, nil if there is none
	Symbols  []byte      // symbols.json, nil if there is none
	Ledgers  []NamedText // act-*.json, of the ranks of a job in act mode
	Problems []string    // what could not be read, as sentences
	Live     bool        // made from segments in shared memory, not from node files
}

// NamedText is a file of a result.
type NamedText struct {
	Name string
	Data []byte
}

// IsLedger tells whether a file is what a rank of act mode left.
func IsLedger(name string) bool {
	return strings.HasPrefix(name, "act-") && strings.HasSuffix(name, ".json")
}

// ReadResult reads a result directory, a packed result, a single node file or
// segment, or the job directory of a live or dead job in shared memory. Of a
// process that is met twice the copy with the larger last_ticks counts, and of
// equal ones, such as those of a killed process, the one written last. Files that
// cannot be read become Problems; the error tells that nothing could, and wraps
// ErrNoResult if there is nothing.
func ReadResult(path string) (*Result, error) {
	var segments []*Segment
	result, err := WalkResult(path, func(s *Segment) error {
		segments = append(segments, s)
		return nil
	})
	if err != nil {
		return nil, err
	}
	result.Segments = segments
	return result, nil
}

// WalkResult is ReadResult for large jobs: it hands the segments one by one,
// by world and rank, to visit, and keeps none. Files are read and checked on
// all cores, visit is called from one goroutine. An error of visit ends the
// walk and is returned. With kinds, only sections of these kinds are read of
// segments in shared memory, as by ReadFile.
func WalkResult(path string, visit func(*Segment) error, kinds ...uint32) (*Result, error) {
	w := &walker{result: &Result{Dir: path}, files: map[string]*os.File{}, kinds: kinds}
	defer w.close()
	if err := w.collect(path); err != nil {
		return nil, err
	}
	if len(w.spots) == 0 {
		if len(w.result.Problems) > 0 {
			return nil, fmt.Errorf("%s: nothing could be read: %s", path, strings.Join(w.result.Problems, "; "))
		}
		return nil, fmt.Errorf("%s: holds no node files (*%s) and no segments (*%s): %w", path, NodeFileSuffix, FileSuffix, ErrNoResult)
	}
	return w.result, w.walk(visit)
}

// walker finds the segments of a result and reads them.
type walker struct {
	result *Result
	files  map[string]*os.File // node files held open
	spots  []segmentSpot
	kinds  []uint32 // sections wanted of segment files, nil: all
}

// segmentSpot says where one copy of a segment lies and whose it is.
type segmentSpot struct {
	process   Process
	world     string
	rank      int32
	initTicks uint64 // of the copies of a process one number, unless it has changed its program (exec)
	lastTicks uint64
	writtenNS uint64 // when its node file was, 0 of a segment file
	path      string
	record    recordSpot // bytes < 0: path is a segment file
}

func (w *walker) close() {
	for _, f := range w.files {
		f.Close()
	}
}

func (w *walker) problem(err error) {
	w.result.Problems = append(w.result.Problems, strings.Split(err.Error(), "\n")...)
}

// collect finds all copies of segments in path.
func (w *walker) collect(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("result: %w", err)
	}
	if !info.IsDir() {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			err = w.addFile(path)
		}
		return err
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return fmt.Errorf("result: %w", err)
	}
	for _, entry := range entries {
		name := filepath.Join(path, entry.Name())
		switch {
		case strings.HasPrefix(entry.Name(), "."):
		case strings.HasSuffix(entry.Name(), NodeFileSuffix), strings.HasSuffix(entry.Name(), FileSuffix):
			if err := w.addFile(name); err != nil {
				w.problem(err)
			}
		case entry.Name() == "job.json", entry.Name() == "symbols.json", IsLedger(entry.Name()):
			data, err := readSmall(name)
			if err != nil {
				w.problem(err)
				continue
			}
			w.addJSON(entry.Name(), data)
		}
	}
	return nil
}

// jsonLimit bounds job.json and symbols.json.
const jsonLimit = 256 << 20

func readSmall(path string) ([]byte, error) {
	f, info, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info.Size > jsonLimit {
		return nil, fmt.Errorf("%s: %d bytes are too many", path, info.Size)
	}
	return io.ReadAll(io.LimitReader(f, jsonLimit))
}

func (w *walker) addJSON(name string, data []byte) {
	if !json.Valid(data) {
		w.problem(fmt.Errorf("%s is not valid JSON and is left out", name))
		return
	}
	switch {
	case name == "job.json":
		w.result.Job = data
	case name == "symbols.json":
		w.result.Symbols = data
	case IsLedger(name):
		w.result.Ledgers = append(w.result.Ledgers, NamedText{name, data})
	}
}

// addFile finds the segments in one node file or segment.
func (w *walker) addFile(path string) error {
	f, info, err := openRegular(path)
	if err != nil {
		return err
	}
	magic := make([]byte, len(magicSegment))
	if _, err := f.ReadAt(magic, 0); err == nil && string(magic) == magicSegment {
		defer f.Close()
		return w.addSegment(path, f)
	}
	if string(magic) == magicTrace {
		f.Close()
		return fmt.Errorf("%s: is a trace file: name the result directory that it lies in", path)
	}
	w.files[path] = f
	file, spots, problem := indexNodeFile(path, f, info.Size)
	for _, spot := range spots {
		if err := w.addRecord(path, f, file.WrittenRealtimeNS, spot); err != nil {
			problem = errors.Join(problem, err)
		}
	}
	if problem != nil && len(spots) > 0 {
		w.problem(problem)
		return nil
	}
	return problem
}

func (w *walker) addSegment(path string, f io.ReaderAt) error {
	header, err := headerOf(path, f)
	if err != nil {
		return err
	}
	w.result.Live = true
	w.add(&header, 0, path, recordSpot{bytes: -1})
	return nil
}

func (w *walker) addRecord(path string, f io.ReaderAt, writtenNS uint64, spot recordSpot) error {
	switch spot.kind {
	case RecordSegment:
		page := make([]byte, min(spot.bytes, int64(unsafe.Sizeof(RawHeader{}))))
		if _, err := f.ReadAt(page, spot.offset); err != nil {
			return fmt.Errorf("node file %s: %w", path, err)
		}
		header, err := parseHeader(fmt.Sprintf("%s (record at byte %d)", path, spot.offset), page)
		if err != nil {
			return err
		}
		w.add(&header, writtenNS, path, spot)
	case RecordJSON:
		data, err := spot.read(path, f)
		if err != nil {
			return err
		}
		var named struct {
			Name    string          `json:"name"`
			Content json.RawMessage `json:"content"`
		}
		if err := json.Unmarshal(data, &named); err != nil {
			return fmt.Errorf("node file %s: record at byte %d is not valid JSON: %w", path, spot.offset, err)
		}
		w.addJSON(named.Name, named.Content)
	}
	return nil // records of kinds yet unknown are for newer readers
}

func (w *walker) add(h *RawHeader, writtenNS uint64, path string, record recordSpot) {
	w.spots = append(w.spots, segmentSpot{h.Process(), h.WorldID(), h.WorldRank, h.InitEnterTicks, h.LastTicks, writtenNS, path, record})
}

// byProcess puts the copies of one process side by side, the best first.
func byProcess(a, b segmentSpot) int {
	return cmp.Or(
		strings.Compare(a.process.Node, b.process.Node), strings.Compare(a.process.BootID, b.process.BootID),
		cmp.Compare(a.process.PID, b.process.PID), cmp.Compare(a.process.PIDStart, b.process.PIDStart),
		-cmp.Compare(a.lastTicks, b.lastTicks), -cmp.Compare(a.writtenNS, b.writtenNS),
		strings.Compare(a.path, b.path), cmp.Compare(a.record.offset, b.record.offset))
}

// best reads the best copy of one process that is sound; the problems say
// what is wrong with better ones.
func (w *walker) best(copies []segmentSpot) (s *Segment, problems []error) {
	for _, c := range copies {
		s, err := w.read(c)
		if err == nil {
			return s, problems
		}
		problems = append(problems, err)
	}
	return nil, problems
}

func (w *walker) read(spot segmentSpot) (*Segment, error) {
	if spot.record.bytes < 0 {
		return ReadFile(spot.path, w.kinds...)
	}
	data, err := spot.record.read(spot.path, w.files[spot.path])
	if err != nil {
		return nil, err
	}
	return Parse(fmt.Sprintf("%s (rank %d)", spot.path, spot.rank), data)
}

// walk reads the segments on all cores and visits them in order.
func (w *walker) walk(visit func(*Segment) error) error {
	type outcome struct {
		segment  *Segment
		problems []error
	}
	groups := w.groups()
	stop := make(chan struct{})
	defer close(stop)
	// Each pending read has its own channel; the order of these is the order
	// of the visits, their number bounds what is held in memory.
	pending := make(chan chan outcome, 2*runtime.GOMAXPROCS(0))
	go func() {
		defer close(pending)
		for _, copies := range groups {
			done := make(chan outcome, 1)
			select {
			case pending <- done:
			case <-stop:
				return
			}
			go func() {
				s, problems := w.best(copies)
				done <- outcome{s, problems}
			}()
		}
	}()
	read := 0
	for done := range pending {
		out := <-done
		for _, err := range out.problems {
			w.problem(err)
		}
		if out.segment == nil {
			continue
		}
		read++
		w.result.Problems = append(w.result.Problems, out.segment.Warnings...)
		if err := visit(out.segment); err != nil {
			return err
		}
	}
	if read == 0 {
		return fmt.Errorf("%s: nothing could be read: %s", w.result.Dir, strings.Join(w.result.Problems, "; "))
	}
	return nil
}

// groups is the copies of each process, in the order of visits: by world and
// rank.
func (w *walker) groups() [][]segmentSpot {
	slices.SortFunc(w.spots, byProcess)
	var groups [][]segmentSpot
	for i := 0; i < len(w.spots); {
		j := i + 1
		for j < len(w.spots) && w.spots[j].process == w.spots[i].process {
			j++
		}
		copies := w.spots[i:j]
		groups = append(groups, copies)
		if slices.ContainsFunc(copies, func(c segmentSpot) bool { return c.initTicks != copies[0].initTicks }) {
			w.problem(fmt.Errorf("process %d of node %s called MPI before and after it ran another program (exec): what it did last is reported",
				copies[0].process.PID, copies[0].process.Node))
		}
		i = j
	}
	slices.SortStableFunc(groups, func(a, b []segmentSpot) int {
		return cmp.Or(strings.Compare(a[0].world, b[0].world), cmp.Compare(a[0].rank, b[0].rank))
	})
	return groups
}
