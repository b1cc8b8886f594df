package report

import (
	"bufio"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"unicode"
)

// WriteText writes the report for people.
func (r *Report) WriteText(w io.Writer, v View) error {
	out := bufio.NewWriter(w)
	t := &writer{Writer: out, r: r, v: &v}
	t.job()
	if v.By != "" {
		if err := t.single(); err != nil {
			return err
		}
	} else {
		t.overview()
	}
	return out.Flush()
}

// writer writes one text report.
type writer struct {
	*bufio.Writer
	r *Report
	v *View
}

// line writes a line no wider than the view; format errors of the buffer
// surface in Flush.
func (t *writer) line(text string) {
	if t.v.ASCII {
		text = ascii(text)
	}
	fmt.Fprintln(t, text)
}

func (t *writer) blank() { t.line("") }

// ascii replaces the few other characters that reports use.
func ascii(text string) string {
	return strings.NewReplacer("…", "~", "→", "->", "·", "|", "×", "x", "–", "-", "±", "+-", "≥", ">").Replace(text)
}

// wrap writes a paragraph with a hanging indent behind a mark.
func (t *writer) wrap(mark, text string) {
	indent := strings.Repeat(" ", width(mark))
	line := mark
	empty := true
	for _, word := range words(text) {
		if !empty && width(line)+1+width(word) > t.v.width() {
			t.line(line)
			line, empty = indent, true
		}
		if !empty {
			line += " "
		}
		line += word
		empty = false
	}
	t.line(line)
}

// words splits a text where a line may end: not before the unit of a figure.
func words(text string) []string {
	var out []string
	for word := range strings.FieldsSeq(text) {
		if n := len(out); n > 0 && isUnit(word) && unicode.IsDigit(rune(out[n-1][len(out[n-1])-1])) {
			out[n-1] += " " + word
			continue
		}
		out = append(out, word)
	}
	return out
}

// isUnit knows the units of figures, with a mark behind them or not.
func isUnit(word string) bool {
	return slices.Contains([]string{"%", "ns", "us", "ms", "s", "h", "B", "kB", "MB", "GB", "TB", "KiB", "MiB", "GiB"}, strings.TrimRight(word, ",;:.)"))
}

// job writes what the job is, and first of all why it does not go on.
func (t *writer) job() {
	t.line(t.v.bold(cut(t.command(), t.v.width(), false)))
	t.line(cut(strings.Join(t.facts(), " · "), t.v.width(), false))
	t.blank()
}

// command is what was started, without the folder of the program.
func (t *writer) command() string {
	command := t.r.Job.Command
	if first, rest, ok := strings.Cut(command, " "); ok && strings.HasPrefix(first, "/") {
		command = path.Base(first) + " " + rest
	}
	return command
}

// facts is where, when and how long it ran, and how it ended.
func (t *writer) facts() []string {
	job := &t.r.Job
	mpi, _, _ := strings.Cut(job.MPI, ",")
	facts := []string{plural(job.Ranks, "rank") + " on " + plural(len(job.Nodes), "node")}
	if mpi != "" {
		facts = append(facts, mpi)
	}
	wall := duration(job.WallNS)
	if job.State == StateDied {
		wall = "at least " + wall
	}
	return append(facts, t.v.day(job.Start), wall, t.state())
}

// state is the state of the job in a few words.
func (t *writer) state() string {
	job := &t.r.Job
	text := job.State
	switch {
	case job.Signal != "":
		text += " (" + job.Signal + ")"
	case job.ExitStatus != nil && *job.ExitStatus != 0:
		text += fmt.Sprintf(" (status %d)", *job.ExitStatus)
	}
	return text
}

// single writes the one view that the user asked for.
func (t *writer) single() error {
	switch t.v.By {
	case "arrival":
		return t.arrivals()
	case "reuse":
		return t.reuse()
	case "overlap":
		return t.overlap()
	}
	return t.plain()
}

// plain writes the one table of the view.
func (t *writer) plain() error {
	table, all, err := t.r.chosen(t.v, standardRows)
	if err != nil {
		return err
	}
	t.table(table, all)
	return nil
}

// table writes a table and says how many rows are not shown.
func (t *writer) table(table *table, all int) {
	if len(table.rows) == 0 {
		t.line("  " + table.empty)
		return
	}
	for _, line := range table.lines(t.v) {
		t.line(line)
	}
	if table.note != "" {
		t.line(t.v.faint("  " + table.note))
	}
	if rest := all - len(table.rows); rest > 0 {
		t.line(t.v.faint(fmt.Sprintf("  … and %s more (--top %d shows all)", countText(uint64(rest)), all)))
	}
}

// overview answers: is MPI my problem?
func (t *writer) overview() {
	job := &t.r.Job
	if job.State != StateFinished {
		t.stuck()
	}
	t.share()
	if job.Calls > 0 {
		t.functions()
		t.sites()
		t.sizes()
		t.peers()
	}
	t.findings()
	t.own()
	t.sections()
}

