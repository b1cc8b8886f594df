package report

import (
	"fmt"
	"strings"

	"github.com/mpitrace/mpitrace/segment"
)

// notes gathers what must be said of the figures: per kind of remark the ranks
// it holds for and a sum.
type notes struct {
	kinds [noteKinds]struct {
		ranks []*Rank
		sum   uint64
	}
	faults  []string // texts of internal errors, by rank
	partial [2]uint32
}

type noteKind int

const (
	noteStopped noteKind = iota
	notePartial
	notePrivate
	noteSessions
	noteMeasuringOff
	noteSites
	noteComms
	noteTypes
	notePeers
	noteRequests
	noteEstimated
	noteClock
	noteGuards
	noteTorn
	noteBefore
	noteSlowClock
	noteKinds
)

// noteTexts says what each kind means; %s is the ranks, %d the sum.
var noteTexts = [noteKinds]string{
	noteStopped:      "%s: measuring stopped after an internal error of mpitrace, the figures end there",
	notePartial:      "%s: the segment had no room for what some threads did, their calls are missing: raise MPITRACE_SEGMENT_BYTES_MAX",
	notePrivate:      "%s: no shared memory was to be had, nothing would have survived a kill",
	noteSessions:     "%s: uses MPI sessions without MPI_Init",
	noteMeasuringOff: "%s: MPI_Pcontrol(0) was in force at the end, what followed is not counted",
	noteSites:        "%s: %d calls came from more places than the table holds; they are in the rows '(other places)'",
	noteComms:        "%s: %d communicators found no place in the table; they are in the row '(others)'",
	noteTypes:        "%s: %d datatypes found no place in the table; they are in the row '(others)'",
	notePeers:        "%s: %d peers found no place in the table; they are in the row 'others'",
	noteRequests:     "%s: %d requests were not followed because the table was full",
	noteEstimated:    "%s: %d receives are counted with the posted size, not with what arrived",
	noteClock:        "%s: %d calls are counted but not timed, because the clock ran backward or jumped",
	noteGuards:       "%s: %d times the program left an MPI call by longjmp or an exception",
	noteTorn:         "%s: a call in progress changed while it was read and is not shown in full",
	noteBefore:       "%s: MPI_Init had not returned",
	noteSlowClock:    "%s: no fast clock, times come from clock_gettime",
}

func (n *notes) add(kind noteKind, r *Rank, count uint64) {
	if count > 0 {
		n.kinds[kind].ranks = append(n.kinds[kind].ranks, r)
		n.kinds[kind].sum += count
	}
}

// one is 1 for true.
func one(is bool) uint64 {
	if is {
		return 1
	}
	return 0
}

// note looks at one segment for what must be said.
func (b *builder) note(l *local) {
	h, r, n := &l.s.Header, l.rank, &b.notes
	flag := func(mask uint32) uint64 { return one(h.Flags&mask != 0) }
	n.add(noteStopped, r, flag(segment.HeaderFlagKilled))
	n.add(notePartial, r, flag(segment.HeaderFlagPartial))
	n.add(notePrivate, r, flag(segment.HeaderFlagPrivate))
	n.add(noteSessions, r, flag(segment.HeaderFlagSessions))
	n.add(noteMeasuringOff, r, one(h.Measuring == 0 && h.State != segment.StateStarting))
	n.add(noteBefore, r, one(h.InitExitTicks == 0 && h.Flags&segment.HeaderFlagSessions == 0))
	n.add(noteSlowClock, r, one(h.ClockSource == segment.ClockSourceVDSO))
	n.add(noteComms, r, l.s.Dropped(segment.SectionKindComms))
	n.add(noteTypes, r, l.s.Dropped(segment.SectionKindTypes))
	n.add(notePeers, r, l.s.Dropped(segment.SectionKindPeers))
	var sites, estimated, clock, torn uint64
	for i := range l.threads {
		t := &l.threads[i]
		sites += t.SitesDropped
		estimated += t.ReceivesEstimated
		clock += t.ClockDropped
		torn += one(t.Torn)
	}
	n.add(noteSites, r, sites)
	n.add(noteRequests, r, r.Requests.Dropped)
	n.add(noteEstimated, r, max(estimated, flag(segment.HeaderFlagEstimated)))
	n.add(noteClock, r, clock)
	n.add(noteGuards, r, r.GuardRepairs)
	n.add(noteTorn, r, torn)
	if fault := segment.Text(h.Fault[:]); fault != "" && len(n.faults) < 4 {
		n.faults = append(n.faults, fmt.Sprintf("rank %d: %s", r.Rank, fault))
	}
	if h.FunctionsIntercepted < h.FunctionsAvailable && n.partial == [2]uint32{} {
		n.partial = [2]uint32{h.FunctionsIntercepted, h.FunctionsAvailable}
	}
}

// names lists ranks, by world if there are several.
func (b *builder) names(ranks []*Rank) string {
	byWorld := make([][]int, len(b.report.Job.Worlds))
	for _, r := range ranks {
		byWorld[r.world] = append(byWorld[r.world], r.Rank)
	}
	var parts []string
	for world, list := range byWorld {
		if len(list) == 0 {
			continue
		}
		text := ranksText(list)
		if len(list) == len(b.report.Ranks) && len(list) > 1 {
			text = fmt.Sprintf("all %d ranks", len(list))
		}
		if len(byWorld) > 1 {
			text += " of " + b.report.worldName(world)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}

// worldName numbers the worlds of a job from 1; their ids are long.
func (r *Report) worldName(world int) string { return fmt.Sprintf("world %d", world+1) }

// noteFindings turns the notes into sentences.
func (b *builder) noteFindings() []string {
	var out []string
	for kind, n := range b.notes.kinds {
		if len(n.ranks) == 0 {
			continue
		}
		args := []any{b.names(n.ranks)}
		if strings.Contains(noteTexts[kind], "%d") {
			args = append(args, n.sum)
		}
		out = append(out, fmt.Sprintf(noteTexts[kind], args...))
	}
	out = append(out, b.notes.faults...)
	if p := b.notes.partial; p[1] > 0 {
		out = append(out, fmt.Sprintf("%d of the %d functions of this MPI library are intercepted; calls of the others are not counted", p[0], p[1]))
	}
	return out
}
