package perfetto

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/mpitrace/mpitrace/report/timeline"
	"github.com/mpitrace/mpitrace/segment"
)

// Options of New.
type Options struct {
	Version string // of the program that writes, for the metadata
}

// Writer writes one trace.
type Writer struct {
	*stream
	options Options
	job     *timeline.Job
	about   *sequence // job and metadata
	rank    *rank
	samples map[*timeline.Rank][]sample // of results without a trace
	lost    uint64                      // requests and samples beyond the lanes
}

// New makes a Writer; after End of the export nothing is to be closed.
func New(w io.Writer, o Options) *Writer {
	return &Writer{stream: newStream(w), options: o, samples: map[*timeline.Rank][]sample{}}
}

// Tracks of a rank, by the low bits of their uuids.
const (
	uuidShift    = 20
	uuidProcess  = 1
	uuidGaps     = 2
	uuidShare    = 3
	uuidSamples  = 4
	uuidThreads  = 1 << 10
	uuidRequests = 1 << 18
	aboutUUID    = 1
)

// requestLanes is how many nonblocking receives are shown side by side, and
// sampleLanes how many samples of operations that overlap.
const (
	requestLanes = 256
	sampleLanes  = 48
)

func uuid(r *timeline.Rank, track uint64) uint64 { return uint64(r.Index+1)<<uuidShift | track }

// Begin writes the clock and the tracks of all ranks, so that the viewer has
// them in the order of ranks.
func (w *Writer) Begin(job *timeline.Job) error {
	w.job, w.about = job, w.sequence()
	var root message
	root.uint(trackUUID, 0)
	root.uint(trackProcessOrdering, orderingExplicit)
	w.packet(w.about, 0, packetDescriptor, root)
	if job.StartRealtimeNS > 0 {
		w.packet(w.about, 0, packetClockSnapshot, snapshot(job.StartRealtimeNS))
	}
	var about message
	about.uint(trackUUID, aboutUUID)
	about.text(trackName, "mpitrace export")
	w.packet(w.about, 0, packetDescriptor, about)
	for _, r := range job.Ranks {
		w.packet(w.about, 0, packetDescriptor, w.process(r))
	}
	return w.err
}

// snapshot ties the wall clock to 0 of the timestamps.
func snapshot(realtimeNS int64) message {
	var m, zero, wall message
	zero.uint(clockID, clockBoottime)
	zero.uint(clockTimestamp, 0)
	wall.uint(clockID, clockRealtime)
	wall.uint(clockTimestamp, uint64(realtimeNS))
	m.message(snapshotClock, zero)
	m.message(snapshotClock, wall)
	return m
}

// process describes a rank. Its pid is the number of the rank plus one: real
// ones come twice on several nodes.
func (w *Writer) process(r *timeline.Rank) message {
	var p, m message
	p.uint(processPID, uint64(r.Index+1))
	p.int(processSortIndex, int64(r.Index))
	name := r.String()
	if len(w.job.Report.Job.Worlds) > 1 {
		name += " of " + r.World
	}
	p.text(processName, name)
	for _, label := range labels(r) {
		p.text(processLabels, label)
	}
	m.uint(trackUUID, uuid(r, uuidProcess))
	m.message(trackProcess, p)
	m.uint(trackOrderRank, uint64(r.Index))
	m.uint(trackChildOrdering, childrenExplicit)
	return m
}

func labels(r *timeline.Rank) []string {
	if r.Missing {
		return nil
	}
	out := []string{fmt.Sprintf("pid %d", r.PID), r.State}
	if !r.Aligned {
		out = append(out, "clock not comparable")
	}
	return out
}

// Message has nothing to write: flows are written with the calls.
func (w *Writer) Message(*timeline.Message) error { return nil }

// sample is a sampled collective operation of a rank.
type sample struct {
	enter, exit int64
	call        segment.Call
	place       *timeline.Place
	comm        *timeline.Comm
	sequence    uint32
	root        int32
	bytes       uint64
}

// Sample keeps what a result without a trace has to show.
func (w *Writer) Sample(s *timeline.Sample) error {
	if !w.job.Traced {
		w.samples[s.Rank] = append(w.samples[s.Rank], sample{s.EnterNS, s.ExitNS, s.Call, s.Place, s.Comm, s.Sequence, s.Root, s.Bytes})
	}
	return nil
}

