package top

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/mpitrace/mpitrace/report"
)

// fuzzKeys is what a byte of the input presses.
var fuzzKeys = []string{
	"up", "down", "pgup", "pgdown", "home", "end", "enter", "esc", "s", "S", "r", "/", "l", "J", "?", "space", "backspace", "ctrl+u",
	"k", "j", "g", "G", "left", "right", "p", "h", "a", "1", "-", ",", "世", "\x1b", "f5",
}

// FuzzKeys presses keys, resizes and reads in any order: nothing panics, and
// every screen fits.
func FuzzKeys(f *testing.F) {
	f.Add([]byte{0, 1, 6, 40, 7, 8, 9, 200, 10, 11, 27, 28, 6, 12, 41, 13, 42, 14, 250, 15})
	f.Add([]byte{255, 1, 1, 1, 6, 254, 41, 12, 3, 3, 240, 40, 13, 43, 1, 6, 44})
	f.Fuzz(press)
}

// TestKeysAtRandom is FuzzKeys on random input.
func TestKeysAtRandom(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 40 {
		input := make([]byte, 100)
		for i := range input {
			input[i] = byte(random.Uint32())
		}
		press(t, input)
		if t.Failed() {
			t.Fatalf("input %v", input)
		}
	}
}

func press(t *testing.T, input []byte) {
	m := NewModel(Options{Color: len(input)%2 == 0, ASCII: len(input)%3 == 0, Interval: time.Second})
	at := start
	for i, b := range input[:min(len(input), 300)] {
		switch {
		case int(b) < len(fuzzKeys):
			typed := ""
			if len([]rune(fuzzKeys[b])) == 1 {
				typed = fuzzKeys[b]
			}
			m = m.Key(fuzzKeys[b], typed)
		case b < 200:
			at = at.Add(time.Second)
			m = m.Take(fuzzReading(m.Want(), at, int(b)-len(fuzzKeys), i))
		case b < 250:
			m = m.Resize(int(b-200)*7, i%60)
		default:
			m = m.Paste("0-\x1b[2J3\nx世")
		}
		if m.Want().Rank != (RankID{}) && m.screen != screenRank {
			t.Errorf("a rank is read that nobody looks at")
		}
		checkScreen(t, m, m.Text())
		checkPlain(t, m)
	}
}

// fuzzReading makes up what a Model may be told, whatever it wanted.
func fuzzReading(w Want, at time.Time, kind, n int) Reading {
	r := Reading{Want: w}
	for i := range kind % 5 {
		r.Jobs = append(r.Jobs, Found{ID: "j\x1b", Path: string(rune('a' + i + n%3)), Alive: (kind + i) % 3, Ranks: i, Unreadable: kind % 2})
	}
	if kind%7 == 0 {
		r.Problems = []string{"\x1b[2J " + w.Job}
	}
	r.Gone = kind%11 == 0
	if kind%3 != 0 {
		s := &Snapshot{At: at, Job: Job{ID: "4\x9b711", State: []string{report.StateRunning, report.StateHung, report.StateDied, report.StateFinished}[kind%4], Nodes: kind % 3, Worlds: kind % 3}}
		s.Ranks = large(kind*n%50, at)
		if kind%5 == 0 {
			s.Waits = []Wait{{Name: "MPI_Recv\x07", World: "w", Ranks: []int{kind}, SinceNS: uint64(kind) * 1e9, Missing: []report.Missing{{Rank: n % 5, Where: "in MPI_X"}, {Rank: 1, Where: "\r\n"}}}}
			s.Deadlock = "deadlock:\x00"
		}
		if kind%4 == 0 {
			s.Job.Act = &Act{Off: []string{"", "\x1b[2J"}[n%2], Messages: float64(n % 3), Ways: []Way{{"read", 2}}, FallBacks: 1 << 63, Wrong: uint64(n) << 62}
		}
		r.Snapshot = s
	}
	if kind%2 == 0 {
		r.Detail = detail(w.Rank, at, uint64(kind), uint64(n))
		r.Lateness = &Lateness{At: at.Add(time.Hour), Findings: []string{"a\tb"}, Places: []LatePlace{{Last: kind % 2 * -1}}}
	}
	return r
}

// checkPlain is checkScreen of what is written to a pipe.
func checkPlain(t *testing.T, m Model) {
	t.Helper()
	if m.cur == nil {
		return
	}
	m.options.Color = false
	checkRows(t, m, strings.Split(m.plain(), "\n"))
}
