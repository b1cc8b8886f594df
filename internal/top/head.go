package top

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mpitrace/mpitrace/report"
)

// alarmsShown is how many lines of the head may tell of waiting, in a terminal
// of 24 lines and in a tall one.
const (
	alarmsShown     = 3
	alarmsShownTall = 6
	tall            = 40
)

// jobHead is what is said of the job above each screen of it.
func (m *Model) jobHead(p painter) []line {
	s := m.cur
	head := append(m.titleLines(p), words(faint, "%s", m.aboutText()))
	head = append(head, m.sumLine())
	if s.Job.Act != nil {
		head = append(head, actLine(s.Job.Act))
	}
	if len(s.Ranks) > 1 && m.height >= 12 {
		head = append(head, m.barsLine(p))
	}
	return append(head, m.alarms(p)...)
}

// titleLines says how the job does, and after its end where to look next.
func (m *Model) titleLines(p painter) []line {
	name := "job " + cmp.Or(m.cur.Job.ID, filepath.Base(m.job)) + "  "
	if m.ended == "" {
		return []line{m.titleLine(name)}
	}
	how := alarm
	if strings.HasPrefix(m.ended, "finished") {
		how = strong
	}
	out := p.wrap(how, name, m.ended)
	if next := m.next(); next != "" {
		out = append(out, p.wrap(strong, "see: ", next)...)
	}
	return out
}

// titleLine is the title while the job runs.
func (m *Model) titleLine(name string) line {
	s := m.cur
	l := text(span{strong, name})
	if s.Job.State == report.StateHung {
		l.spans = append(l.spans, span{alarm, "HUNG: no rank has begun a call for " + report.Duration(s.Job.IdleNS)})
	} else {
		l.spans = append(l.spans, span{plain, s.Job.State + " for " + report.Duration(s.Job.WallNS)})
	}
	switch {
	case m.paused:
		l.spans = append(l.spans, span{notice, "  paused"})
	case m.options.Interval > 0:
		l.spans = append(l.spans, span{faint, "  every " + m.options.Interval.String()})
	}
	by := ", by " + columns[m.sort].name
	if m.reverse {
		by += " reversed"
	}
	l.spans = append(l.spans, span{faint, by})
	return l
}

// aboutText is what does not change.
func (m *Model) aboutText() string {
	s := m.cur
	ranks := plural(len(s.Ranks), "rank")
	if s.Job.Missing > 0 {
		ranks = fmt.Sprintf("%d of %d ranks here", len(s.Ranks), s.Job.WorldSize)
	}
	text := ranks
	if s.Job.Nodes > 1 {
		text += " on " + plural(s.Job.Nodes, "node")
	}
	if s.Job.Worlds > 1 {
		text += " in " + plural(s.Job.Worlds, "MPI_COMM_WORLD")
	}
	version, _, _ := strings.Cut(s.Job.MPI, ",")
	return text + " · " + version + " · " + commandText(s.Job.Command)
}

// commandText is a command without the folder of the program.
func commandText(command string) string {
	program, rest, _ := strings.Cut(command, " ")
	return strings.TrimSpace(filepath.Base(program) + " " + rest)
}

// sum is the whole job at a glance.
type sum struct {
	now, all    float64 // mean share
	calls       float64 // per second, -1: not known
	bytes       float64
	least, most int // indices of ranks with the least and most share now, -1: not known
}

func (m *Model) sum() sum {
	out := sum{now: -1, calls: -1, bytes: -1, least: -1, most: -1}
	known := 0
	for i := range m.cur.Ranks {
		r := m.rates[i]
		out.all += m.cur.Ranks[i].share() / float64(len(m.cur.Ranks))
		if r.Calls >= 0 {
			out.calls = max(0, out.calls) + r.Calls
		}
		if r.Bytes >= 0 {
			out.bytes = max(0, out.bytes) + r.Bytes
		}
		if r.Share < 0 {
			continue
		}
		known++
		out.now = max(0, out.now) + r.Share
		if out.least < 0 || r.Share < m.rates[out.least].Share {
			out.least = i
		}
		if out.most < 0 || r.Share > m.rates[out.most].Share {
			out.most = i
		}
	}
	if known > 0 {
		out.now /= float64(known)
	}
	return out
}

func (m *Model) sumLine() line {
	t := m.sum()
	l := text(span{plain, "MPI "}, span{strong, shareText(t.now) + " now"})
	if t.least >= 0 && t.least != t.most && m.width >= 100 {
		l.spans = append(l.spans, span{plain, fmt.Sprintf(" (%s rank %d to %s rank %d)", shareText(m.rates[t.least].Share), m.cur.Ranks[t.least].ID.Rank,
			shareText(m.rates[t.most].Share), m.cur.Ranks[t.most].ID.Rank)})
	}
	l.spans = append(l.spans, span{plain, fmt.Sprintf(", %s overall", shareText(t.all))})
	counts := map[string]int{}
	for _, state := range m.states {
		counts[state]++
	}
	for i := len(urgency) - 1; i >= 0; i-- {
		if state := urgency[i]; counts[state] > 0 && state != report.StateRunning {
			l.spans = append(l.spans, span{plain, " · "}, span{stateStyle(state), fmt.Sprintf("%d %s", counts[state], state)})
		}
	}
	l.spans = append(l.spans, span{plain, fmt.Sprintf(" · %s calls/s · %s", rateText(t.calls, ""), rateText(t.bytes, "B/s"))})
	return l
}

