package top

import (
	"fmt"
	"strings"
)

// page is what a screen shows: a head that stays and a body that scrolls.
type page struct {
	head  []line
	body  int                // lines of the body
	at    func(row int) line // one of them
	keys  string             // what the last line says
	room  int                // lines of the body that can be seen
	table bool               // the body is rows that the cursor chooses from
}

// What the keys of each screen do, the most important first.
const (
	keysJobs  = "q quit  enter open  up/down choose  ? help"
	keysRanks = "q quit  enter rank  s sort  r reverse  / filter  l late  J jobs  ? help"
	keysPager = "q quit  esc back  up/down scroll  ? help"
)

// setLines makes the body of lines.
func (p *page) setLines(lines []line) {
	p.body = len(lines)
	p.at = func(row int) line { return lines[row] }
}

func (m *Model) painter() painter {
	return painter{width: m.width, color: m.options.Color, ascii: m.options.ASCII}
}

// page is the screen as it is now.
func (m *Model) page() page {
	p := m.painter()
	var out page
	switch {
	case m.screen == screenHelp:
		out = m.helpPage()
	case m.screen == screenJobs:
		out = m.jobsPage(p)
	case m.cur == nil:
		out = m.emptyPage(p)
	case m.screen == screenRank:
		out = m.rankPage(p)
	case m.screen == screenLate:
		out = m.latePage(p)
	default:
		out = m.ranksPage(p)
	}
	// A row of the body and the last line stay, however low the terminal is.
	out.head = out.head[:min(len(out.head), max(0, m.height-2))]
	out.room = max(0, m.height-len(out.head)-1)
	return out
}

// Text is the screen: at most as many lines as the terminal has, none wider
// than it.
func (m Model) Text() string {
	text, _ := m.screenText()
	return text
}

// screenText is the screen, and the line that the cursor is on, -1 if none.
func (m *Model) screenText() (text string, cursor int) {
	p, out := m.painter(), m.page()
	cursor = -1
	var b strings.Builder
	for _, l := range out.head {
		b.WriteString(p.render(l) + "\n")
	}
	for row := m.scroll; row < m.scroll+out.room; row++ {
		if row < out.body {
			b.WriteString(p.render(out.at(row)))
		}
		if out.table && row == m.selected {
			cursor = len(out.head) + row - m.scroll
		}
		b.WriteString("\n")
	}
	b.WriteString(p.render(m.footer(&out)))
	return b.String(), cursor
}

// footer says what keys do, or what is being typed.
func (m *Model) footer(p *page) line {
	if m.editing {
		return text(span{strong, "filter: " + m.filter + "_"}, span{faint, "  ranks (0,4-7) or part of a state, call or place; enter keeps, esc clears"})
	}
	var l line
	if m.filter != "" && m.screen == screenRanks {
		l.spans = append(l.spans, span{notice, "filter: " + m.filter + " (esc clears)  "})
	}
	if p.body > p.room {
		l.spans = append(l.spans, span{plain, fmt.Sprintf("%d-%d of %d  ", m.scroll+1, min(p.body, m.scroll+p.room), p.body)})
	}
	l.spans = append(l.spans, span{faint, p.keys})
	return l
}

// helpPage says what keys and columns mean.
func (m *Model) helpPage() page {
	p := m.painter()
	out := page{head: []line{words(strong, "mpitrace top")}, keys: keysPager}
	var lines []line
	for _, row := range helpRows {
		if row[1] == "" {
			lines = append(lines, words(strong, "%s", row[0]))
			continue
		}
		lines = append(lines, p.wrap(plain, p.pad(row[0], 17, false), row[1])...)
	}
	out.setLines(lines)
	return out
}

var helpRows = [][2]string{
	{"Keys", ""},
	{"q, ctrl+c", "quit"},
	{"up, down, k, j", "move; pgup, pgdown, g, G: farther"},
	{"enter", "one rank in detail, or open a job; esc: back"},
	{"s, S", "sort by the next or previous column; r: the other way"},
	{"/", "only ranks such as 0,4-7, or with this text in state, call or place"},
	{"l", "who is late, and who is waited for"},
	{"J", "the jobs on this node"},
	{"space, p", "pause"},
	{"Columns", ""},
	{"state", "running; late: others wait for it, and it is outside MPI; waiting, stuck: in one call for 1 s, 10 s"},
	{"now, all", "share of time in MPI since the last refresh, since MPI_Init"},
	{"calls/s, bytes/s", "of MPI calls, and their payload, since the last refresh"},
	{"late", "of all waiting at collectives since the start, the part for this rank"},
	{"for", "how long the call in progress lasts"},
	{"call", "the call in progress, file and line, and the function around"},
}

// plain is the ranks as text, without cursor and keys.
func (m Model) plain() string {
	m.selected = -1
	p, out := m.painter(), m.ranksPage(m.painter())
	var b strings.Builder
	for _, l := range out.head {
		b.WriteString(p.render(l) + "\n")
	}
	for row := range out.body {
		b.WriteString(p.render(out.at(row)) + "\n")
	}
	return b.String()
}
