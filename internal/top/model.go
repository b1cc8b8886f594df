package top

import (
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/mpitrace/mpitrace/report"
)

// Options of NewModel.
type Options struct {
	Job      string // path of the job to watch; empty: the only one that runs, or a list to choose from
	Sort     string // one of Columns; empty: rank
	Filter   string
	Interval time.Duration // between refreshes, as shown
	Color    bool
	ASCII    bool           // no characters beyond ASCII
	Location *time.Location // of times shown; nil: local
}

// screen is what the Model shows.
type screen int

const (
	screenJobs screen = iota
	screenRanks
	screenRank // one of them
	screenLate
	screenHelp
)

// Model is the state of the view. Its methods return the next state and change
// nothing.
type Model struct {
	options Options
	width   int
	height  int

	screen screen
	before screen // the screen that help returns to
	auto   bool   // open the only job that runs
	paused bool
	done   bool // the user wants to quit

	jobs     []Found
	listed   bool
	problems []string // of the last reading

	job       string // path of the job watched
	prev, cur *Snapshot
	rates     []Rate
	states    []string
	ended     string // how the job ended, empty while it runs
	gone      bool   // it has left shared memory
	result    string // where its result lies, if that is known
	late      *Lateness
	prevOne   *Detail
	one       *Detail
	oneID     RankID

	sort    int // index into columns
	reverse bool
	filter  string
	editing bool // the filter is being typed
	ranges  report.Ranges

	rows     []int // ranks shown: indices into cur.Ranks
	selected int   // index into rows or jobs
	scroll   int   // first row or line shown
}

// Want is what the next refresh should read.
type Want struct {
	Job    string // path of the job; empty: none
	Totals bool   // its Snapshot
	Rank   RankID // a rank to read in full; the zero value: none
	Late   bool   // the user looks at who is late
	Jobs   bool   // the list of jobs
}

// Reading is what was read at one refresh. What was not read is nil.
type Reading struct {
	Want
	Snapshot *Snapshot
	Detail   *Detail
	Lateness *Lateness
	Jobs     []Found
	Problems []string
	Took     time.Duration // without what is read only now and then
	Gone     bool          // the job has left shared memory
	Result   string        // ... and this is where its result lies, of which Snapshot is made
}

// NewModel makes a Model that has read nothing yet.
func NewModel(o Options) Model {
	m := Model{options: o, width: 80, height: 24, auto: o.Job == "", filter: o.Filter}
	if o.Job != "" {
		m = m.open(o.Job)
	}
	m.sort = max(0, slices.Index(Columns(), o.Sort))
	m.filter = o.Filter
	m.ranges = rangesOf(m.filter)
	return m
}

// open watches a job.
func (m Model) open(path string) Model {
	fresh := Model{
		options: m.options, width: m.width, height: m.height, jobs: m.jobs, listed: m.listed, sort: m.sort, reverse: m.reverse,
		screen: screenRanks, job: path,
	}
	return fresh
}

// Want says what the next refresh should read.
func (m Model) Want() Want {
	w := Want{Job: m.job, Jobs: m.screen == screenJobs}
	if m.screen == screenRank && (m.one == nil || !m.still()) {
		w.Rank = m.oneID
	}
	w.Totals, w.Late = !m.still(), m.screen == screenLate && (m.late == nil || !m.still())
	return w
}

// still tells that the figures do not change any more, or should not.
func (m *Model) still() bool { return m.paused && m.cur != nil || m.result != "" }

// Done tells that the user wants to quit.
func (m Model) Done() bool { return m.done }

// Ended is how the job ended and what to do next, empty while it runs.
func (m Model) Ended() string {
	if next := m.next(); next != "" {
		return m.ended + "; see: " + next
	}
	return m.ended
}

// next is the command that shows all of a job that has ended, if it is known.
func (m *Model) next() string {
	switch {
	case m.ended == "" || m.gone && m.result == "":
		return ""
	case m.gone:
		return "mpitrace report " + m.result
	}
	return "mpitrace report " + filepath.Base(m.job)
}

// Resize gives the view another size.
func (m Model) Resize(width, height int) Model {
	m.width, m.height = max(1, width), max(1, height)
	return m.settled()
}

