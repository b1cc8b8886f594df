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
// job that was not to act. docs/act.md describes what the ranks leave behind.
type Act struct {
	Verdicts  []ActVerdict  `json:"verdicts"`
	Ranks     int           `json:"ranks"`   // whose figures these are
	Ledgers   int           `json:"ledgers"` // of these, ranks whose file has them, written at MPI_Finalize; of the others their segments have them
	Messages  uint64        `json:"messages"`
	Bytes     uint64        `json:"bytes"`
	Sent      uint64        `json:"sent_messages"` // by the same ranks, as observed: ours and the library's
	SentBytes uint64        `json:"sent_bytes"`
	Devices   []ActDevice   `json:"devices"` // of the ledgers
	Ways      []ActWay      `json:"ways"`
	Decisions []ActDecision `json:"decisions"`
	Left      []ActLeft     `json:"left"` // to the MPI library, most first
	// Counts are sums over the ranks.
	Counts segment.ActCounts `json:"counts"`
	Peers  *ActPeers         `json:"peers,omitempty"` // nil: no rank came to write it down
	ranks  map[string]bool
	wrong  map[string]bool // of these, that got messages which are not what was sent
	ended  int             // of the ranks without a ledger that could be read, those that came through MPI_Finalize
}

// ActPeers is how the ranks that left a ledger reached each other, and the memory
// that took: sums over them, but for what is of one peer. What the device and the
// system have for a peer is not in it.
type ActPeers struct {
	Connected       uint64 `json:"by_connection"`
	Datagrams       uint64 `json:"by_datagrams"`
	Idle            uint64 `json:"idle"`             // nothing was sent to them
	ConnectionBytes uint64 `json:"connection_bytes"` // of one peer, the most of all ranks
	DatagramsBytes  uint64 `json:"datagrams_bytes"`  // the same
	Bytes           uint64 `json:"bytes"`            // all buffers and structures for peers
	Resident        uint64 `json:"resident_bytes"`   // of the processes, at their end
	MostResident    uint64 `json:"most_resident_bytes"`
}

// ActVerdict is what the ranks of a world were told.
type ActVerdict struct {
	World  string `json:"world"`
	Ranks  int    `json:"ranks"`
	Policy string `json:"policy"` // hash
	Act    bool   `json:"act"`
	Reason string `json:"reason,omitempty"` // of observing
}

