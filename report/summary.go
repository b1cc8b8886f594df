package report

import "time"

// Summary is what the text report says besides its tables, for writers of other
// forms. A text that does not apply is empty.
type Summary struct {
	Command string
	Facts   []string // ranks and nodes, MPI, start, wall time, state
	Share   string   // how much of the time MPI takes
	Verdict string   // what that means
	Setup   string   // what MPI_Init and MPI_Finalize took
	Own     string   // what mpitrace itself cost
	Clocks  []string // how the clocks compare
	Trace   []string // what the trace tells of messages
	Reuse   []string // what must be said of the use of buffers

	Problems []string // what could not be read; of very many the first

	Unfinished string   // how a job that did not finish ended, or hangs
	Stuck      *Sheet   // the calls in progress; nil if there are none
	Missing    []string // who is waited for
}

// Summary puts the head of the report into words; moments are in the time zone
// given, nil being the local one.
func (r *Report) Summary(zone *time.Location) *Summary {
	t := &writer{r: r, v: &View{Location: zone}}
	s := &Summary{Command: t.command(), Facts: t.facts(), Share: t.shareHead(), Setup: t.setup(), Own: t.ownText(), Clocks: r.clockLines()}
	if r.hasVerdict() {
		s.Verdict = r.verdict()
	}
	if r.Trace != nil {
		s.Trace = r.Trace.lines()
	}
	if len(r.Reuse) > 0 {
		s.Reuse = append(r.reuseLines(), publishedReuse())
	}
	const shown = 50
	for _, text := range r.Problems[:min(len(r.Problems), shown)] {
		s.Problems = append(s.Problems, clean(text))
	}
	if rest := len(r.Problems) - shown; rest > 0 {
		s.Problems = append(s.Problems, "… and "+plural(rest, "more problem")+" (--json lists all)")
	}
	if r.Job.State != StateFinished {
		t.summarizeStuck(s)
	}
	return s
}

// summarizeStuck says who waits where, for how long, and for whom.
func (t *writer) summarizeStuck(s *Summary) {
	const shown = 32
	s.Unfinished = t.stuckHead()
	if groups := t.r.Stuck; len(groups) > 0 {
		s.Stuck = t.stuckTable(min(len(groups), shown)).sheet(0)
		s.Stuck.Title, s.Stuck.All = "Calls in progress", len(groups)
		for i := range groups[:min(len(groups), shown)] {
			s.Missing = append(s.Missing, t.missing(&groups[i])...)
		}
	}
}