// Take takes over what was read.
func (m Model) Take(r Reading) Model {
	at := m.cursor()
	if r.Want.Jobs {
		m = m.takeJobs(r.Jobs)
	}
	if r.Job != m.job {
		return m.settledAt(at)
	}
	m.problems = r.Problems
	if r.Snapshot != nil {
		m = m.takeSnapshot(r.Snapshot)
		m.gone = false // or it has come back
	}
	if r.Gone {
		m = m.takeEnd(r)
	}
	if r.Lateness != nil {
		m.late = r.Lateness
	}
	if r.Detail != nil && r.Detail.ID == m.oneID {
		m.prevOne, m.one = m.one, r.Detail
	}
	return m.settledAt(at)
}

func (m Model) takeSnapshot(s *Snapshot) Model {
	m.prev, m.cur = m.cur, s
	m.rates, m.states = rates(m.prev, s), s.states()
	m.ended = ""
	if s.Job.State == report.StateFinished || s.Job.State == report.StateDied {
		m.ended, m.rates = endText(s), rates(nil, s) // nothing changes any more
	}
	return m
}

// takeEnd is told that the job has left shared memory.
func (m Model) takeEnd(r Reading) Model {
	m.gone, m.result = true, r.Result
	switch {
	case m.cur == nil:
		m.ended = "job " + filepath.Base(m.job) + " " + ErrGone.Error()
	case r.Result == "" && m.ended == "":
		m.ended = "ended: its data has left shared memory, mpitrace report shows its result"
	}
	return m
}

// endText says how a job ended.
func endText(s *Snapshot) string {
	by := map[string][]int{}
	for i := range s.Ranks {
		by[s.Ranks[i].State] = append(by[s.Ranks[i].State], s.Ranks[i].ID.Rank)
	}
	var parts []string
	for _, kind := range []struct{ state, what string }{
		{report.StateAborted, "called MPI_Abort"},
		{report.StateDied, "died without MPI_Finalize"},
		{report.StateExited, "left by exit() without MPI_Finalize"},
	} {
		if ranks := by[kind.state]; len(ranks) > 0 {
			parts = append(parts, report.RanksText(ranks)+" "+kind.what)
		}
	}
	took := ""
	if s.Job.WallNS > 0 {
		took = " after " + report.Duration(s.Job.WallNS)
	}
	if len(parts) == 0 {
		return "finished" + took
	}
	return "ended" + took + ": " + strings.Join(parts, ", ")
}

func (m Model) takeJobs(jobs []Found) Model {
	chosen := ""
	if m.screen == screenJobs && m.selected < len(m.jobs) {
		chosen = m.jobs[m.selected].Path
	}
	m.jobs, m.listed = jobs, true
	if m.screen != screenJobs {
		return m
	}
	if i := slices.IndexFunc(jobs, func(f Found) bool { return f.Path == chosen }); i >= 0 {
		m.selected = i
	}
	alive := slices.DeleteFunc(slices.Clone(jobs), func(f Found) bool { return f.Alive == 0 })
	if m.auto && len(alive) == 1 {
		return m.open(alive[0].Path)
	}
	return m
}

// cursor is the process that the cursor is on.
func (m *Model) cursor() RankID {
	// At the top the cursor stays there, whichever rank comes to be first.
	if m.cur == nil || m.selected == 0 || m.selected >= len(m.rows) || m.screen == screenJobs {
		return RankID{}
	}
	return m.cur.Ranks[m.rows[m.selected]].ID
}

// settled puts rows, selection and scrolling in order after a change.
func (m Model) settled() Model { return m.settledAt(RankID{}) }

// settledAt is settled with the cursor on a process, where there is one.
func (m Model) settledAt(at RankID) Model {
	m.rows = m.ordered()
	length := len(m.jobs)
	if m.screen != screenJobs {
		length = len(m.rows)
		if i := slices.IndexFunc(m.rows, func(row int) bool { return m.cur.Ranks[row].ID == at }); i >= 0 {
			m.selected = i
		}
	}
	m.selected = max(0, min(m.selected, length-1))
	p := m.page()
	switch m.screen {
	case screenJobs, screenRanks:
		m.scroll = max(min(m.scroll, m.selected), m.selected-max(1, p.room)+1)
		m.scroll = max(0, min(m.scroll, length-p.room))
	default:
		m.scroll = max(0, min(m.scroll, p.body-p.room))
	}
	return m
}
