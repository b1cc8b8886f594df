package top

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/mpitrace/mpitrace/internal/golden"
	"github.com/mpitrace/mpitrace/report"
)

// start is the time of all test snapshots.
var start = time.Date(2026, 1, 2, 9, 30, 0, 0, time.UTC)

// TestScreens runs the files of testdata: commands, and behind a line "----"
// the screen that they lead to. A file says in its first lines what it shows.
// The commands are
//
//	new [sort=C] [filter=T] [job=PATH] [interval=2s] [color=yes] [ascii=yes]
//	size COLUMNS LINES
//	keys K ...      as Bubble Tea names them; a single letter types itself
//	read [at=10s] [id=4711] [state=running] [gone=yes] [result=DIR] [problem=TEXT]
//	  rank N STATE [wall=60s] [busy=30s] [calls=N] [bytes=N] [in=CALL] [for=12s] [at=PLACE] [pid=N]
//	  ranks N       of a large job, made up
//	  wait CALL 0,2-3 [for=12s] [at=PLACE] [missing=1] [where=TEXT]
//	  deadlock TEXT
//	  act [messages=SHARE] [bytes=SHARE] [WAY=SHARE] [fallbacks=N] [wrong=N] [paths=N] [off=TEXT]
//	  late N SHARE  the part of all waiting that is for a rank
//	  place CALL [at=PLACE] [calls=N] [waiting=12s] [last=N]
//	  detail N [at=10s] [calls=N] [bytes=N]
//	  job ID [alive=N] [ranks=N] [command=TEXT]
//	  nojobs
func TestScreens(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files in testdata (%v)", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			golden.Compare(t, filepath.Base(file), runScript(t, text))
		})
	}
}

// runScript is the file with the screens as they are.
func runScript(t *testing.T, text []byte) []byte {
	t.Helper()
	s := &script{t: t, m: NewModel(Options{Job: "/dev/shm/mpitrace-0/4711", Interval: 2 * time.Second, Location: time.UTC})}
	var out bytes.Buffer
	lines := bufio.NewScanner(bytes.NewReader(text))
	skipping := false // the screen that was expected
	for lines.Scan() {
		l := lines.Text()
		if strings.HasPrefix(l, "|") {
			continue
		}
		skipping = skipping && l == ""
		if skipping {
			continue
		}
		if l != "----" {
			out.WriteString(l + "\n")
			s.command(l)
			continue
		}
		s.flush()
		out.WriteString("----\n")
		screen := s.m.Text()
		checkScreen(t, s.m, screen)
		for _, row := range strings.Split(screen, "\n") {
			if !s.m.options.Color {
				row = ansi.Strip(row)
			}
			out.WriteString("|" + strings.ReplaceAll(row, "\x1b", "␛") + "\n")
		}
		out.WriteString("\n")
		skipping = true
	}
	return out.Bytes()
}

// script is a test file under way.
type script struct {
	t       *testing.T
	m       Model
	reading *Reading // being made by the lines behind read
}

// splitWords splits a command at blanks; quotes hold texts together.
func splitWords(l string) []string {
	var out []string
	for l = strings.TrimSpace(l); l != ""; l = strings.TrimSpace(l) {
		end, quoted := 0, false
		for end < len(l) && (quoted || l[end] != ' ') {
			quoted = quoted != (l[end] == '"')
			end++
		}
		out = append(out, strings.ReplaceAll(l[:end], `"`, ""))
		l = l[end:]
	}
	return out
}

// settings is the key=value words, the others in order.
type settings struct {
	t      *testing.T
	values map[string]string
	others []string
}

func (s *script) settings(l string) settings {
	out := settings{t: s.t, values: map[string]string{}}
	for _, word := range splitWords(l)[1:] {
		if unquoted, err := strconv.Unquote(`"` + word + `"`); err == nil {
			word = unquoted
		}
		if key, value, ok := strings.Cut(word, "="); ok {
			out.values[key] = value
			continue
		}
		out.others = append(out.others, word)
	}
	return out
}

