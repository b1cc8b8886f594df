package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/mpitrace/mpitrace/segment"
)

// Act is what a job in act mode carried itself, and why not the rest; nil of a
// job that was not to act. docs/act.md describes what the ranks write down.
type Act struct {
	Verdicts  []ActVerdict  `json:"verdicts"`
	Ledgers   int           `json:"ledgers"` // ranks that came to write one, at MPI_Finalize
	Messages  uint64        `json:"messages"`
	Bytes     uint64        `json:"bytes"`
	Sent      uint64        `json:"sent_messages"` // by the same ranks, as observed: ours and the library's
	SentBytes uint64        `json:"sent_bytes"`
	Ways      []ActWay      `json:"ways"`
	Decisions []ActDecision `json:"decisions"`
	Left      []ActLeft     `json:"left"` // to the MPI library, most first
	Counts    ActCounts     `json:"counts"`
	ranks     map[string]bool
}

// ActVerdict is what the ranks of a world were told.
type ActVerdict struct {
	World  string `json:"world"`
	Ranks  int    `json:"ranks"`
	Policy string `json:"policy"` // hash
	Act    bool   `json:"act"`
	Reason string `json:"reason,omitempty"` // of observing
}

// ActWay is what went by one protocol.
type ActWay struct {
	Name     string `json:"name"`
	Messages uint64 `json:"messages"`
	Bytes    uint64 `json:"bytes"`
}

// ActDecision is what was tried for the messages of a communicator and size, over
// the ranks that tried it.
type ActDecision struct {
	Communicator     string    `json:"communicator"`
	From             uint64    `json:"from"`
	To               uint64    `json:"to"` // less than; 0: no limit
	Known            string    `json:"known"`
	Newcomer         string    `json:"newcomer"`
	Ranks            int       `json:"ranks"`
	Kept             int       `json:"kept"`      // ranks that take the newcomer
	Retreated        int       `json:"retreated"` // that do not
	Trying           int       `json:"trying"`    // that have not decided yet
	Change           float64   `json:"change"`    // newcomer's time over known's less 1, mean over ranks that decided
	Pairs            uint64    `json:"pairs"`     // of epochs that were compared
	FallBacks        uint64    `json:"fall_backs"`
	DecidedNS        uint64    `json:"decided_ns"` // the latest decision, since the beginning
	Messages         uint64    `json:"messages"`
	NewcomerMessages uint64    `json:"newcomer_messages"`
	Bytes            uint64    `json:"bytes"`
	Reasons          []ActLeft `json:"reasons"` // ranks by reason
}

// ActLeft is how often something happened for a reason.
type ActLeft struct {
	Reason string `json:"reason"`
	Count  uint64 `json:"count"`
}

// ActCounts are sums over the ranks.
type ActCounts struct {
	Unexpected   uint64 `json:"unexpected_messages"`
	Copied       uint64 `json:"copied_bytes"`
	Packed       uint64 `json:"packed_bytes"`
	CreditStalls uint64 `json:"credit_stalls"`
	FallBacks    uint64 `json:"fall_backs"`
	Verified     uint64 `json:"verified_messages"`
	Wrong        uint64 `json:"wrong_messages"`
	Quarantined  uint64 `json:"quarantined_paths"`
}

// ledgerFile is act-WORLD-RANK.json.
type ledgerFile struct {
	World     string            `json:"world"`
	Rank      int               `json:"rank"`
	Counts    map[string]uint64 `json:"counts"`
	Left      map[string]uint64 `json:"left"`
	Decisions []ledgerDecision  `json:"decisions"`
}

