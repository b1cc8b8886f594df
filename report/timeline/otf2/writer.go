package otf2

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mpitrace/mpitrace/report/timeline"
)

// ErrNoTrace tells that a result has no trace.
var ErrNoTrace = errors.New("there is no trace in this result, and OTF2 has no way to say that calls are missing: run with --trace, " +
	"or export what was sampled with --format perfetto, csv or parquet")

// Writer writes one archive.
type Writer struct {
	*stream
	*definitions
	dir, name, program string
	process            *process
	job                *timeline.Job
	locations          []locationOf
	calls              map[int]uint64 // location by track of the rank under way
	last               uint64         // moment written

	// Unwritten is ends of messages that no event was written for: their other
	// end is not known, or was not matched.
	Unwritten uint64
}

// locationOf is a location by number.
type locationOf struct {
	rank *timeline.Rank
	name string
}

// New makes a Writer of the archive NAME.otf2 in a directory that exists.
// program is mpitrace-otf2, see Find. The archive is whole when the export has
// ended without an error; Close must be called either way.
func New(dir, name, program string) *Writer {
	return &Writer{dir: dir, name: name, program: program, definitions: newDefinitions()}
}

// Close ends mpitrace-otf2 if the export did not come to its end.
func (w *Writer) Close() {
	if w.process != nil {
		// Without END it fails, which is what is wanted.
		_ = w.process.wait(nil)
		w.process = nil
	}
}

// Begin starts the program. The first locations are those of the ranks.
func (w *Writer) Begin(job *timeline.Job) error {
	if !job.Traced {
		return ErrNoTrace
	}
	w.job = job
	var err error
	if w.process, err = start(w.program, w.dir, w.name); err != nil {
		return err
	}
	w.stream = newStream(w.process.in)
	for _, r := range job.Ranks {
		w.locations = append(w.locations, locationOf{r, "MPI calls"})
	}
	w.definitions.comms(job)
	return w.failed(w.err)
}

// failed adds what the program said to an error of writing to it.
func (w *Writer) failed(err error) error {
	if err == nil || w.process == nil {
		return err
	}
	p := w.process
	w.process = nil
	return p.wait(err)
}

// Message has nothing to write: its ends are written with the calls.
func (w *Writer) Message(*timeline.Message) error { return nil }

// Sample has nothing to write: the trace has all operations.
func (w *Writer) Sample(*timeline.Sample) error { return nil }

// BeginRank starts a rank.
func (w *Writer) BeginRank(r *timeline.Rank) error {
	w.calls = map[int]uint64{0: uint64(r.Index)}
	return nil
}

// location is where the calls of a track go.
func (w *Writer) location(c *timeline.Call) uint64 {
	l, ok := w.calls[c.Track]
	if !ok {
		l = uint64(len(w.locations))
		w.locations = append(w.locations, locationOf{c.Rank, fmt.Sprintf("MPI calls, thread %d", c.Thread)})
		w.calls[c.Track] = l
	}
	return l
}

func (w *Writer) at(ns int64) uint64 {
	w.last = max(w.last, uint64(ns))
	return uint64(ns)
}

// Enter writes the begin of a call, what it sends and what it posts.
func (w *Writer) Enter(c *timeline.Call) error {
	l, ns := w.location(c), w.at(c.BeginNS)
	w.record(recEnter, l, ns, w.region(c))
	if _, ok := collective(c); ok {
		w.record(recCollectiveBegin, l, ns)
	}
	for i := range c.Posted {
		if m := &c.Posted[i].End; w.address(c, m) != nil {
			w.record(recReceiveRequest, l, ns, request(m))
		}
	}
	for i := range c.Ends {
		m := &c.Ends[i]
		if m.Receive {
			continue
		}
		if to := w.address(c, m); to == nil {
			w.Unwritten++
		} else if m.Nonblocking {
			w.record(recIsend, l, ns, to.comm, to.rank, uint32(m.Tag), m.Bytes, request(m))
		} else {
			w.record(recSend, l, ns, to.comm, to.rank, uint32(m.Tag), m.Bytes)
		}
	}
	return w.failed(w.err)
}

// Leave writes what a call received, and its end.
func (w *Writer) Leave(c *timeline.Call) error {
	l, ns := w.location(c), w.at(c.EndNS)
	for i := range c.Ends {
		m := &c.Ends[i]
		if !m.Receive {
			continue
		}
		if from := w.address(c, m); from == nil {
			w.Unwritten++
		} else if m.Nonblocking {
			w.record(recIreceive, l, ns, from.comm, from.rank, uint32(m.Tag), m.Bytes, request(m))
		} else {
			w.record(recReceive, l, ns, from.comm, from.rank, uint32(m.Tag), m.Bytes)
		}
	}
	if op, ok := collective(c); ok {
		on := w.communicator(c.Comm)
		root := uint32(none)
		if rank, ok := on.rankOf(w.worldRank(c.Rank, c.Root)); ok && c.Root >= 0 {
			root = rank
		}
		w.record(recCollectiveEnd, l, ns, on.number, root, op, c.Bytes, uint64(0))
	}
	w.record(recLeave, l, ns, w.region(c))
	return w.failed(w.err)
}

// request is the number of a request, which no other of the rank has.
func request(m *timeline.End) uint64 {
	if m.Receive {
		return uint64(m.Serial)<<1 | 1
	}
	return uint64(m.Serial) << 1
}

// address is a rank in a communicator.
type address struct{ comm, rank uint32 }

// address is the other end of a message, nil if it was not matched.
func (w *Writer) address(c *timeline.Call, m *timeline.End) *address {
	if m.Flow == 0 || m.Comm == nil {
		return nil
	}
	on := w.communicator(m.Comm)
	rank, ok := on.rankOf(w.worldRank(c.Rank, m.Peer))
	if !ok {
		return nil
	}
	return &address{on.number, rank}
}

// EndRank writes the gaps of a rank as regions of a location of their own, and
// closes its locations.
func (w *Writer) EndRank(r *timeline.Rank) error {
	for _, l := range slices.Sorted(maps.Values(w.calls)) {
		w.record(recClose, l)
	}
	if len(r.Gaps) > 0 {
		l := uint64(len(w.locations))
		w.locations = append(w.locations, locationOf{r, "gaps in the trace"})
		at := int64(0)
		slices.SortStableFunc(r.Gaps, func(x, y timeline.Gap) int { return cmp.Compare(x.FromNS, y.FromNS) })
		for _, g := range r.Gaps {
			from := max(at, g.FromNS)
			at = max(from, g.ToNS)
			w.record(recEnter, l, w.at(from), w.own(g.What))
			w.record(recLeave, l, w.at(at), w.own(g.What))
		}
		w.record(recClose, l)
	}
	return w.failed(w.err)
}

// End writes the definitions and waits for the program.
func (w *Writer) End(s *timeline.Summary) error {
	w.define(w)
	if err := w.stream.end(); err != nil {
		return w.failed(err)
	}
	p := w.process
	w.process = nil
	if err := p.wait(nil); err != nil {
		return err
	}
	if got, want := strings.TrimSpace(p.stdout.String()), fmt.Sprintf("%d events", w.events); got != want {
		return fmt.Errorf("%s wrote %q, not %q", Program, got, want)
	}
	return nil
}
