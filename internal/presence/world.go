package presence

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// answer is a line for one rank.
type answer[M comparable] struct {
	to   M
	text string
}

// worlds decides; M stands for the connection of a rank. It neither waits nor
// locks, and the time is handed to it.
type worlds[M comparable] struct {
	wait    time.Duration // of each of the two steps
	open    map[string]*world[M]
	seats   map[M]seat[M]
	decided []Verdict
}

// seat is what a connection stands for.
type seat[M comparable] struct {
	world  *world[M]
	member *member[M]
}

// world is one MPI_COMM_WORLD.
type world[M comparable] struct {
	first    Report
	members  map[int]*member[M] // by rank
	deadline time.Time
	loading  bool // all are there and are loading
	loaded   int
	seats    int      // connections of its ranks
	verdict  *Verdict // nil: not yet
}

type member[M comparable] struct {
	link   M
	report Report
	loaded bool
}

// Verdict is what all ranks of a world were told.
type Verdict struct {
	World  string `json:"world"`
	Ranks  int    `json:"ranks"`
	Policy string `json:"policy"` // hash
	Act    bool   `json:"act"`
	Reason string `json:"reason,omitempty"` // of observing
}

const goOn = "go"

func newWorlds[M comparable](wait time.Duration) *worlds[M] {
	return &worlds[M]{wait: wait, open: map[string]*world[M]{}, seats: map[M]seat[M]{}}
}

// report takes what a rank says first. A world that all of its ranks know the
// verdict of may have a successor of the same name.
func (ws *worlds[M]) report(link M, r Report, now time.Time) []answer[M] {
	w := ws.open[r.World]
	if w != nil && w.verdict != nil && w.members[r.Rank] != nil {
		w = nil
	}
	if w == nil {
		w = &world[M]{first: r, members: map[int]*member[M]{}, deadline: now.Add(ws.wait)}
		ws.open[r.World] = w
	}
	old := w.members[r.Rank]
	if old == nil {
		m := &member[M]{link: link, report: r}
		w.members[r.Rank], ws.seats[link] = m, seat[M]{w, m}
		w.seats++
	}
	switch {
	case w.verdict != nil: // late
		return []answer[M]{{link, w.verdict.line()}}
	case old != nil:
		reason := fmt.Sprintf("%s (process %d) reported, and %s (process %d) did: MPI_COMM_WORLD cannot be told apart", old.report.who(), old.report.PID, r.who(), r.PID)
		return append(ws.decide(w, reason), answer[M]{link, "observe " + reason})
	case r.Refused != "": // and so it may lack what the others have
		return ws.decide(w, r.who()+": "+r.Refused)
	case w.first.differs(r) != "":
		return ws.decide(w, w.first.differs(r))
	case len(w.members) == w.first.Size:
		w.loading, w.deadline = true, now.Add(ws.wait)
		return w.tell(goOn)
	}
	return nil
}

// loaded takes what a rank says second; refused is empty when it is ready.
func (ws *worlds[M]) loaded(link M, refused string) []answer[M] {
	w, m := ws.seats[link].world, ws.seats[link].member
	switch {
	case w == nil || w.verdict != nil:
		return nil
	case !w.loading || m.loaded:
		return ws.decide(w, m.report.who()+" spoke out of turn")
	case refused != "":
		return ws.decide(w, m.report.who()+": "+refused)
	}
	m.loaded = true
	if w.loaded++; w.loaded == w.first.Size {
		return ws.decide(w, "")
	}
	return nil
}

// gone notes that a rank has closed its connection.
func (ws *worlds[M]) gone(link M) []answer[M] {
	w, m := ws.seats[link].world, ws.seats[link].member
	delete(ws.seats, link)
	if w == nil {
		return nil
	}
	w.seats--
	if w.verdict != nil {
		ws.forget(w)
		return nil
	}
	return ws.decide(w, m.report.who()+" went away before all ranks were there")
}

// forget lets go of a world that all of its ranks know the verdict of, for one
// mpitrace run may start very many.
func (ws *worlds[M]) forget(w *world[M]) {
	if w.seats == 0 && len(w.members) == w.first.Size && ws.open[w.first.World] == w {
		delete(ws.open, w.first.World)
	}
}

// expire ends what has waited long enough. It returns when to look again, zero
// if there is nothing to wait for.
func (ws *worlds[M]) expire(now time.Time) (answers []answer[M], next time.Time) {
	for _, w := range ws.open {
		if w.verdict != nil {
			continue
		}
		if !now.Before(w.deadline) {
			answers = append(answers, ws.decide(w, w.lacks(ws.wait))...)
		} else if next.IsZero() || w.deadline.Before(next) {
			next = w.deadline
		}
	}
	return answers, next
}

// decide ends the waiting: act, unless there is a reason not to.
func (ws *worlds[M]) decide(w *world[M], reason string) []answer[M] {
	w.verdict = &Verdict{World: w.first.World, Ranks: w.first.Size, Policy: w.first.Policy, Act: reason == "", Reason: reason}
	ws.decided = append(ws.decided, *w.verdict)
	return w.tell(w.verdict.line())
}

func (v *Verdict) line() string {
	if v.Act {
		return goOn
	}
	return "observe " + v.Reason
}

// tell gives all ranks that have reported a line.
func (w *world[M]) tell(text string) []answer[M] {
	var out []answer[M]
	for _, m := range w.members {
		out = append(out, answer[M]{m.link, text})
	}
	return out
}

// lacks says what was waited for in vain.
func (w *world[M]) lacks(wait time.Duration) string {
	var ranks []int
	for rank := range w.first.Size {
		if m := w.members[rank]; m == nil || w.loading && !m.loaded {
			ranks = append(ranks, rank)
		}
	}
	if w.loading {
		return fmt.Sprintf("%s did not load libmpishim-rt.so within %v", listRanks(ranks), wait)
	}
	return fmt.Sprintf("%s of %d did not report within %v: do they run with libmpishim.so, and can they reach this host?", listRanks(ranks), w.first.Size, wait)
}

// listRanks names the first few.
func listRanks(ranks []int) string {
	const few = 8
	slices.Sort(ranks)
	var words []string
	for _, r := range ranks[:min(few, len(ranks))] {
		words = append(words, fmt.Sprint(r))
	}
	text := "rank " + strings.Join(words, ", ")
	if len(ranks) > 1 {
		text = "ranks " + strings.Join(words, ", ")
	}
	if len(ranks) > few {
		text += fmt.Sprintf(" and %d more", len(ranks)-few)
	}
	return text
}
