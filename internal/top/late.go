package top

import (
	"fmt"
	"time"

	"github.com/mpitrace/mpitrace/report"
)

// latePage says who waits now, and who has been late over the whole run.
func (m *Model) latePage(p painter) page {
	out := page{head: append(m.titleLines(p), m.sumLine()), keys: keysPager}
	var lines []line
	if m.cur.Deadlock != "" {
		lines = append(lines, p.wrap(alarm, "! ", m.cur.Deadlock)...)
	}
	lines = append(lines, m.waitLines(p)...)
	lines = append(lines, line{})
	lines = append(lines, m.lateLines(p)...)
	for _, problem := range m.problemTexts() {
		lines = append(lines, p.wrap(notice, "! ", problem)...)
	}
	out.setLines(lines)
	return out
}

// waitsShown bounds the list of waits.
const waitsShown = 50

func (m *Model) waitLines(p painter) []line {
	lines := []line{words(strong, "In progress now")}
	for i := range m.cur.Waits {
		w := &m.cur.Waits[i]
		if i == waitsShown {
			lines = append(lines, words(faint, "  and %s more", plural(len(m.cur.Waits)-i, "call")))
			break
		}
		s := plain
		switch {
		case w.SinceNS >= stuckNS:
			s = alarm
		case w.SinceNS >= waitsNS:
			s = notice
		}
		lines = append(lines, p.wrap(s, "  ", waitText(w))...)
	}
	if len(m.cur.Waits) == 0 {
		lines = append(lines, words(plain, "  no rank is inside MPI"))
	}
	return lines
}

func (m *Model) lateLines(p painter) []line {
	if m.late == nil {
		return []line{words(strong, "Late over the whole run"), words(faint, "  reading ...")}
	}
	age := max(0, m.cur.At.Sub(m.late.At)).Round(time.Second)
	lines := []line{text(span{strong, "Late over the whole run"}, span{faint, fmt.Sprintf("  as of %s ago", age)})}
	if len(m.late.Places) == 0 {
		lines = append(lines, words(plain, "  no collective operation has been sampled yet"))
	}
	for i := range m.late.Places {
		a := &m.late.Places[i]
		text := fmt.Sprintf("%s at %s on %s: %s waiting in %s calls, 95 %% of them within %s", a.Name, a.Place, a.Comm,
			report.Duration(a.WaitingNS), report.Count(a.Calls), report.Duration(a.SpreadNS))
		if a.Last >= 0 {
			text += fmt.Sprintf("; rank %d is last in %s", a.Last, report.Percent(a.LastShare))
		}
		lines = append(lines, p.wrap(plain, "  ", text)...)
	}
	for _, finding := range m.late.Findings {
		lines = append(lines, p.wrap(plain, "* ", finding)...)
	}
	return lines
}
