package top

import (
	"fmt"
	"time"

	"github.com/mpitrace/mpitrace/report"
)

// jobsPage lists the jobs on this node.
func (m *Model) jobsPage(p painter) page {
	out := page{keys: keysJobs, table: true}
	if !m.listed {
		out.head = []line{words(strong, "mpitrace top")}
		out.setLines([]line{words(plain, "looking for jobs ...")})
		return out
	}
	alive := 0
	for i := range m.jobs {
		alive += m.jobs[i].liveliness()
	}
	out.head = []line{words(strong, "mpitrace top: %s running on this node", plural(alive, "job"))}
	if alive == 0 {
		for _, text := range []string{"Waiting for a job. Start one with", "    mpitrace run -- mpirun -n 4 ./app", "and it is shown here."} {
			out.head = append(out.head, words(plain, "%s", text))
		}
	}
	for _, problem := range m.problems {
		out.head = append(out.head, p.wrap(notice, "! ", problem)...)
	}
	if len(m.jobs) > 0 {
		out.head = append(out.head, words(strong, " %s %6s %-14s %-19s %s", p.pad("JOB", m.idWidth(), false), "RANKS", "STATE", "START", "COMMAND"))
	}
	out.body = len(m.jobs)
	out.at = func(row int) line { return m.jobLine(p, row) }
	return out
}

func (m *Model) idWidth() int { return max(12, min(28, m.width/4)) }

func (m *Model) jobLine(p painter, row int) line {
	f, selected := &m.jobs[row], row == m.selected
	state, s := "running", plain
	switch {
	case f.Alive == 0:
		state, s = "dead", faint
	case f.Alive < f.Ranks:
		state = fmt.Sprintf("%d alive", f.Alive)
	}
	if f.Unreadable > 0 {
		state = plural(f.Unreadable, "unreadable")
		if f.Unreadable > 1 {
			state = fmt.Sprintf("%d unreadable", f.Unreadable)
		}
		s = notice
	}
	start := "-"
	if !f.Start.IsZero() {
		start = f.Start.In(m.location()).Format(time.DateTime)
	}
	return line{selected: selected, spans: []span{
		{plain, cursor(selected) + p.pad(f.ID, m.idWidth(), false)},
		{s, fmt.Sprintf(" %6s %s %-19s ", report.Count(uint64(f.Ranks)), p.pad(state, 14, false), start)},
		{s, commandText(f.Command)},
	}}
}

func (m *Model) location() *time.Location {
	if m.options.Location != nil {
		return m.options.Location
	}
	return time.Local
}