// stuck says who waits where, for how long, and for whom.
func (t *writer) stuck() {
	r := t.r
	head := t.v.bold(t.stuckHead())
	if r.Job.State != StateRunning {
		head = t.v.alarm(t.stuckHead())
	}
	t.line(head)
	shown := min(len(r.Stuck), t.v.top(6))
	if shown > 0 {
		t.table(t.stuckTable(shown), len(r.Stuck))
	} else if r.Job.State == StateDied {
		t.line("  no rank was inside MPI")
	}
	for _, text := range r.Findings {
		if strings.HasPrefix(text, deadlock) {
			t.wrap("  > ", text)
		}
	}
	for _, g := range r.Stuck[:shown] {
		for _, text := range t.missing(&g) {
			t.wrap("  > ", text)
		}
	}
	t.blank()
}

// stuckHead is the state of a job that did not finish.
func (t *writer) stuckHead() string {
	switch r := t.r; {
	case r.Job.State == StateHung:
		return "HUNG: no rank has begun a call for " + duration(r.Job.IdleNS)
	case r.Job.State == StateDied:
		return "DIED: " + t.died()
	case len(r.Stuck) > 0:
		return "In progress now"
	}
	return "In progress now: no rank is inside MPI"
}

// died says how a dead job ended.
func (t *writer) died() string {
	by := map[string][]int{}
	for _, rank := range t.r.Ranks {
		by[rank.State] = append(by[rank.State], rank.Rank)
	}
	var parts []string
	for _, kind := range []struct{ state, text string }{
		{StateAborted, "%s called MPI_Abort"}, {StateExited, "%s left by exit() without MPI_Finalize"}, {StateDied, "%s ended without MPI_Finalize"},
	} {
		if list := by[kind.state]; len(list) > 0 {
			parts = append(parts, fmt.Sprintf(kind.text, ranksText(list)))
		}
	}
	if missing := t.r.Job.MissingRanks; len(missing) > 0 {
		parts = append(parts, ranksText(missing)+" left no data")
	}
	return strings.Join(parts, ", ")
}

func (t *writer) stuckTable(rows int) *table {
	when := "since"
	if t.r.Job.State == StateDied && t.r.Job.End != "" {
		when = "until the end"
	}
	out := &table{columns: []column{{"ranks", "", unitText, true}, {"in", "", unitText, false}, {"place", "", unitText, true},
		{"communicator", "", unitText, true}, {"peer", "", unitText, false}, {"tag", "", unitText, false}, {when, "", unitText, false}}}
	for _, g := range t.r.Stuck[:rows] {
		ranks := formatRanks(g.Ranks, 4)
		since := "just now"
		if g.SinceNS > 0 {
			since = duration(g.SinceNS)
		}
		clock := t.v.clock(g.Entered)
		switch {
		case when == "since" && t.r.Job.State == StateDied:
			since = clock // when it ended is not known
		case clock != "":
			since += " (" + clock + ")"
		}
		out.rows = append(out.rows, []any{ranks, g.Name, t.r.place(g.Site), g.Comm, same(g.Peers), same(g.Tags), since})
	}
	return out
}

// same writes what all ranks of a group have in common.
func same(values []int32) string {
	low, high := slices.Min(values), slices.Max(values)
	switch {
	case high < 0:
		return "-"
	case low == high:
		return fmt.Sprint(low)
	}
	return "various"
}

// missing names the ranks that a group waits for, those with the same excuse
// together; of a running job only if it waits for long.
func (t *writer) missing(g *Stuck) []string {
	if t.r.Job.State == StateRunning && g.SinceNS <= 1e9 {
		return nil
	}
	var out []string
	excuses := map[string][]int{}
	var order []string
	for _, m := range g.Missing {
		if excuses[m.Where] == nil {
			order = append(order, m.Where)
		}
		excuses[m.Where] = append(excuses[m.Where], m.Rank)
	}
	// Ranks that are in a call of MPI wait for others themselves.
	waits := func(where string) int { return int(one(strings.HasPrefix(where, "in MPI_"))) }
	slices.SortStableFunc(order, func(a, b string) int { return waits(a) - waits(b) })
	for i, where := range order {
		if i == 4 {
			out = append(out, fmt.Sprintf("… and %d more (--json lists all)", len(order)-i))
			break
		}
		what := "awaited by " + ranksText(g.Ranks)
		if collective(g.call) {
			what = "missing in " + g.Name
		}
		out = append(out, ranksText(excuses[where])+", "+what+": "+where)
	}
	return out
}

// findings writes the sentences, and what could not be read.
func (t *writer) findings() {
	for _, text := range t.r.Findings {
		// The head of the report has said these.
		said := strings.HasPrefix(text, deadlock) || t.r.Job.State == StateDied && strings.HasPrefix(text, "incomplete: ")
		if !said {
			t.wrap("* ", text)
		}
	}
	const shown = 5
	for _, text := range t.r.Problems[:min(shown, len(t.r.Problems))] {
		t.wrap("! ", clean(text))
	}
	if rest := len(t.r.Problems) - shown; rest > 0 {
		t.line(fmt.Sprintf("! … and %s (--json lists all)", plural(rest, "more problem")))
	}
}

// own writes what mpitrace itself cost.
func (t *writer) own() { t.wrap("mpitrace itself: ", t.ownText()) }

func (t *writer) ownText() string {
	own := &t.r.Job.Own
	bytes := (own.SegmentBytes + own.PrivateBytes) / uint64(max(1, t.r.Job.Ranks))
	return fmt.Sprintf("%s ns × %s calls + start and end = %s, %s of the run; %s a rank",
		digits(own.NSPerCall), countText(own.Calls), duration(own.TimeNS), percent(own.Share), bytesText(bytes))
}
