package report

import (
	"fmt"
	"os"
	"slices"

	"github.com/mpitrace/mpitrace/arrival"
	"github.com/mpitrace/mpitrace/reusetrack"
	"github.com/mpitrace/mpitrace/segment"
)

// measured is what a builder gathers for the sections on arrivals, buffers and
// requests.
type measured struct {
	arrivals  *arrival.Analysis
	reuse     *reusetrack.Summary
	spans     map[processSpans][]moduleSpan
	byPlace   map[placeKey][]*Site
	places    map[placeKey]*Site
	overlaps  map[placeKey]*Overlap
	headless  map[segment.Process]bool // whose first events are in a trace file that was not found
	tornRanks int                      // ranks whose samples could not be read whole
	found     *arrival.Result          // kept for a timeline only: holds all samples
}

func newMeasured(o *Options, transfer func(bytes uint64) float64) *measured {
	return &measured{
		arrivals: arrival.New(arrival.Options{TransferNS: transfer}),
		reuse:    reusetrack.NewSummary(reusetrack.Options{EagerLimit: o.EagerLimit, Costs: o.Costs}),
		spans:    map[processSpans][]moduleSpan{}, places: map[placeKey]*Site{}, overlaps: map[placeKey]*Overlap{},
		headless: map[segment.Process]bool{},
	}
}

// addMeasured takes over samples of arrivals, events and buffers.
func (b *builder) addMeasured(l *local) {
	b.arrivals.Add(l.s.BeyondTrace(b.path))
	b.measured.reuse.Add(reusetrack.FromSegment(l.s))
	b.keepSpans(l)
	if m := l.rank.Messages; headless(l.s.Events(), m.SentMessages+m.ReceivedMessages > 0) {
		b.headless[l.s.Header.Process()] = true
	}
}

// headless tells that the events of a rank lack its first messages; sent tells
// whether it had any. Calls are events too, and have no serial.
func headless(events []segment.RawEvent, sent bool) bool {
	if len(events) == 0 {
		return false
	}
	isMessage := func(e segment.RawEvent) bool { return e.Kind != segment.EventKindCall }
	if !slices.ContainsFunc(events, isMessage) {
		return sent
	}
	return !slices.ContainsFunc(events, func(e segment.RawEvent) bool { return isMessage(e) && e.Serial <= 1 })
}

// traceLimit is the size of all trace files together above which messages are
// not matched: that keeps them all in memory.
const traceLimit = 1 << 30

// addTrace reads the trace files of the result.
func (b *builder) addTrace() {
	if bytes := traceBytes(b.path); bytes > traceLimit && !b.options.placesOnly {
		b.problem(fmt.Sprintf("the traces have %s, more than the %s that are matched at once: trace a shorter run to see who waited for whom",
			bytesText(uint64(bytes)), bytesText(traceLimit)))
		return
	}
	var s segment.Segment // stands for the process that wrote a file
	seen := newPlaces{}
	problems, err := segment.WalkTrace(b.path, func(head segment.RawTraceFile, events []segment.RawEvent) error {
		delete(b.headless, head.Process())
		s.Header.PID, s.Header.PIDStart, s.Header.BootID, s.Header.Node = head.PID, head.PIDStart, head.BootID, head.Node
		if b.options.placesOnly {
			events = seen.of(head.Process(), events)
		}
		b.arrivals.AddEvents(&s, events)
		return nil
	})
	for _, problem := range problems {
		b.problem(problem)
	}
	if err != nil {
		b.problem(err.Error())
	}
	if n := len(b.headless); n > 0 {
		b.problem(fmt.Sprintf("the trace files of %s are not here: nothing is said of messages (a packed result has no traces)", plural(n, "rank")))
	}
}

// traceBytes is the size of all trace files of a result.
func traceBytes(path string) (bytes int64) {
	files, err := segment.TraceFiles(path)
	if err != nil {
		return 0 // WalkTrace says so
	}
	for _, file := range files {
		if info, err := os.Stat(file); err == nil {
			bytes += info.Size()
		}
	}
	return bytes
}

// newPlaces finds the first event of each place of a process.
type newPlaces map[eventPlace]bool

type eventPlace struct {
	process segment.Process
	address uint64
	call    uint16
}

// of is the events at places that were not seen before.
func (n newPlaces) of(process segment.Process, events []segment.RawEvent) []segment.RawEvent {
	return slices.DeleteFunc(events, func(e segment.RawEvent) bool {
		key := eventPlace{process, e.Address, e.Call}
		known := n[key] || e.Kind == segment.EventKindCall
		if !known {
			n[key] = true
		}
		return known
	})
}

func (b *builder) problem(text string) { b.report.Problems = append(b.report.Problems, text) }

// hasCosts tells whether what depends on the costs of the machine is there.
func (r *Report) hasCosts() bool {
	return slices.ContainsFunc(r.Reuse, func(u *Reuse) bool { return u.Table2 != nil })
}

// finishMeasured makes the rows of the sections.
func (b *builder) finishMeasured() {
	b.indexPlaces()
	b.finishArrivals()
	b.finishReuse()
	b.finishOverlap()
}
