package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// verdict answers the question of the report in one sentence.
func (r *Report) verdict() string {
	share := r.Job.Share
	_, uneven := r.uneven()
	switch {
	case share.Max < 0.05:
		return "MPI is not your problem: look at the computation."
	case share.Mean < 0.15 && share.Max < 0.3:
		return "MPI takes a modest part; little is to be gained from it."
	case uneven.Max-uneven.Min > 0.3*uneven.Max && uneven.Max > 0.2:
		return "MPI time differs much between ranks: mostly waiting for slower ranks."
	case share.Mean < 0.4:
		return "MPI takes a good part: the places below are worth a look."
	}
	return "MPI is your problem: most can be gained at the places below."
}

// hasVerdict tells whether there is anything to judge: calls, of ranks that are out of
// MPI_Init.
func (r *Report) hasVerdict() bool {
	return r.Job.Calls > 0 && slices.ContainsFunc(r.Ranks, judged)
}

// share writes the MPI share of time and its balance over the ranks.
func (t *writer) share() {
	t.line(t.v.bold(t.shareHead()))
	if !t.r.hasVerdict() {
		t.blank()
		return
	}
	t.line("  " + t.r.verdict())
	if len(t.r.Ranks) > 1 {
		t.balance()
	}
	if setup := t.setup(); setup != "" {
		t.line(t.v.faint("  " + setup))
	}
	t.blank()
}

// shareHead is the share in one line.
func (t *writer) shareHead() string {
	r, s := t.r, t.r.Job.Share
	if r.Job.Calls == 0 {
		return "No call of MPI has been counted yet"
	}
	if !r.hasVerdict() {
		return "There is nothing to judge yet: MPI_Init has not returned"
	}
	head := fmt.Sprintf("MPI takes %s of the time", percent(s.Mean))
	if len(r.Ranks) > 1 {
		head += fmt.Sprintf(": least %s (rank %d), most %s (rank %d)", percent(s.Min), s.MinRank, percent(s.Max), s.MaxRank)
	}
	return head
}

// balance draws the MPI share of each rank.
func (t *writer) balance() {
	ranks := slices.DeleteFunc(slices.Clone(t.r.Ranks), func(r *Rank) bool { return r.Rank < 0 })
	shares := make([]float64, len(ranks))
	for i, rank := range ranks {
		shares[i] = rank.Share
	}
	folded, each := fold(shares, t.v.width()-24)
	top := max(0.01, slices.Max(folded))
	label := "  share by rank  "
	t.line(label + t.v.spark(folded, top) + "  top: " + percent(top))
	first, last := strconv.Itoa(ranks[0].Rank), strconv.Itoa(ranks[len(ranks)-1].Rank)
	middle := ""
	if each > 1 {
		middle = fmt.Sprintf("each bar is the mean of %d ranks", each)
	}
	gap := max(0, len(folded)-len(first)-len(last)-len(middle))
	if len(folded) >= len(first)+len(last) && len(ranks) > 1 {
		middle = strings.Repeat(" ", gap/2) + middle + strings.Repeat(" ", gap-gap/2) + last
	}
	t.line(strings.Repeat(" ", width(label)) + first + middle)
}