// share is a part of all, 0 if it is not given.
func (s settings) share(key string) float64 {
	if s.values[key] == "" {
		return 0
	}
	part, err := strconv.ParseFloat(s.values[key], 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return part
}

func (s settings) number(key string, standard uint64) uint64 {
	if s.values[key] == "" {
		return standard
	}
	n, err := strconv.ParseUint(s.values[key], 10, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

func (s settings) ns(key string) uint64 {
	if s.values[key] == "" {
		return 0
	}
	d, err := time.ParseDuration(s.values[key])
	if err != nil {
		s.t.Fatal(err)
	}
	return uint64(d)
}

func (s settings) text(key, standard string) string {
	if v, ok := s.values[key]; ok {
		return v
	}
	return standard
}

func (s settings) whole(i int) int {
	n, err := strconv.Atoi(s.others[i])
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

func (s *script) command(l string) {
	words := splitWords(l)
	if len(words) == 0 || strings.HasPrefix(l, "#") {
		return
	}
	set := s.settings(l)
	if strings.HasPrefix(l, " ") {
		s.row(words[0], set)
		return
	}
	s.flush()
	switch words[0] {
	case "new":
		s.m = NewModel(Options{
			Job: set.text("job", ""), Sort: set.text("sort", ""), Filter: set.text("filter", ""), Interval: time.Duration(set.ns("interval")),
			Color: set.text("color", "") != "", ASCII: set.text("ascii", "") != "", Location: time.UTC,
		}).Resize(s.m.width, s.m.height)
	case "size":
		s.m = s.m.Resize(set.whole(0), set.whole(1))
	case "keys":
		for _, key := range set.others {
			typed := ""
			if len([]rune(key)) == 1 {
				typed = key
			}
			s.m = s.m.Key(key, typed)
		}
	case "read":
		s.reading = &Reading{Want: s.m.Want(), Gone: set.text("gone", "") != "", Result: set.text("result", "")}
		if set.values["problem"] != "" {
			s.reading.Problems = []string{set.values["problem"]}
		}
		if !s.reading.Gone || s.reading.Result != "" {
			s.reading.Snapshot = &Snapshot{At: start.Add(time.Duration(set.ns("at"))), Job: Job{
				ID:      set.text("id", "4711"),
				Command: set.text("command", "/opt/heat/bin/heat -n 2048"), MPI: "Open MPI v4.1.4, package: Debian", Nodes: 1, Worlds: 1,
				State: set.text("state", report.StateRunning), Missing: int(set.number("missing", 0)), WorldSize: 8, WallNS: set.ns("at"), IdleNS: set.ns("idle"),
			}}
		}
	default:
		s.t.Fatalf("no command %q", l)
	}
}

// row is a line of what is read.
func (s *script) row(word string, set settings) {
	shot := s.reading.Snapshot
	switch word {
	case "rank":
		r := Rank{
			ID: RankID{"w", set.whole(0), "node1", uint32(set.number("pid", uint64(4000+set.whole(0))))}, State: set.others[1],
			WallNS: set.ns("wall"), BusyNS: set.ns("busy"), Calls: set.number("calls", 0), Bytes: set.number("bytes", 0),
		}
		if name := set.values["in"]; name != "" {
			r.In = []Call{{Name: name, Place: set.text("at", "heat.c:179 (relax in main)"), Comm: "MPI_COMM_WORLD", Peer: -1, Tag: -1, SinceNS: set.ns("for"), Thread: 7}}
		}
		shot.Ranks = append(shot.Ranks, r)
	case "ranks":
		shot.Ranks = large(set.whole(0), shot.At)
	case "wait":
		w := Wait{Name: set.others[0], Place: set.text("at", "heat.c:179 (relax in main)"), World: "w", Ranks: ranksOf(s.t, set.others[1]), SinceNS: set.ns("for")}
		if set.values["missing"] != "" {
			for _, rank := range ranksOf(s.t, set.values["missing"]) {
				w.Missing = append(w.Missing, report.Missing{Rank: rank, Where: set.text("where", "outside MPI, no call for 12.0 s")})
			}
		}
		shot.Waits = append(shot.Waits, w)
	case "act":
		a := &Act{Off: set.values["off"], Messages: set.share("messages"), Bytes: set.share("bytes"), FallBacks: set.number("fallbacks", 0), Wrong: set.number("wrong", 0), Quarantined: set.number("paths", 0)}
		for _, name := range []string{"eager", "read", "written", "fragments"} {
			if set.values[name] != "" {
				a.Ways = append(a.Ways, Way{name, set.share(name)})
			}
		}
		shot.Job.Act = a
	case "deadlock":
		shot.Deadlock = strings.Join(set.others, " ")
	case "late", "place":
		if s.reading.Lateness == nil {
			s.reading.Lateness = &Lateness{At: start, Caused: map[LateRank]float64{}, Findings: []string{"rank 1 arrives last at heat.c:179 in 74 % of 200 MPI_Allreduce calls"}}
		}
		if word == "late" {
			part, err := strconv.ParseFloat(set.others[1], 64)
			if err != nil {
				s.t.Fatal(err)
			}
			s.reading.Lateness.Caused[LateRank{"w", set.whole(0)}] = part
			return
		}
		s.reading.Lateness.Places = append(s.reading.Lateness.Places, LatePlace{
			Name: set.others[0], Place: set.text("at", "heat.c:179 (relax in main)"),
			Comm: "MPI_COMM_WORLD", Calls: set.number("calls", 0), WaitingNS: set.ns("waiting"), SpreadNS: 4_000_000, Last: int(set.number("last", 1)), LastShare: 0.74,
		})
	case "detail":
		s.reading.Detail = detail(s.m.oneID, start.Add(time.Duration(set.ns("at"))), set.number("calls", 1000), set.number("bytes", 1<<20))
	case "job":
		s.reading.Jobs = append(s.reading.Jobs, Found{
			ID: set.others[0], Path: "/dev/shm/mpitrace-0/" + set.others[0], Command: set.text("command", "/opt/heat/bin/heat -n 2048"),
			Ranks: int(set.number("ranks", 4)), Alive: int(set.number("alive", 4)), Unreadable: int(set.number("unreadable", 0)), Start: start,
		})
	case "nojobs":
	default:
		s.t.Fatalf("no row %q", word)
	}
}

// flush hands what was read to the Model.
func (s *script) flush() {
	if s.reading == nil {
		return
	}
	if s.m.Want().Job == "" {
		s.reading.Snapshot = nil
	}
	s.m = s.m.Take(*s.reading)
	s.reading = nil
}

func ranksOf(t *testing.T, text string) []int {
	t.Helper()
	ranges, err := report.ParseRanges(text)
	if err != nil {
		t.Fatal(err)
	}
	var out []int
	for rank := range 10_000 {
		if ranges.Has(rank) {
			out = append(out, rank)
		}
	}
	return out
}

// detail makes up all of a rank.
func detail(id RankID, at time.Time, calls, bytes uint64) *Detail {
	totals := report.Totals{Calls: calls, TimeNS: calls * 1_000_000, Bytes: bytes, MaxNS: 12_000_000}
	d := &Detail{At: at, ID: id, Requests: report.Requests{Started: 2 * calls, Completed: 2*calls - 5}}
	for i, name := range []string{"MPI_Allreduce", "MPI_Waitall", "MPI_Isend", "MPI_Irecv"} {
		totals.TimeNS /= uint64(i + 1)
		d.Functions = append(d.Functions, report.RankFunction{Name: name, Totals: totals})
		d.Places = append(d.Places, Place{name, fmt.Sprintf("heat.c:%d (relax in main)", 179-i), totals})
	}
	for _, peer := range []int32{1, 4, -1} {
		d.Peers = append(d.Peers, report.RankPeer{Rank: peer, Traffic: report.Traffic{SentMessages: calls, SentBytes: bytes, ReceivedMessages: calls, ReceivedBytes: bytes}})
	}
	return d
}

// large makes up the ranks of a large job.
func large(n int, at time.Time) []Rank {
	seconds := uint64(at.Sub(start) / time.Second)
	out := make([]Rank, n)
	for i := range out {
		rank := uint64(i)
		out[i] = Rank{
			ID: RankID{"w", i, "node1", uint32(4000 + i)}, State: report.StateRunning, WallNS: seconds * 1e9,
			BusyNS: seconds * 1e7 * (rank * 7 % 100), Calls: seconds * (1000 + rank), Bytes: seconds * rank * 4096,
		}
		if i%3 == 0 {
			out[i].In = []Call{{Name: "MPI_Allreduce", Place: "heat.c:179 (relax in main)", Peer: -1, Tag: -1, SinceNS: rank * 1000}}
		}
	}
	return out
}

// checkScreen is what must hold of every screen: it fits the terminal, holds no
// control characters but those of styles, and the cursor is on a row.
func checkScreen(t testing.TB, m Model, screen string) {
	t.Helper()
	rows := strings.Split(screen, "\n")
	if len(rows) > m.height {
		t.Errorf("%d lines in a terminal of %d", len(rows), m.height)
	}
	checkRows(t, m, rows)
	length := len(m.rows)
	if m.screen == screenJobs {
		length = len(m.jobs)
	}
	if m.selected < 0 || m.selected > max(0, length-1) || m.scroll < 0 || m.filter != "" && !slices.Equal(m.rows, m.ordered()) {
		t.Errorf("row %d of %d, scrolled by %d", m.selected, length, m.scroll)
	}
	if _, cursor := m.screenText(); cursor >= m.height {
		t.Errorf("the cursor is in line %d of %d", cursor, m.height)
	}
}

// checkRows is what must hold of every line that is written.
func checkRows(t testing.TB, m Model, rows []string) {
	t.Helper()
	for _, row := range rows {
		if w := ansi.StringWidth(row); w > m.width {
			t.Errorf("%d columns in a terminal of %d: %q", w, m.width, row)
		}
		for _, r := range stripStyles(row) {
			if r < ' ' || r >= 0x7f && r < 0xa0 {
				t.Errorf("a control character: %q", row)
			}
			if m.options.ASCII && r > '~' {
				t.Errorf("%q in a terminal without UTF-8: %q", r, row)
			}
		}
	}
}

// stripStyles takes away the sequences that lipgloss writes, and no others.
func stripStyles(row string) string {
	var out strings.Builder
	for {
		before, after, ok := strings.Cut(row, "\x1b[")
		out.WriteString(before)
		if !ok {
			return out.String()
		}
		end := strings.IndexFunc(after, func(r rune) bool { return r != ';' && (r < '0' || r > '9') })
		if end < 0 || after[end] != 'm' {
			out.WriteString("\x1b")
			end = -1
		}
		row = after[end+1:]
	}
}
