package top

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/mpitrace/mpitrace/report"
)

// column of the table of ranks.
type column struct {
	name  string // as in --sort, and as the head
	width int    // the last column takes what is left
	from  int    // width of the terminal from which on it is shown
	left  bool   // text, not a figure
	least bool   // sorted from the least on, not from the most
	text  func(v *rankView) string
	value func(v *rankView) float64
}

// rankView is a rank with what is known of it beyond the snapshot.
type rankView struct {
	*Rank
	rate   Rate
	state  string
	caused float64 // share of all waiting, -1 if not known
}

var columns = []column{
	{
		name: "rank", width: 5, least: true,
		text:  func(v *rankView) string { return strconv.Itoa(v.ID.Rank) },
		value: func(v *rankView) float64 { return float64(v.ID.Rank) },
	},
	{
		name: "state", width: 8, left: true,
		text:  func(v *rankView) string { return v.state },
		value: func(v *rankView) float64 { return float64(slices.Index(urgency, v.state)) },
	},
	{
		name: "now", width: 4,
		text:  func(v *rankView) string { return shareText(v.rate.Share) },
		value: func(v *rankView) float64 { return v.rate.Share },
	},
	{
		name: "all", width: 4, from: 50,
		text:  func(v *rankView) string { return shareText(v.share()) },
		value: func(v *rankView) float64 { return v.share() },
	},
	{
		name: "calls/s", width: 7, from: 60,
		text:  func(v *rankView) string { return rateText(v.rate.Calls, "") },
		value: func(v *rankView) float64 { return v.rate.Calls },
	},
	{
		name: "bytes/s", width: 8, from: 75,
		text:  func(v *rankView) string { return rateText(v.rate.Bytes, "B") },
		value: func(v *rankView) float64 { return v.rate.Bytes },
	},
	{
		name: "late", width: 4, from: 70,
		text:  func(v *rankView) string { return shareText(v.caused) },
		value: func(v *rankView) float64 { return v.caused },
	},
	{
		name: "for", width: 8,
		text:  func(v *rankView) string { return sinceText(v.longest()) },
		value: func(v *rankView) float64 { return since(v.longest()) },
	},
	{
		name: "call", left: true, least: true,
		text:  func(v *rankView) string { return callText(v.Rank) },
		value: func(*rankView) float64 { return 0 },
	},
}

// urgency is the states, the most urgent last.
var urgency = []string{report.StateFinished, report.StateRunning, report.StateExited, stateWaits, stateLate, stateStuck, report.StateAborted, report.StateDied}

// Columns is what ranks can be sorted by.
func Columns() []string {
	var out []string
	for i := range columns {
		out = append(out, columns[i].name)
	}
	return out
}

func since(c *Call) float64 {
	if c == nil {
		return -1
	}
	return float64(c.SinceNS)
}

func sinceText(c *Call) string {
	switch {
	case c == nil:
		return "-"
	case c.SinceNS == 0:
		return "just now"
	}
	return report.Duration(c.SinceNS)
}

// callText is the call that lasts longest, and how many other threads are in
// one.
func callText(r *Rank) string {
	c := r.longest()
	if c == nil {
		return ""
	}
	text := c.Name + " " + c.Place
	if n := len(r.In) - 1; n > 0 {
		text = fmt.Sprintf("%s (and %d more)", text, n)
	}
	return text
}

// view is a rank by its index.
func (m *Model) view(i int) rankView {
	v := rankView{Rank: &m.cur.Ranks[i], rate: m.rates[i], state: m.states[i], caused: -1}
	if m.late != nil {
		v.caused = m.late.Caused[LateRank{v.ID.World, v.ID.Rank}]
	}
	return v
}

// ordered is the ranks that the filter lets through, sorted.
func (m *Model) ordered() []int {
	if m.cur == nil {
		return nil
	}
	views := make([]rankView, len(m.cur.Ranks))
	var rows []int
	for i := range views {
		if views[i] = m.view(i); m.passes(&views[i]) {
			rows = append(rows, i)
		}
	}
	c := &columns[m.sort]
	slices.SortStableFunc(rows, func(a, b int) int {
		order := cmp.Compare(c.value(&views[a]), c.value(&views[b]))
		if c.name == "call" {
			order = cmp.Compare(callText(views[a].Rank), callText(views[b].Rank))
		}
		if c.least == m.reverse {
			order = -order
		}
		return order
	})
	return rows
}

// passes tells whether a rank is wanted by the filter: ranks such as 0,4-7, or
// a part of its state, node, call or place.
func (m *Model) passes(v *rankView) bool {
	switch {
	case m.filter == "":
		return true
	case m.ranges != nil:
		return m.ranges.Has(v.ID.Rank)
	}
	return strings.Contains(strings.ToLower(v.state+" "+v.ID.Node+" "+callText(v.Rank)), strings.ToLower(strings.TrimSpace(m.filter)))
}

// ranksPage is the table of ranks.
func (m *Model) ranksPage(p painter) page {
	out := page{head: m.jobHead(p), keys: keysRanks, table: true}
	out.head = append(out.head, m.tableHead(p))
	out.body = len(m.rows)
	out.at = func(row int) line {
		v := m.view(m.rows[row])
		return m.rankLine(p, &v, row == m.selected)
	}
	if len(m.rows) == 0 {
		out.setLines([]line{words(faint, "no rank matches the filter")})
	}
	return out
}

func (m *Model) tableHead(p painter) line {
	l := text(span{strong, " "})
	for i := range columns {
		c := &columns[i]
		if m.width < c.from {
			continue
		}
		name, s := strings.ToUpper(c.name), strong
		if i == m.sort {
			s = chosen
		}
		width := c.width
		if width == 0 {
			width = len(name)
		}
		l.spans = append(l.spans, span{s, p.pad(name, width, !c.left)}, span{plain, " "})
	}
	return l
}

func (m *Model) rankLine(p painter, v *rankView, selected bool) line {
	l := line{selected: selected}
	l.spans = append(l.spans, span{plain, cursor(selected)})
	for i := range columns {
		c := &columns[i]
		if m.width < c.from {
			continue
		}
		s := plain
		if c.name == "state" {
			s = stateStyle(v.state)
		}
		content := c.text(v)
		if c.width > 0 {
			content = p.pad(content, c.width, !c.left)
		}
		l.spans = append(l.spans, span{s, content}, span{plain, " "})
	}
	return l
}

// cursor marks the line that keys act on.
func cursor(selected bool) string {
	if selected {
		return ">"
	}
	return " "
}

func stateStyle(state string) style {
	switch state {
	case stateStuck, report.StateDied, report.StateAborted, report.StateExited:
		return alarm
	case stateLate, stateWaits:
		return notice
	case report.StateFinished:
		return faint
	}
	return plain
}