// setup says what MPI_Init and MPI_Finalize took; they are not part of the
// share.
func (t *writer) setup() string {
	var parts []string
	for _, f := range t.r.Functions {
		if f.setup && f.TimeNS > 0 {
			parts = append(parts, f.Name+" "+duration(mean(f.TimeNS, f.Calls)))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "not part of it: " + strings.Join(parts, ", ") + " a rank"
}

// rows is how many rows a table of the overview has: fewer where the calls in
// progress need the place.
func (t *writer) rows(standard int) int {
	if t.r.Job.State == StateFinished {
		return standard
	}
	return standard * 2 / 3
}

// completed qualifies titles where calls in progress matter.
func (t *writer) completed() string {
	for i := range t.r.Stuck {
		if t.r.Stuck[i].SinceNS > hungNS/10 {
			return ", completed calls only"
		}
	}
	return ""
}

// functions writes the functions that take the most time.
func (t *writer) functions() {
	rows := slices.DeleteFunc(slices.Clone(t.r.Functions), func(f *Function) bool { return f.setup || f.Calls == 0 })
	t.some("Functions by time"+t.completed(), len(rows), t.v.top(t.rows(6)), func(n int) *table { return t.r.callTable(rows[:n]) }, t.r.callTable(rows))
}

// sites writes the places that take the most time.
func (t *writer) sites() {
	rows := slices.DeleteFunc(slices.Clone(t.r.Sites), func(s *Site) bool { return setup(s.key.call) || s.Calls == 0 })
	// Findings need place too: the answer is to stay within 40 lines.
	spare := min(4, max(0, len(t.r.Findings)-2))
	t.some("Places by time"+t.completed(), len(rows), t.v.top(t.rows(8-spare)), func(n int) *table { return t.r.siteTable(rows[:n]) }, nil)
}

// some writes the head of a table under a title; the rest is counted.
func (t *writer) some(title string, all, limit int, make func(n int) *table, sortable *table) {
	if sortable != nil && t.v.Sort != "" && sortable.sortRows(t.v.Sort) == nil {
		sortable.rows = sortable.rows[:min(limit, len(sortable.rows))]
		t.titled(strings.Replace(title, "time", t.v.Sort, 1), sortable, all)
		return
	}
	t.titled(title, make(min(all, limit)), all)
}

// titled writes a table with its title in place of the head of its first
// column.
func (t *writer) titled(title string, table *table, all int) {
	if len(table.rows) == 0 {
		t.line(t.v.bold(title) + ": " + table.empty)
		t.blank()
		return
	}
	if all > len(table.rows) {
		title += fmt.Sprintf(" (%d of %d)", len(table.rows), all)
	}
	t.line(t.v.bold(title))
	for _, line := range table.lines(t.v) {
		t.line(line)
	}
	if table.note != "" {
		t.line(t.v.faint("  " + table.note))
	}
	t.blank()
}

// sizes draws the sizes of all messages.
func (t *writer) sizes() {
	var counts [64]uint64
	var total uint64
	for _, f := range t.r.Functions {
		for i, n := range f.sizes {
			counts[i] += n
			total += n
		}
	}
	if total == 0 {
		return
	}
	first, last := 0, 63
	for counts[first] == 0 {
		first++
	}
	for counts[last] == 0 {
		last--
	}
	values := make([]float64, 0, 64)
	heaviest := first
	for i := first; i <= last; i++ {
		values = append(values, float64(counts[i]))
		if counts[i] > counts[heaviest] {
			heaviest = i
		}
	}
	text := fmt.Sprintf("  %s of messages are %s", percent(ratio(counts[heaviest], total)), binText(heaviest))
	second := -1
	for i := first; i <= last; i++ {
		if i != heaviest && counts[i] > 0 && (second < 0 || counts[i] > counts[second]) {
			second = i
		}
	}
	if second >= 0 {
		text += fmt.Sprintf(", %s %s", percent(ratio(counts[second], total)), binText(second))
	}
	if second < 0 {
		t.line(t.v.bold("Sizes") + "  all messages are " + binText(first))
		return
	}
	t.line(t.v.bold("Sizes") + "  " + binText(first) + " " + t.v.spark(values, slices.Max(values)) + " " + binText(last) + text)
}

// binText names the sizes of a bin.
func binText(bin int) string {
	switch bin {
	case 0:
		return "0 B"
	case 1:
		return "1 B"
	}
	low, high := binaryText(1<<(bin-1)), binaryText(1<<min(bin, 62))
	if number, unit, _ := strings.Cut(low, " "); strings.HasSuffix(high, " "+unit) {
		low = number
	}
	return low + "-" + high
}

// peers says who exchanges most.
func (t *writer) peers() {
	pairs := t.r.Pairs
	if len(pairs) == 0 {
		return
	}
	m := t.r.Job.Messages
	t.line(t.v.bold("Messages") + fmt.Sprintf("  %s sent in %s, mean %s; heaviest pairs:", bytesText(m.SentBytes), countText(m.SentMessages), bytesText(mean(m.SentBytes, m.SentMessages))))
	var parts []string
	for _, p := range pairs[:min(len(pairs), t.v.top(4))] {
		parts = append(parts, fmt.Sprintf("%d → %s %s", p.From, peerName(p.To), bytesText(p.Bytes)))
	}
	t.wrap("  ", strings.Join(parts, " · "))
	t.blank()
}