// ActDevice is what ranks had their messages travel over, inside a machine and beyond.
type ActDevice struct {
	Name  string `json:"name"`
	Ranks int    `json:"ranks"`
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

// ledgerSchema is what a ledger must say under schema.
const ledgerSchema = 1

// ledgerFile is act-WORLD-RANK.json.
type ledgerFile struct {
	Schema    int               `json:"schema"`
	World     string            `json:"world"`
	Rank      int               `json:"rank"`
	Device    string            `json:"device"`
	Counts    segment.ActCounts `json:"counts"`
	Left      segment.ActCounts `json:"left"`
	Decisions []ledgerDecision  `json:"decisions"`
	Peers     *struct {
		Connected       uint64 `json:"by_connection"`
		Datagrams       uint64 `json:"by_datagrams"`
		Idle            uint64 `json:"idle"`
		ConnectionBytes uint64 `json:"connection_bytes"`
		DatagramsBytes  uint64 `json:"datagrams_bytes"`
		SharedBytes     uint64 `json:"datagrams_shared_bytes"`
		RingBytes       uint64 `json:"ring_bytes"`
	} `json:"peers"`
	Memory struct {
		Page         uint64 `json:"page_bytes"`
		Resident     uint64 `json:"resident_pages"`
		MostResident uint64 `json:"most_resident_pages"`
	} `json:"memory"`
}

type ledgerDecision struct {
	Communicator     string  `json:"communicator"`
	From             uint64  `json:"from"`
	To               uint64  `json:"to"`
	Chosen           string  `json:"chosen"`
	RunnerUp         string  `json:"runner_up"`
	Newcomer         string  `json:"newcomer"`
	Reason           string  `json:"reason"`
	Change           float64 `json:"change"`
	Pairs            uint64  `json:"pairs"`
	FallBacks        uint64  `json:"fall_backs"`
	DecidedNS        uint64  `json:"decided_ns"`
	Messages         uint64  `json:"messages"`
	NewcomerMessages uint64  `json:"newcomer_messages"`
	Bytes            uint64  `json:"bytes"`
}

// ways are the protocols, and their counts.
var ways = []struct {
	name            string
	messages, bytes int
}{
	{"eager", segment.ActEagerMessages, segment.ActEagerBytes},
	{"eager, straight from its buffer", segment.ActZeroCopyMessages, segment.ActZeroCopyBytes},
	{"read by the receiver", segment.ActReadMessages, segment.ActReadBytes},
	{"written by the sender", segment.ActWrittenMessages, segment.ActWrittenBytes},
	{"fragments by copy", segment.ActFragmentMessages, segment.ActFragmentBytes},
}

// reasonTexts say what the reasons of decisions mean.
var reasonTexts = map[string]string{
	"open": "not decided yet", "faster": "faster", "slower": "slower", "no-loss": "no loss", "no-gain": "no gain",
}

// actRank is what the segment of a rank says.
type actRank struct {
	world string
	rank  int
	ended bool // it came through MPI_Finalize
	*segment.Act
}

// addAct adds up what job.json, the ledgers and, of ranks without one, their
// segments say.
func (b *builder) addAct(job []byte, ledgers []segment.NamedText) {
	var file struct {
		Act []ActVerdict `json:"act"`
	}
	if json.Unmarshal(job, &file) != nil || file.Act == nil {
		file.Act = b.actVerdicts()
	}
	if len(file.Act) == 0 && len(ledgers) == 0 {
		return
	}
	a := &Act{Verdicts: file.Act, Devices: []ActDevice{}, Decisions: []ActDecision{}, Left: []ActLeft{}, ranks: map[string]bool{}, wrong: map[string]bool{}}
	for i := range a.Verdicts {
		v := &a.Verdicts[i]
		b.refuted(v)
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
		switch {
		case ledger.Schema != ledgerSchema:
			b.problem(fmt.Sprintf("%s: is of schema %d, this program reads %d: it is left out", text.Name, ledger.Schema, ledgerSchema))
		case a.ranks[actKey(ledger.World, ledger.Rank)]:
			b.problem(fmt.Sprintf("%s: rank %d has another ledger here: this one is left out", text.Name, ledger.Rank))
		case b.options.Ranks.Has(ledger.Rank):
			a.Ledgers++
			a.add(&ledger)
		}
	}
	for i := range b.acts {
		b.addActRank(&b.acts[i])
	}
	a.Counts.EachLeft(func(reason string, n uint64) { a.Left = append(a.Left, ActLeft{reason, n}) })
	slices.SortStableFunc(a.Left, func(x, y ActLeft) int {
		return cmp.Or(-cmp.Compare(x.Count, y.Count), strings.Compare(x.Reason, y.Reason))
	})
	slices.SortStableFunc(a.Decisions, func(x, y ActDecision) int {
		return cmp.Or(-cmp.Compare(x.Bytes, y.Bytes), strings.Compare(x.Communicator, y.Communicator), cmp.Compare(x.From, y.From))
	})
	for _, r := range b.report.Ranks {
		if a.ranks[actKey(r.World, r.Rank)] {
			a.Sent += r.Messages.SentMessages
			a.SentBytes += r.Messages.SentBytes
		}
	}
}

func actKey(world string, rank int) string { return fmt.Sprint(world, " ", rank) }

// actVerdicts is what the segments say of verdicts: of a job that runs, or of
// which mpitrace run could not write down the end.
func (b *builder) actVerdicts() []ActVerdict {
	out := []ActVerdict{}
	for _, r := range b.acts {
		i := slices.IndexFunc(out, func(v ActVerdict) bool { return v.World == r.world })
		if i < 0 {
			i = len(out)
			out = append(out, ActVerdict{World: r.world, Policy: r.Policy, Act: true})
		}
		v := &out[i]
		v.Ranks++
		v.Act = v.Act && r.State == segment.ActStateActs
		v.Reason = cmp.Or(v.Reason, r.Reason)
		if r.State == segment.ActStateStarting {
			v.Reason = cmp.Or(v.Reason, "the ranks have not agreed yet")
		}
	}
	return out
}

// refuted takes back that ranks acted which could not start, all of them alike,
// after job.json had its verdict.
func (b *builder) refuted(v *ActVerdict) {
	i := slices.IndexFunc(b.acts, func(r actRank) bool { return r.world == v.World && r.State == segment.ActStateObserves })
	if v.Act && i >= 0 {
		v.Act, v.Reason = false, b.acts[i].Reason
	}
}

// addActRank takes over the segment of a rank that has no ledger.
func (b *builder) addActRank(r *actRank) {
	if r.State != segment.ActStateActs || b.report.Act.ranks[actKey(r.world, r.rank)] {
		return
	}
	if !r.Counted {
		b.problem(fmt.Sprintf("rank %d: its segment had no room for what it carries: raise MPITRACE_SEGMENT_BYTES_MAX", r.rank))
		return
	}
	if r.Torn {
		b.problem(fmt.Sprintf("rank %d died while it counted what it carried: its counts may be of two moments, its decisions are left out", r.rank))
	}
	ledger := ledgerFile{World: r.world, Rank: r.rank, Counts: r.Counts}
	for i := range r.Decisions {
		d := &r.Decisions[i]
		ledger.Decisions = append(ledger.Decisions, ledgerDecision{
			Communicator: segment.Text(d.Communicator[:]), From: d.From, To: d.To, Chosen: segment.Text(d.Chosen[:]), RunnerUp: segment.Text(d.RunnerUp[:]),
			Newcomer: segment.Text(d.Newcomer[:]), Reason: segment.Text(d.Reason[:]), Change: d.Change, Pairs: uint64(d.Pairs),
			FallBacks: d.FallBacks, DecidedNS: d.DecidedNS, Messages: d.Messages, NewcomerMessages: d.NewcomerMessages, Bytes: d.Bytes,
		})
	}
	b.report.Act.add(&ledger)
	if r.ended {
		b.report.Act.ended++
	}
}

// add takes one rank over.
func (a *Act) add(l *ledgerFile) {
	a.Ranks++
	a.ranks[actKey(l.World, l.Rank)] = true
	if l.Counts[segment.ActWrongMessages] > 0 {
		a.wrong[actKey(l.World, l.Rank)] = true
	}
	a.Counts.Add(&l.Counts)
	a.Counts.Add(&l.Left)
	c := &a.Counts
	a.Messages = c[segment.ActEagerMessages] + c[segment.ActRendezvousMessages]
	a.Bytes = c[segment.ActEagerBytes] + c[segment.ActRendezvousBytes]
	for i, way := range ways {
		a.Ways[i].Messages, a.Ways[i].Bytes = c[way.messages], c[way.bytes]
	}
	copied := &a.Ways[0] // all eager ones are counted there
	copied.Messages -= min(copied.Messages, c[segment.ActZeroCopyMessages])
	copied.Bytes -= min(copied.Bytes, c[segment.ActZeroCopyBytes])
	for i := range l.Decisions {
		a.addDecision(&l.Decisions[i])
	}
	a.addPeers(l)
	a.addDevice(clean(l.Device))
}

func (a *Act) addDevice(name string) {
	i := slices.IndexFunc(a.Devices, func(d ActDevice) bool { return d.Name == name })
	switch {
	case name == "": // the segment does not say
	case i < 0:
		a.Devices = append(a.Devices, ActDevice{name, 1})
	default:
		a.Devices[i].Ranks++
	}
}

func (a *Act) addPeers(l *ledgerFile) {
	if l.Peers == nil {
		return
	}
	if a.Peers == nil {
		a.Peers = &ActPeers{}
	}
	p, of := a.Peers, l.Peers
	p.Connected += of.Connected
	p.Datagrams += of.Datagrams
	p.Idle += of.Idle
	p.ConnectionBytes = max(p.ConnectionBytes, of.ConnectionBytes)
	p.DatagramsBytes = max(p.DatagramsBytes, of.DatagramsBytes)
	p.Bytes += of.Connected*of.ConnectionBytes + of.Datagrams*of.DatagramsBytes + of.SharedBytes + of.RingBytes
	p.Resident += l.Memory.Page * l.Memory.Resident
	p.MostResident += l.Memory.Page * l.Memory.MostResident
}

// line says it of one rank on average.
func (p *ActPeers) line(ranks int) string {
	each := func(n uint64) string {
		return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(n)/float64(ranks)), ".0")
	}
	text := fmt.Sprintf("a rank has on average %s peers by connection", each(p.Connected))
	if p.Connected > 0 {
		text += fmt.Sprintf(" (%s each)", bytesText(p.ConnectionBytes))
	}
	if p.Datagrams > 0 {
		text += fmt.Sprintf(", %s by datagrams (%s each)", each(p.Datagrams), bytesText(p.DatagramsBytes))
	}
	if p.Idle > 0 {
		text += fmt.Sprintf(", %s that nothing was sent to", each(p.Idle))
	}
	return text + fmt.Sprintf("; buffers for peers are %s of the %s that it has in memory", bytesText(p.Bytes/uint64(ranks)), bytesText(p.Resident/uint64(ranks)))
}