type ledgerDecision struct {
	Communicator     string  `json:"communicator"`
	From             uint64  `json:"from"`
	To               uint64  `json:"to"`
	Chosen           string  `json:"chosen"`
	RunnerUp         string  `json:"runner_up"`
	Newcomer         string  `json:"newcomer"`
	State            string  `json:"state"`
	Reason           string  `json:"reason"`
	Change           float64 `json:"change"`
	Pairs            uint64  `json:"pairs"`
	FallBacks        uint64  `json:"fall_backs"`
	DecidedNS        uint64  `json:"decided_ns"`
	Messages         uint64  `json:"messages"`
	NewcomerMessages uint64  `json:"newcomer_messages"`
	Bytes            uint64  `json:"bytes"`
}

// ways are the protocols, and how the counts of a ledger begin for each.
var ways = []struct{ name, count string }{
	{"eager", "eager"}, {"eager, straight from its buffer", "zero_copy"}, {"read by the receiver", "read"}, {"written by the sender", "written"}, {"in fragments", "fragment"},
}

// leftTexts say what the reasons of a ledger mean.
var leftTexts = map[string]string{
	"communicators_of_library":     "communicators made from one of the MPI library's",
	"intercommunicators":           "intercommunicators, and what was merged from one",
	"communicators_of_processes":   "communicators with spawned or joined processes",
	"communicators_of_sessions":    "communicators of sessions",
	"communicators_by_idup":        "communicators made by MPI_Comm_idup",
	"communicators_without_memory": "communicators for which a rank had no memory",
	"messages_of_communicators":    "messages sent in communicators of the MPI library's",
	"bytes_of_communicators":       "bytes sent in communicators of the MPI library's",
	"messages_by_arguments":        "messages whose arguments the MPI library was to judge",
}

// reasonTexts say what the reasons of decisions mean.
var reasonTexts = map[string]string{
	"open": "not decided yet", "faster": "faster", "slower": "slower", "no-loss": "no loss", "no-gain": "no gain",
}

// addAct reads what job.json and the ledgers say.
func (b *builder) addAct(job []byte, ledgers []segment.NamedText) {
	var file struct {
		Act []ActVerdict `json:"act"`
	}
	if json.Unmarshal(job, &file) != nil || file.Act == nil {
		file.Act = []ActVerdict{}
	}
	if len(file.Act) == 0 && len(ledgers) == 0 {
		return
	}
	a := &Act{Verdicts: file.Act, Decisions: []ActDecision{}, Left: []ActLeft{}, ranks: map[string]bool{}}
	for i := range a.Verdicts {
		v := &a.Verdicts[i]
		v.World, v.Policy, v.Reason = clean(v.World), clean(v.Policy), clean(v.Reason)
	}
	for _, way := range ways {
		a.Ways = append(a.Ways, ActWay{Name: way.name})
	}
	b.report.Act = a
	for _, text := range ledgers {
		var ledger ledgerFile
		if err := json.Unmarshal(text.Data, &ledger); err != nil {
			b.problem(text.Name + ": " + err.Error())
			continue
		}
		if b.options.Ranks.Has(ledger.Rank) {
			a.add(&ledger)
		}
	}
	slices.SortFunc(a.Left, func(x, y ActLeft) int {
		return cmp.Or(-cmp.Compare(x.Count, y.Count), strings.Compare(x.Reason, y.Reason))
	})
	slices.SortStableFunc(a.Decisions, func(x, y ActDecision) int {
		return cmp.Or(-cmp.Compare(x.Bytes, y.Bytes), strings.Compare(x.Communicator, y.Communicator), cmp.Compare(x.From, y.From))
	})
	for _, r := range b.report.Ranks {
		if a.ranks[fmt.Sprint(r.World, " ", r.Rank)] {
			a.Sent += r.Messages.SentMessages
			a.SentBytes += r.Messages.SentBytes
		}
	}
}