// rank is the state of the rank under way.
type rank struct {
	*timeline.Rank
	tracks   map[int]*sequence
	requests []lane
	share    share
}

// lane is a track of requests that do not overlap.
type lane struct {
	*sequence
	busy int64 // until
}

// BeginRank starts a rank.
func (w *Writer) BeginRank(r *timeline.Rank) error {
	w.rank = &rank{Rank: r, tracks: map[int]*sequence{}, share: newShare(w.job.EndNS)}
	return w.err
}

// thread is the sequence of a track of calls, described the first time.
func (w *Writer) thread(c *timeline.Call) *sequence {
	q := w.rank.tracks[c.Track]
	if q != nil {
		return q
	}
	q = w.sequence()
	w.rank.tracks[c.Track] = q
	var t, m message
	pid := uint64(c.Rank.Index + 1)
	t.uint(threadPID, pid)
	tid, name := pid, "MPI calls"
	if c.Track > 0 {
		tid = uint64(c.Rank.Index+1)<<uuidShift | uint64(c.Track)
		name = fmt.Sprintf("MPI calls, thread %d", c.Thread)
	}
	t.uint(threadTID, tid)
	t.text(threadName, name)
	m.uint(trackUUID, uuid(c.Rank, uuidThreads+uint64(c.Track)))
	m.uint(trackParent, uuid(c.Rank, uuidProcess))
	m.message(trackThread, t)
	m.uint(trackOrderRank, uint64(c.Track))
	w.packet(q, 0, packetDescriptor, m)
	return q
}

// Enter begins the slice of a call.
func (w *Writer) Enter(c *timeline.Call) error {
	q := w.thread(c)
	e := event{typ: typeBegin, track: uuid(c.Rank, uuidThreads+uint64(c.Track)), name: c.Name, category: "mpi", place: c.Place}
	e.call(c)
	w.write(q, c.BeginNS, &e)
	w.rank.share.enter(c.Track, c.BeginNS)
	for i := range c.Posted {
		w.request(c, &c.Posted[i])
	}
	return w.err
}

// Leave ends it. One that was in progress is left open: the viewer shows that
// it did not end.
func (w *Writer) Leave(c *timeline.Call) error {
	w.rank.share.leave(c.Track, c.EndNS)
	if c.Open {
		return w.err
	}
	w.write(w.thread(c), c.EndNS, &event{typ: typeEnd, track: uuid(c.Rank, uuidThreads+uint64(c.Track))})
	return w.err
}

// request shows a nonblocking receive on the first lane that is free.
func (w *Writer) request(c *timeline.Call, r *timeline.Request) {
	i := slices.IndexFunc(w.rank.requests, func(l lane) bool { return l.busy <= r.PostNS })
	if i < 0 {
		if i = len(w.rank.requests); i == requestLanes {
			w.lost++
			return
		}
		w.rank.requests = append(w.rank.requests, lane{sequence: w.sequence()})
		w.describe(w.rank.requests[i].sequence, c.Rank, uuidRequests+uint64(i), "nonblocking receives", 1<<16)
	}
	l := &w.rank.requests[i]
	l.busy = max(r.DoneNS, r.PostNS)
	track := uuid(c.Rank, uuidRequests+uint64(i))
	e := event{typ: typeBegin, track: track, name: r.Call.String(), category: "request", place: r.Place}
	e.end(&r.End)
	e.int("completing_call_after_ns", r.CompleteNS-r.PostNS)
	w.write(l.sequence, r.PostNS, &e)
	w.write(l.sequence, l.busy, &event{typ: typeEnd, track: track})
}

// describe makes a track of a rank that is no thread.
func (w *Writer) describe(q *sequence, r *timeline.Rank, track uint64, name string, order uint64) {
	var m message
	m.uint(trackUUID, uuid(r, track))
	m.uint(trackParent, uuid(r, uuidProcess))
	m.text(trackName, name)
	m.uint(trackOrderRank, order)
	m.uint(trackMerge, mergeByName)
	w.packet(q, 0, packetDescriptor, m)
}