// actLine is what the job carries itself, what is wrong with it first.
func actLine(a *Act) line {
	l := text(span{plain, "act "})
	if a.Wrong > 0 {
		l.spans = append(l.spans, span{alarm, plural(int(min(a.Wrong, 1<<62)), "wrong message")}, span{plain, " · "})
	}
	if a.Quarantined > 0 {
		l.spans = append(l.spans, span{alarm, plural(int(min(a.Quarantined, 1<<62)), "path") + " given up"}, span{plain, " · "})
	}
	switch {
	case a.Off != "":
		return text(append(l.spans, span{notice, "off: " + a.Off})...)
	case a.Messages == 0:
		return text(append(l.spans, span{plain, "has carried nothing yet"})...)
	}
	l.spans = append(l.spans, span{strong, shareText(a.Messages) + " of messages"}, span{plain, ", " + shareText(a.Bytes) + " of bytes"})
	if a.FallBacks > 0 {
		l.spans = append(l.spans, span{notice, " · " + plural(int(min(a.FallBacks, 1<<62)), "fall-back")})
	}
	between := " · "
	for _, way := range a.Ways {
		l.spans = append(l.spans, span{plain, between + way.Name + " " + shareText(way.Share)})
		between = ", "
	}
	return l
}

// barsLine draws the share of each rank, of many ranks the means of
// neighbours.
func (m *Model) barsLine(p painter) line {
	label := "by rank "
	shares := make([]float64, len(m.cur.Ranks))
	top, known := 0.01, false
	for i, r := range m.rates {
		known = known || r.Share >= 0
		shares[i] = max(0, r.Share)
		top = max(top, shares[i])
	}
	if !known {
		label = "overall "
		for i := range m.cur.Ranks {
			shares[i] = m.cur.Ranks[i].share()
			top = max(top, shares[i])
		}
	}
	bars, each := report.Bars(shares, top, max(1, min(m.width, 200)-30), p.ascii)
	note := "top " + shareText(top)
	if each > 1 {
		note += fmt.Sprintf(", a bar is %d ranks", each)
	}
	return text(span{faint, label}, span{plain, bars}, span{faint, "  " + note})
}

// alarms says who is stuck and who is missing, in few lines.
func (m *Model) alarms(p painter) []line {
	room := alarmsShown
	if m.height >= tall {
		room = alarmsShownTall
	}
	room = min(room, m.height/6)
	var out []line
	if m.cur.Deadlock != "" {
		out = append(out, words(alarm, "! %s", m.cur.Deadlock))
	}
	more := 0
	for i := range m.cur.Waits {
		w := &m.cur.Waits[i]
		if w.SinceNS < waitsNS || m.ended != "" && len(w.Missing) == 0 {
			continue
		}
		if len(out) >= room {
			more++
			continue
		}
		s := notice
		if w.SinceNS >= stuckNS {
			s = alarm
		}
		out = append(out, text(span{s, "! " + waitText(w)}))
	}
	if more > 0 && len(out) > 0 {
		last := &out[len(out)-1]
		last.spans = append([]span{{strong, fmt.Sprintf("(%d more: l) ", more)}}, last.spans...)
	}
	for _, problem := range m.problemTexts() {
		if len(out) < room {
			out = append(out, words(notice, "! %s", problem))
		}
	}
	return out
}

// problemTexts is what could not be read.
func (m *Model) problemTexts() []string {
	out := append([]string{}, m.problems...)
	if m.cur != nil {
		out = append(out, m.cur.Problems...)
	}
	return out
}

// waitText says who waits where for whom, the most important first: a line is
// cut at its end.
func waitText(w *Wait) string {
	text := fmt.Sprintf("%s in %s for %s", report.RanksText(w.Ranks), w.Name, report.Duration(w.SinceNS))
	if len(w.Missing) > 0 {
		text += ", waiting for " + missingText(w.Missing)
	}
	return text + ", at " + w.Place
}

// missingText puts the ranks with the same excuse together, the first excuses.
func missingText(missing []report.Missing) string {
	const shown = 2
	by := map[string][]int{}
	var order []string
	for _, m := range missing {
		if by[m.Where] == nil {
			order = append(order, m.Where)
		}
		by[m.Where] = append(by[m.Where], m.Rank)
	}
	// Ranks that are in a call of MPI wait for others themselves.
	slices.SortStableFunc(order, func(a, b string) int { return inMPI(a) - inMPI(b) })
	var parts []string
	for i, where := range order {
		if i == shown {
			parts = append(parts, fmt.Sprintf("and %d more", len(order)-i))
			break
		}
		parts = append(parts, report.RanksText(by[where])+" ("+where+")")
	}
	return strings.Join(parts, ", ")
}

func inMPI(where string) int {
	if strings.HasPrefix(where, "in MPI_") {
		return 1
	}
	return 0
}

// plural is "1 rank" or "2 ranks".
func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return report.Count(uint64(n)) + " " + what + "s"
}

// emptyPage is the screen of a job of which nothing has been read.
func (m *Model) emptyPage(p painter) page {
	out := page{head: []line{words(strong, "job %s", filepath.Base(m.job))}, keys: keysPager}
	var lines []line
	if m.ended != "" {
		lines = p.wrap(alarm, "", m.ended)
	}
	for _, problem := range m.problems {
		lines = append(lines, p.wrap(notice, "! ", problem)...)
	}
	if len(lines) == 0 {
		lines = []line{words(plain, "reading ...")}
	}
	out.setLines(lines)
	return out
}