// add takes one rank over.
func (a *Act) add(l *ledgerFile) {
	a.Ledgers++
	a.ranks[fmt.Sprint(l.World, " ", l.Rank)] = true
	a.Messages += l.Counts["eager_messages"] + l.Counts["rendezvous_messages"]
	a.Bytes += l.Counts["eager_bytes"] + l.Counts["rendezvous_bytes"]
	for i, way := range ways {
		a.Ways[i].Messages += l.Counts[way.count+"_messages"]
		a.Ways[i].Bytes += l.Counts[way.count+"_bytes"]
	}
	copied := &a.Ways[0] // the ledger counts all eager ones here
	copied.Messages -= min(copied.Messages, l.Counts["zero_copy_messages"])
	copied.Bytes -= min(copied.Bytes, l.Counts["zero_copy_bytes"])
	c := &a.Counts
	for name, sum := range map[string]*uint64{
		"unexpected_messages": &c.Unexpected, "copied_bytes": &c.Copied, "packed_bytes": &c.Packed, "credit_stalls": &c.CreditStalls,
		"fall_backs": &c.FallBacks, "verified_messages": &c.Verified, "wrong_messages": &c.Wrong, "quarantined_paths": &c.Quarantined,
	} {
		*sum += l.Counts[name]
	}
	for name, n := range l.Left {
		a.Left = count(a.Left, cmp.Or(leftTexts[name], clean(name)), n)
	}
	for i := range l.Decisions {
		a.addDecision(&l.Decisions[i])
	}
}

func count(list []ActLeft, reason string, n uint64) []ActLeft {
	for i := range list {
		if list[i].Reason == reason {
			list[i].Count += n
			return list
		}
	}
	return append(list, ActLeft{reason, n})
}

func (a *Act) addDecision(l *ledgerDecision) {
	known := l.Chosen
	if l.Chosen == l.Newcomer {
		known = l.RunnerUp
	}
	key := ActDecision{Communicator: clean(l.Communicator), From: l.From, To: l.To, Known: clean(known), Newcomer: clean(l.Newcomer)}
	i := slices.IndexFunc(a.Decisions, func(d ActDecision) bool {
		return d.Communicator == key.Communicator && d.From == key.From && d.Known == key.Known && d.Newcomer == key.Newcomer
	})
	if i < 0 {
		i = len(a.Decisions)
		a.Decisions = append(a.Decisions, key)
	}
	d := &a.Decisions[i]
	d.Ranks++
	decided := d.Kept + d.Retreated
	switch {
	case l.Reason == "open":
		d.Trying++
	case l.Chosen == l.Newcomer:
		d.Kept++
	default:
		d.Retreated++
	}
	if now := d.Kept + d.Retreated; now > decided {
		d.Change += (l.Change - d.Change) / float64(now)
	}
	d.Pairs += l.Pairs
	d.FallBacks += l.FallBacks
	d.DecidedNS = max(d.DecidedNS, l.DecidedNS)
	d.Messages += l.Messages
	d.NewcomerMessages += l.NewcomerMessages
	d.Bytes += l.Bytes
	d.Reasons = count(d.Reasons, cmp.Or(reasonTexts[l.Reason], clean(l.Reason)), 1)
}

// ---- as text ----