// EndRank writes gaps, samples and the counter of a rank.
func (w *Writer) EndRank(r *timeline.Rank) error {
	if len(r.Gaps) > 0 {
		w.gaps(r)
	}
	w.sampled(r)
	w.counter(r)
	delete(w.samples, r)
	w.rank = nil
	return w.err
}

// gaps shows each gap on a lane of its own: they may overlap.
func (w *Writer) gaps(r *timeline.Rank) {
	for i, g := range r.Gaps {
		q := w.sequence()
		track := uint64(uuidGaps + (i+1)<<4)
		w.describe(q, r, track, "gaps in the trace", 1<<15)
		w.write(q, g.FromNS, &event{typ: typeBegin, track: uuid(r, track), name: g.What, category: "gap"})
		w.write(q, g.ToNS, &event{typ: typeEnd, track: uuid(r, track)})
	}
}

// sampled shows the samples of a result without a trace.
func (w *Writer) sampled(r *timeline.Rank) {
	list := w.samples[r]
	if len(list) == 0 {
		return
	}
	slices.SortFunc(list, func(x, y sample) int { return cmp.Or(cmp.Compare(x.enter, y.enter), -cmp.Compare(x.exit, y.exit)) })
	var lanes []lane
	for _, s := range list {
		i := slices.IndexFunc(lanes, func(l lane) bool { return l.busy <= s.enter })
		track := uint64(uuidSamples + (max(i, 0)+1)<<4)
		if i < 0 && len(lanes) == sampleLanes {
			w.lost++
			continue
		}
		if i < 0 {
			i = len(lanes)
			track = uint64(uuidSamples + (i+1)<<4)
			lanes = append(lanes, lane{sequence: w.sequence()})
			w.describe(lanes[i].sequence, r, track, "arrival samples", 1)
		}
		lanes[i].busy = s.exit
		e := event{typ: typeBegin, track: uuid(r, track), name: s.call.String(), category: "arrival sample", place: s.place}
		e.comm(s.comm)
		e.int("sequence", int64(s.sequence))
		e.uint("bytes", s.bytes)
		if s.root >= 0 {
			e.int("root", int64(s.root))
		}
		w.write(lanes[i].sequence, s.enter, &e)
		w.write(lanes[i].sequence, s.exit, &event{typ: typeEnd, track: uuid(r, track)})
	}
}

// counter shows the share of the time in MPI.
func (w *Writer) counter(r *timeline.Rank) {
	if r.Calls == 0 {
		return
	}
	q := w.sequence()
	var c, m message
	c.text(counterUnitName, "%")
	m.uint(trackUUID, uuid(r, uuidShare))
	m.uint(trackParent, uuid(r, uuidProcess))
	m.text(trackName, "time in MPI")
	m.message(trackCounter, c)
	m.uint(trackOrderRank, 1<<17)
	w.packet(q, 0, packetDescriptor, m)
	w.rank.share.each(func(ns int64, percent float64) {
		w.write(q, ns, &event{typ: typeCounter, track: uuid(r, uuidShare), value: percent})
	})
}

// End writes what became of the trace, as one slice over the whole job.
func (w *Writer) End(s *timeline.Summary) error {
	m := &s.Messages
	e := event{typ: typeBegin, track: aboutUUID, name: "mpitrace " + w.options.Version + ": job " + w.job.Report.Job.ID, category: "about"}
	e.text("command", w.job.Report.Job.Command)
	e.text("MPI", w.job.Report.Job.MPI)
	e.uint("clock_error_ns", w.job.ClockBoundNS)
	if len(w.job.Apart) > 0 {
		e.text("placed_by_wall_clock", strings.Join(w.job.Apart, ", "))
	}
	e.uint("calls", s.Calls)
	e.uint("messages_matched", m.Matched)
	e.uint("message_ends_not_matched", s.Unmatched())
	e.uint("events_not_kept", s.Dropped)
	e.uint("events_damaged", s.Damaged)
	e.uint("requests_not_shown", w.lost)
	w.write(w.about, 0, &e)
	w.write(w.about, w.job.EndNS, &event{typ: typeEnd, track: aboutUUID})
	if w.err == nil {
		w.err = w.out.Flush()
	}
	return w.err
}
