package report

import (
	"fmt"
	"slices"
)

// Rows of the sections in the overview.
const (
	arrivalRows = 4
	overlapRows = 4
)

// sections writes the short forms of what was measured beyond calls and times.
func (t *writer) sections() {
	t.arrivalSection()
	t.reuseSection()
	t.overlapSection()
	t.actSection()
}

// more says how to see the whole of a section.
func more(by string) string { return "--by " + by + " says more" }

func (t *writer) arrivalSection() {
	list := t.r.Arrivals
	if len(list) == 0 {
		t.unalignedOnly()
		return
	}
	t.blank()
	table := t.r.arrivalTable(list[:min(len(list), t.v.top(arrivalRows))])
	t.headed("Arrival at collectives", table, len(list), arrivalNote(list)+more("arrival"))
	t.clocks()
}

// arrivalNote explains the columns.
func arrivalNote(list []*Arrival) string {
	note := "spread: last less first; waiting: for the last; operation: the rest; "
	if slices.ContainsFunc(list, (*Arrival).balanced) {
		note += "balanced: within the clock error; "
	}
	return note
}

// unalignedOnly says why there are no arrivals although there were samples.
func (t *writer) unalignedOnly() {
	if n := t.r.unaligned; n > 0 {
		t.blank()
		t.line(t.v.bold("Arrival at collectives") + fmt.Sprintf(": %s operations were sampled on clocks that cannot be compared", countText(uint64(n))))
		t.clocks()
	}
}

func (t *writer) reuseSection() {
	if len(t.r.Reuse) == 0 {
		return
	}
	t.blank()
	table := t.r.reuseTable()
	t.headed("Use of message buffers again", table, len(table.rows), "distance: accesses since the last use of the same buffer, median; "+more("reuse"))
}

func (t *writer) overlapSection() {
	list := started(t.r.Overlap)
	if len(list) == 0 {
		t.traceLine()
		return
	}
	t.blank()
	table := t.r.overlapTable(list[:min(len(list), t.v.top(overlapRows))])
	t.headed("Requests", table, len(list), "blocked: in completing calls, shared by the requests they complete; "+more("overlap"))
	t.traceLine()
}

// traceLine is what the trace tells in one line.
func (t *writer) traceLine() {
	c := t.r.Trace
	if c == nil {
		return
	}
	text := fmt.Sprintf("%s of waiting for late senders and %s for late receivers, from %s matched messages",
		duration(c.LateSenderNS), duration(c.LateReceiverNS), countText(c.Matched))
	if c.Dropped > 0 {
		text += "; " + c.droppedText()
	}
	t.wrap("  trace: ", text)
}

// headed writes a table under a title, with a note.
func (t *writer) headed(title string, table *table, all int, note string) {
	if all > len(table.rows) {
		title += fmt.Sprintf(" (%d of %d)", len(table.rows), all)
	}
	t.line(t.v.bold(title))
	for _, line := range table.lines(t.v) {
		t.line(line)
	}
	t.note(note)
}

// note writes a remark below a table.
func (t *writer) note(text string) {
	if t.v.Color {
		t.line(t.v.faint("  " + text))
		return
	}
	t.wrap("  ", text)
}

// reuse writes all that is known of buffers.
func (t *writer) reuse() error {
	if err := t.plain(); err != nil || len(t.r.Reuse) == 0 {
		return err
	}
	t.note("distance: accesses to other buffers since the last use of the same one, median")
	t.blank()
	for _, line := range t.r.reuseLines() {
		t.wrap("* ", line)
	}
	if !t.r.hasCosts() {
		t.wrap("* ", "how many buffers are frequently used depends on what copying and registering cost: give --costs FILE, or see mpitrace advise")
	}
	t.wrap("* ", publishedReuse())
	t.blank()
	t.line(t.v.bold("By payload"))
	classes := t.r.reuseClasses()
	t.table(classes, len(classes.rows))
	return nil
}

// overlap writes all that is known of requests, and of messages from a trace.
func (t *writer) overlap() error {
	if err := t.plain(); err != nil {
		return err
	}
	if len(started(t.r.Overlap)) > 0 {
		t.note("blocked: inside completing calls, each shared evenly by the requests that it completed; overlapped: before these calls were entered")
	}
	if t.r.Trace == nil {
		t.note(noTrace)
		return nil
	}
	t.blank()
	t.line(t.v.bold("Messages, from the trace"))
	waits := t.r.waitTable()
	all := len(waits.rows)
	waits.rows = waits.rows[:min(all, t.v.top(standardRows))]
	t.table(waits, all)
	for _, line := range t.r.Trace.lines() {
		t.wrap("* ", line)
	}
	return nil
}

func (c *Trace) droppedText() string {
	return fmt.Sprintf("%s events were not kept: the trace was full", countText(c.Dropped))
}

// lines says how much of the trace could be used.
func (c *Trace) lines() []string {
	out := []string{fmt.Sprintf("%s of waiting for late senders, %s for late receivers, %s within the error of the clocks",
		duration(c.LateSenderNS), duration(c.LateReceiverNS), duration(c.UnclaimedNS)),
		fmt.Sprintf("%s messages were matched of %s sends and %s receives", countText(c.Matched), countText(c.Sends), countText(c.Receives))}
	if c.Unmatched > 0 {
		out = append(out, fmt.Sprintf("the other end of %s is missing or in doubt", countText(c.Unmatched)))
	}
	if c.Unaligned > 0 {
		out = append(out, fmt.Sprintf("%s went between clocks that cannot be compared", countText(c.Unaligned)))
	}
	if c.Dropped > 0 {
		out = append(out, c.droppedText())
	}
	return out
}
