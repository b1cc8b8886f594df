package report

import (
	"fmt"
	"slices"
	"strings"
)

// withinError is said where the clocks show no spread.
const withinError = "balanced within the clock error"

// arrivalTable has a row for each place of a collective; the last column,
// which is not shown, is the index into list.
func (r *Report) arrivalTable(list []*Arrival) *table {
	t := &table{title: "Arrival", order: map[string]int{"name": 0, "calls": 3, "time": 6}, spare: []string{"operation", "error", "communicator"},
		empty: "no collective operations were sampled (one rank, no collectives, or MPITRACE_ARRIVAL=0)",
		columns: []column{{"function", "function", unitText, false}, {"place", "place", unitText, true}, {"communicator", "comm", unitText, true},
			{"calls", "operations", unitCount, false}, {"spread", "worst_mean_ns", unitNS, false}, {"", "worst_p95_ns", unitNS, false},
			{"waiting", "waiting_ns", unitNS, false}, {"error", "", unitText, false}, {"operation", "beyond_ns", unitNS, false}, {"last", "", unitText, false},
			{"", "waiting_error_ns", unitText, false}, {"", "sampled", unitRank, false}, {"", "size", unitRank, false}, {"", "ranks_seen", unitRank, false},
			{"", "average_mean_ns", unitNS, false}, {"", "worst_max_ns", unitNS, false}, {"", "bound_ns", unitNS, false}, {"", "balanced", unitRank, false},
			{"", "last_rank", unitText, false}, {"", "last_share", unitShare, false}, {"", "", unitRank, false}}}
	if !slices.ContainsFunc(list, func(a *Arrival) bool { return a.Waiting.ErrorNS != 0 }) {
		t.columns[7].head = "" // all operations were sampled
	}
	if r.unaligned > 0 {
		t.empty = countText(uint64(r.unaligned)) + " collective operations were sampled, but on clocks that cannot be compared"
	}
	for i, a := range list {
		last, known := a.lastRank()
		rank := ""
		if known {
			rank = fmt.Sprint(last.Rank)
		}
		t.rows = append(t.rows, []any{a.Function.Name, r.location(a.Site), a.Comm, a.Operations, a.Worst.Mean, a.Worst.P95, a.Waiting.NS, a.Waiting.errorText(),
			a.Beyond.NS, a.lastText(), fmt.Sprint(a.Waiting.ErrorNS), a.Sampled, a.Size, a.RanksSeen, a.Average.Mean, a.Worst.Max, a.BoundNS, a.Balanced,
			rank, last.Share, i})
	}
	return t
}

// errorText is the standard error of an extrapolation.
func (e *Estimate) errorText() string {
	switch {
	case e.ErrorNS < 0:
		return "?"
	case e.ErrorNS == 0:
		return ""
	}
	return duration(uint64(e.ErrorNS))
}

// text is a sum with its error.
func (e *Estimate) text() string {
	text := duration(e.NS)
	switch {
	case e.ErrorNS < 0:
		text += " (from one sample)"
	case e.ErrorNS > 0:
		text += " ± " + duration(uint64(e.ErrorNS))
	}
	return text
}

// lastText says who is last most often; of an operation that all need the root
// of, whether the root is.
func (a *Arrival) lastText() string {
	last, known := a.lastRank()
	switch {
	case a.balanced():
		return "balanced"
	case a.rooted && a.Waiting.NS == 0:
		return "root in time"
	case a.rooted && len(a.Ranks) > 0 && a.Ranks[0].CausedNS*2 > a.Waiting.NS:
		return fmt.Sprintf("root: rank %d", a.Ranks[0].Rank)
	case a.rooted:
		return "roots differ"
	case !known:
		return "open"
	}
	return fmt.Sprintf("rank %d, %s", last.Rank, percent(last.Share))
}

// arrivals writes all figures of each place.
func (t *writer) arrivals() error {
	table, all, err := t.r.chosen(t.v, standardRows)
	if err != nil {
		return err
	}
	if len(table.rows) == 0 {
		t.line("  " + table.empty)
		return nil
	}
	for _, row := range table.rows {
		if index, ok := row[len(row)-1].(int); ok {
			t.arrival(t.r.Arrivals[index])
		}
	}
	if rest := all - len(table.rows); rest > 0 {
		t.line(t.v.faint(fmt.Sprintf("  … and %s more (--top %d shows all)", countText(uint64(rest)), all)))
	}
	t.clocks()
	return nil
}

// arrival writes one place.
func (t *writer) arrival(a *Arrival) {
	t.line(t.v.bold(cut(fmt.Sprintf("%s at %s on %s", a.Function.Name, t.r.place(a.Site), a.Comm), t.v.width(), false)))
	if len(a.others) > 0 {
		t.wrap("  "+pad("also at", 10, false), t.r.spots(a.others, 2)+": other ranks call it there")
	}
	for _, row := range a.describe(t.r.Network) {
		t.wrap("  "+pad(row[0], 10, false), row[1])
	}
	t.blank()
}