// Share is the part of the messages and bytes that mpitrace carried, of those that
// it could have: the rest was left to the MPI library. Without any it is 0.
func (a *Act) Share() (messages, bytes float64) {
	c := &a.Counts
	return ratio(a.Messages, a.Messages+c[segment.ActMessagesOfCommunicators]+c[segment.ActMessagesByArguments]),
		ratio(a.Bytes, a.Bytes+c[segment.ActBytesOfCommunicators])
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

// changeMost bounds what a rank may say of a change, so that a mean is a number.
const changeMost = 1e9

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
		d.Change += (max(-1, min(number(l.Change), changeMost)) - d.Change) / float64(now)
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
			text = fmt.Sprintf("%s only observed: %s", plural(v.Ranks, "rank"), cmp.Or(v.Reason, "mpitrace run has said why"))
		}
		out = append(out, text)
	}
	switch {
	case a.Ranks == 0 && !slices.ContainsFunc(a.Verdicts, func(v ActVerdict) bool { return v.Act }):
		return out
	case a.Ranks == 0:
		return append(out, "nothing is known of what was carried")
	case a.Messages == 0:
		out = append(out, "no point-to-point message was sent that mpitrace could have carried")
	case a.Messages > a.Sent || a.Bytes > a.SentBytes: // carried also while measurement was paused
		out = append(out, fmt.Sprintf("carried %s and %s; how many there were in all was not observed", plural(int(min(a.Messages, 1<<62)), "message"), bytesText(a.Bytes)))
	default:
		out = append(out, fmt.Sprintf("carried %s and %s of the %s and %s that %s sent: %s of the messages, %s of the bytes", plural(int(min(a.Messages, 1<<62)), "message"),
			bytesText(a.Bytes), plural(int(min(a.Sent, 1<<62)), "message"), bytesText(a.SentBytes), plural(a.Ranks, "rank"), shareText(a.Messages, a.Sent), shareText(a.Bytes, a.SentBytes)))
	}
	if len(a.Devices) > 0 {
		var over []string
		unknown := a.Ranks
		for _, d := range a.Devices {
			over = append(over, fmt.Sprintf("%s of %s", d.Name, plural(d.Ranks, "rank")))
			unknown -= d.Ranks
		}
		if unknown > 0 {
			over = append(over, fmt.Sprintf("and what %s did not come to write down", plural(unknown, "rank")))
		}
		out = append(out, "device: "+strings.Join(over, ", "))
	}
	if n := a.Ranks - a.Ledgers - a.ended; n > 0 {
		out = append(out, "of "+plural(n, "rank")+" without MPI_Finalize the figures are those of the segment, about a tenth of a second old")
	}
	if a.ended > 0 {
		out = append(out, "of "+plural(a.ended, "rank")+" without an act-*.json that could be read the figures are those of the segment")
	}
	for _, l := range a.Left {
		out = append(out, "left to the MPI library: "+countText(l.Count)+" "+l.Reason)
	}
	c := &a.Counts
	if verified := c[segment.ActVerifiedMessages]; verified > 0 {
		out = append(out, fmt.Sprintf("%s verified: %s not what was sent, %s given up for that", plural(int(min(verified, 1<<62)), "message"),
			countText(c[segment.ActWrongMessages]), plural(int(min(c[segment.ActQuarantinedPaths], 1<<62)), "path")))
	}
	if asked := c[segment.ActRtrSent]; asked > 0 {
		out = append(out, fmt.Sprintf("%s asked first: %s were written as asked, %s crossed their messages, %s asked for what was short or too long, %s were cancelled; ranks stopped asking %s times and began again %s times",
			plural(int(min(asked, 1<<62)), "receive"), percent(float64(c[segment.ActRtrUsed])/float64(asked)), countText(c[segment.ActRtrCrossed]), countText(c[segment.ActRtrMispredicted]),
			countText(c[segment.ActRtrRevoked]), countText(c[segment.ActRtrSuspended]), countText(c[segment.ActRtrResumed])))
	}
	if n := c[segment.ActFallBacks]; n > 0 {
		out = append(out, countText(n)+" times a protocol that had been faster was given up again")
	}
	if a.Peers != nil {
		out = append(out, a.Peers.line(a.Ledgers))
	}
	switch fragments := c[segment.ActFragmentMessages]; {
	case len(a.Decisions) > 0:
	case fragments > 0 && fragments == c[segment.ActRendezvousMessages]:
		out = append(out, "nothing was tried: all long messages went in fragments, to peers that are reached by datagrams or where no memory could be registered")
	default:
		out = append(out, "nothing was tried: the policy left no choice for the messages, or there were none of the kind")
	}
	return out
}

func shareText(part, all uint64) string {
	return percent(float64(part) / float64(max(1, all)))
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