// Lines says what the figures mean, sentence by sentence.
func (a *Act) Lines() []string {
	var out []string
	for _, v := range a.Verdicts {
		text := fmt.Sprintf("%s acted, with the policy %s", plural(v.Ranks, "rank"), v.Policy)
		if !v.Act {
			text = fmt.Sprintf("%s only observed: %s", plural(v.Ranks, "rank"), v.Reason)
		}
		out = append(out, text)
	}
	switch {
	case a.Ledgers == 0:
		return append(out, "no rank came to write down what it carried, which it does at MPI_Finalize")
	case a.Messages == 0:
		out = append(out, "no point-to-point message was sent that mpitrace could have carried")
	case a.Sent == 0:
		out = append(out, fmt.Sprintf("carried %s and %s; how many there were in all was not observed", plural(int(min(a.Messages, 1<<62)), "message"), bytesText(a.Bytes)))
	default:
		out = append(out, fmt.Sprintf("carried %s and %s of the %s and %s that %s sent: %s of the messages, %s of the bytes", plural(int(min(a.Messages, 1<<62)), "message"),
			bytesText(a.Bytes), plural(int(min(a.Sent, 1<<62)), "message"), bytesText(a.SentBytes), plural(a.Ledgers, "rank"), shareText(a.Messages, a.Sent), shareText(a.Bytes, a.SentBytes)))
	}
	for _, l := range a.Left {
		out = append(out, "left to the MPI library: "+countText(l.Count)+" "+l.Reason)
	}
	c := &a.Counts
	if c.Verified > 0 {
		out = append(out, fmt.Sprintf("%s verified: %s not what was sent, %s given up for that", plural(int(min(c.Verified, 1<<62)), "message"), countText(c.Wrong), plural(int(min(c.Quarantined, 1<<62)), "path")))
	}
	if c.FallBacks > 0 {
		out = append(out, countText(c.FallBacks)+" times a protocol that had been faster was given up again")
	}
	if len(a.Decisions) == 0 {
		out = append(out, "nothing was tried: the policy left no choice for the messages that were sent, or there were none of the kind")
	}
	return out
}

// shareText is a share of what was observed, which may count otherwise.
func shareText(part, all uint64) string {
	return percent(min(1, float64(part)/float64(max(1, all))))
}

func (r *Report) actWays() *table {
	t := &table{columns: []column{{"protocol", "", unitText, false}, {"messages", "", unitCount, false}, {"bytes", "", unitBytes, false}, {"of the bytes", "", unitShare, false}},
		empty: "mpitrace carried no message"}
	for _, w := range r.Act.Ways {
		if w.Messages > 0 {
			t.rows = append(t.rows, []any{w.Name, w.Messages, w.Bytes, ratio(w.Bytes, r.Act.Bytes)})
		}
	}
	return t
}

func (r *Report) actDecisions() *table {
	t := &table{columns: []column{{"communicator", "", unitText, false}, {"payload", "", unitText, false}, {"tried", "", unitText, false}, {"ranks", "", unitCount, false},
		{"kept by", "", unitCount, false}, {"time", "", unitText, false}, {"pairs", "", unitCount, false}, {"messages", "", unitCount, false}, {"shown", "", unitText, false}},
		spare: []string{"pairs"}, empty: "nothing was tried"}
	for i := range r.Act.Decisions {
		d := &r.Act.Decisions[i]
		change := ""
		if d.Kept+d.Retreated > 0 {
			change = fmt.Sprintf("%+.1f %%", 100*d.Change)
		}
		var reasons []string
		for _, l := range d.Reasons {
			reasons = append(reasons, fmt.Sprintf("%s ×%d", l.Reason, l.Count))
		}
		t.rows = append(t.rows, []any{d.Communicator, classText(d.From, d.To), d.Newcomer + " for " + d.Known, uint64(d.Ranks),
			uint64(d.Kept), change, d.Pairs, d.Messages, strings.Join(reasons, ", ")})
	}
	return t
}

// ActSheets are the protocols and the decisions, as tables.
func (r *Report) ActSheets() (ways, decisions *Sheet) {
	return r.actWays().sheet(0), r.actDecisions().sheet(0)
}

const decisionNote = "time: of a message by what was tried, against what was known; shown: by how many ranks"

// actSection writes what the job carried itself; nothing of a job that was not to
// act.
func (t *writer) actSection() {
	if t.r.Act == nil {
		return
	}
	t.blank()
	t.line(t.v.bold("Act mode"))
	for _, line := range t.r.Act.Lines() {
		t.wrap("  ", line)
	}
	for _, table := range []*table{t.r.actWays(), t.r.actDecisions()} {
		if len(table.rows) > 0 {
			for _, line := range table.lines(t.v) {
				t.line(line)
			}
		}
	}
	if len(t.r.Act.Decisions) > 0 {
		t.note(decisionNote)
	}
}