// describe is the figures of a place as heads and texts; network may be nil.
func (a *Arrival) describe(network *Network) [][2]string {
	out := [][2]string{{"calls", a.callsText()}}
	if a.balanced() {
		out = append(out, [2]string{"spread", withinError})
	} else {
		out = append(out, [2]string{"spread", "last - first: " + a.Worst.text()}, [2]string{"", "from the mean: " + a.Average.text()})
	}
	out = append(out, [2]string{"factors", a.factorsText(network)}, [2]string{"cost", a.costText()})
	if !a.balanced() {
		out = append(out, [2]string{"last", a.lastRanksText()}, [2]string{"awaited", a.awaitedText()}, [2]string{"pattern", a.patternText()})
	}
	return append(out, [2]string{"clock", a.clockText()})
}

func (d *Distribution) text() string {
	return fmt.Sprintf("mean %s, median %s, 95 %% %s, most %s", duration(d.Mean), duration(d.P50), duration(d.P95), duration(d.Max))
}

func (a *Arrival) callsText() string {
	text := fmt.Sprintf("%s, %s sampled; %d of %s seen", countText(a.Operations), countText(uint64(a.Sampled)), a.RanksSeen, plural(a.Size, "rank"))
	if a.RanksSeen < a.Size {
		text += ": spread and waiting are lower bounds"
	}
	var left []string
	for _, l := range []struct {
		n   int
		why string
	}{{a.Incomplete, "with ranks missing"}, {a.Unaligned, "on clocks that cannot be compared"}, {a.Impossible, "left before they were entered"}} {
		if l.n > 0 {
			left = append(left, fmt.Sprintf("%s %s", countText(uint64(l.n)), l.why))
		}
	}
	if len(left) > 0 {
		text += "; left out: " + strings.Join(left, ", ")
	}
	return text
}

func (a *Arrival) factorsText(network *Network) string {
	if a.Factors == nil || network == nil {
		return "withheld: the time of a message is not known (--network, or mpitrace bench latency)"
	}
	return fmt.Sprintf("last - first is %s times a message of this size, the mean distance %s times (%s)", digits(a.Factors.Worst), digits(a.Factors.Average), network.sourceText())
}

func (a *Arrival) costText() string {
	if a.WithoutCost == a.Sampled {
		return fmt.Sprintf("%s in the operation; who waits for whom is not known (%s)", a.Blocked.text(), a.Dependency)
	}
	text := fmt.Sprintf("%s waiting, %s the operation itself", a.Waiting.text(), a.Beyond.text())
	if a.Unclaimed.NS > 0 {
		text += fmt.Sprintf(", %s within the clock error", duration(a.Unclaimed.NS))
	}
	return text + ", summed over ranks"
}

// lastRanksText lists the ranks that come last.
func (a *Arrival) lastRanksText() string {
	ranks := slices.Clone(a.Ranks)
	slices.SortStableFunc(ranks, func(x, y ArrivalRank) int { return y.Last - x.Last })
	var parts []string
	for _, r := range ranks {
		if r.Last > 0 {
			parts = append(parts, fmt.Sprintf("rank %d %s", r.Rank, percent(r.Share)))
		}
	}
	parts = first(parts)
	if a.Undecided > 0 {
		parts = append(parts, fmt.Sprintf("open in %s", percent(ratio(uint64(a.Undecided), uint64(a.Sampled)))))
	}
	return strings.Join(parts, ", ")
}

// awaitedText lists the ranks that others wait for, which are not always
// those that come last most often.
func (a *Arrival) awaitedText() string {
	var parts []string
	for _, r := range a.Ranks {
		if r.CausedNS > 0 {
			parts = append(parts, fmt.Sprintf("rank %d %s", r.Rank, duration(r.CausedNS)))
		}
	}
	parts = first(parts)
	if a.UndecidedNS > 0 {
		parts = append(parts, duration(a.UndecidedNS)+" open")
	}
	if len(parts) == 0 {
		return "nobody"
	}
	return strings.Join(parts, ", ")
}

// first shortens a list of ranks.
func first(parts []string) []string {
	const shown = 4
	if len(parts) > shown {
		return append(parts[:shown:shown], "…")
	}
	return parts
}

func (a *Arrival) patternText() string {
	p := &a.Pattern
	switch {
	case p.Persistent && p.ByPrevious:
		return fmt.Sprintf("persistent: who was last is last again; right at least %s of the time", percent(p.Confidence))
	case p.Persistent:
		return fmt.Sprintf("persistent: rank %d can be expected to be last; right at least %s of the time", p.Predicted, percent(p.Confidence))
	case a.Sampled < 6:
		return "too few samples"
	}
	return fmt.Sprintf("not persistent: the same rank is last twice in a row in %s, by chance it would be in %s", percent(p.Repeat), percent(p.Chance))
}

func (a *Arrival) clockText() string {
	text := "arrivals are exact to " + duration(max(1, a.BoundNS))
	if a.BoundMax > a.BoundNS {
		text += ", at worst " + duration(a.BoundMax)
	}
	if a.Balanced > 0 && !a.balanced() {
		text += fmt.Sprintf("; %s of the samples are balanced within that", countText(uint64(a.Balanced)))
	}
	return text
}

// clocks writes how the clocks compare.
func (t *writer) clocks() {
	for _, line := range t.r.clockLines() {
		t.wrap("  clocks: ", line)
	}
}
