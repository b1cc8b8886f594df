package top

import (
	"strings"
	"unicode/utf8"

	"github.com/mpitrace/mpitrace/report"
	"github.com/mpitrace/mpitrace/segment"
)

// Key is a key as bubbletea names it, and the text that it types, if any.
func (m Model) Key(key, typed string) Model {
	if key == "ctrl+c" {
		m.done = true
		return m
	}
	if m.editing {
		return m.edit(key, typed).settled()
	}
	if step, ok := m.steps()[key]; ok {
		return m.move(step)
	}
	switch key {
	case "q":
		m.done = true
	case "?", "h", "f1":
		m = m.help()
	case "esc", "backspace", "left":
		m = m.back()
	case "enter", "right":
		m = m.enter()
	case "s", "S", "r", "/":
		m = m.order(key)
	case "l":
		if m.cur != nil {
			m.screen, m.scroll = screenLate, 0
		}
	case "J":
		m.screen, m.auto, m.selected, m.scroll, m.paused = screenJobs, false, 0, 0, false
	case "space", "p":
		m.paused = !m.paused
	}
	return m.settled()
}

// steps is how far each key moves, in rows.
func (m Model) steps() map[string]int {
	const all = 1 << 30
	room := max(1, m.page().room)
	return map[string]int{
		"up": -1, "k": -1, "down": 1, "j": 1, "pgup": -room, "ctrl+b": -room, "pgdown": room, "ctrl+f": room,
		"home": -all, "g": -all, "end": all, "G": all,
	}
}

func (m Model) move(step int) Model {
	if m.screen == screenJobs || m.screen == screenRanks {
		length := len(m.rows)
		if m.screen == screenJobs {
			length = len(m.jobs)
		}
		m.selected = max(0, min(m.selected+step, length-1))
		return m.settled()
	}
	m.scroll = max(0, m.scroll+step)
	return m.settled()
}

func (m Model) help() Model {
	if m.screen == screenHelp {
		return m.back()
	}
	m.before, m.screen, m.scroll = m.screen, screenHelp, 0
	return m
}

// back leaves a screen, or takes the filter away.
func (m Model) back() Model {
	switch m.screen {
	case screenHelp:
		m.screen = m.before
	case screenJobs:
		if m.job != "" {
			m.screen, m.selected = screenRanks, 0
		}
	case screenRank, screenLate:
		m.screen = screenRanks
	default:
		m.filter, m.ranges = "", nil
	}
	m.scroll = 0
	return m
}

// enter opens what the cursor is on.
func (m Model) enter() Model {
	switch {
	case m.screen == screenJobs && m.selected < len(m.jobs):
		if m.jobs[m.selected].Path != m.job {
			return m.open(m.jobs[m.selected].Path)
		}
		m.screen, m.scroll, m.selected = screenRanks, 0, 0
	case m.screen == screenRanks && m.selected < len(m.rows):
		id := m.cur.Ranks[m.rows[m.selected]].ID
		if id != m.oneID {
			m.prevOne, m.one = nil, nil
		}
		m.screen, m.scroll, m.oneID = screenRank, 0, id
	}
	return m
}

// order changes which ranks are shown, and in which order.
func (m Model) order(key string) Model {
	if m.screen != screenRanks {
		return m
	}
	n := len(columns)
	switch key {
	case "s":
		m.sort = (m.sort + 1) % n
	case "S":
		m.sort = (m.sort + n - 1) % n
	case "r":
		m.reverse = !m.reverse
	case "/":
		m.editing = true
	}
	return m
}

// filterMax bounds the filter, in characters.
const filterMax = 64

// edit types the filter.
func (m Model) edit(key, typed string) Model {
	switch key {
	case "enter":
		m.editing = false
	case "esc":
		m.editing, m.filter = false, ""
	case "backspace":
		_, size := utf8.DecodeLastRuneInString(m.filter)
		m.filter = m.filter[:len(m.filter)-size]
	case "ctrl+u":
		m.filter = ""
	default:
		typed = segment.CleanText(typed)
		if utf8.RuneCountInString(m.filter+typed) <= filterMax {
			m.filter += typed
		}
	}
	m.ranges = rangesOf(m.filter)
	return m
}

// Paste is text that came at once.
func (m Model) Paste(typed string) Model {
	if !m.editing {
		return m
	}
	return m.edit("", typed).settled()
}

// rangesOf is the filter as ranks, nil if it is something else.
func rangesOf(filter string) report.Ranges {
	ranges, err := report.ParseRanges(strings.TrimSpace(filter))
	if err != nil {
		return nil
	}
	return ranges
}
