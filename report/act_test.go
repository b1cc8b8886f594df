package report

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mpitrace/mpitrace/internal/golden"
	"github.com/mpitrace/mpitrace/internal/synth"
	"github.com/mpitrace/mpitrace/segment"
)

const verdictJSON = `{"act": [{"world": "w", "ranks": 2, "policy": "3ed31677f0a8230b", "act": true}]}`

// ledgerJSON is what one rank left; rank 1 has decided otherwise than rank 0.
func ledgerJSON(world, rank string) string {
	chosen, runner, reason, change := "write", "read", "faster", "-0.25"
	if rank == "1" {
		chosen, runner, reason, change = "read", "write", "no-gain", "0.01"
	}
	return `{"schema": 1, "world": "` + world + `", "rank": ` + rank + `, "ranks": 2, "device": "iwarp:eth` + rank + `",
  "counts": {"eager_messages": 100, "eager_bytes": 6400, "rendezvous_messages": 50, "rendezvous_bytes": 5000000,
    "zero_copy_messages": 60, "zero_copy_bytes": 4800,
    "read_messages": 30, "read_bytes": 3000000, "written_messages": 20, "written_bytes": 2000000, "rtr_sent": 40, "rtr_used": 30, "rtr_crossed": 6, "rtr_mispredicted": 3, "rtr_revoked": 1, "rtr_suspended": 2, "rtr_resumed": 1,
    "verified_messages": 9, "wrong_messages": ` + rank + `},
  "left": {"communicators_by_idup": 1, "messages_of_communicators": 4, "bytes_of_communicators": 512},
  "peers": {"by_connection": ` + rank + `, "by_datagrams": 2, "idle": 3, "connection_bytes": 65536, "datagrams_bytes": 512, "datagrams_shared_bytes": 131072, "ring_bytes": 262144},
  "memory": {"page_bytes": 4096, "resident_pages": 5000, "most_resident_pages": 6000},
  "decisions": [{"communicator": "MPI_COMM_WORLD", "from": 65536, "to": 131072, "chosen": "` + chosen + `", "runner_up": "` + runner + `",
    "newcomer": "write", "state": "kept", "reason": "` + reason + `", "change": ` + change + `, "pairs": 64, "messages": 50, "newcomer_messages": 25, "bytes": 5000000}]}`
}

// loadAct reads a job of two ranks with these files beside it.
func loadAct(t *testing.T, files map[string]string) *Report {
	t.Helper()
	return loadActs(t, files, nil)
}

// loadActs is loadAct with what the segments of the ranks have of act mode; one
// without a file of its own did not come to MPI_Finalize.
func loadActs(t *testing.T, files map[string]string, acts map[int]segment.Act) *Report {
	t.Helper()
	dir := t.TempDir()
	mutate := func(rank int, s *synth.Segment) *synth.Segment {
		if a, ok := acts[rank]; ok {
			s.Extra = append(s.Extra, synth.Act(a)...)
			if _, ok := files[fmt.Sprintf("act-w-%d.json", rank)]; !ok {
				unfinished(s)
			}
		}
		return s
	}
	if err := (synth.Job{ID: "acted", Ranks: 2, Mutate: mutate}).Write(dir); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r, err := Load(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// section is the part of the text report on act mode.
func section(t *testing.T, r *Report) string {
	t.Helper()
	var text strings.Builder
	if err := r.WriteText(&text, View{Location: time.UTC}); err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(text.String(), "Act mode\n")
	if !found {
		return ""
	}
	before, _, _ := strings.Cut(after, "\n\n")
	return before
}

func TestAct(t *testing.T) {
	world := loadAct(t, nil).Ranks[0].World
	r := loadAct(t, map[string]string{"job.json": verdictJSON, "act-w-0.json": ledgerJSON(world, "0"), "act-w-1.json": ledgerJSON(world, "1")})
	golden.Compare(t, "act.txt", []byte(section(t, r)+"\n"))
	a := r.Act
	if a.Ledgers != 2 || a.Messages != 300 || a.Ways[0].Messages != 80 || a.Ways[1].Bytes != 9600 || a.Ways[2].Bytes != 6000000 || a.Counts[segment.ActWrongMessages] != 1 || a.Ranks != 2 || len(a.Decisions) != 1 {
		t.Errorf("%+v", a)
	}
	if p := a.Peers; p.Connected != 1 || p.Datagrams != 4 || p.Idle != 6 || p.Bytes != 65536+4*512+2*(131072+262144) || p.Resident != 2*5000*4096 || p.MostResident != 2*6000*4096 {
		t.Errorf("%+v", p)
	}
	if first := r.Findings[0]; !strings.HasPrefix(first, "1 of 18 messages verified were not what was sent, received by rank 1: ") {
		t.Errorf("the first finding is %q", first)
	}
	if d := a.Decisions[0]; d.Ranks != 2 || d.Kept != 1 || d.Retreated != 1 || d.Change != -0.12 || d.Known != "read" || d.Pairs != 128 {
		t.Errorf("%+v", d)
	}
}

// carried is what the segment of a rank has that left the same as ledgerJSON.
func carried(rank int) segment.Act {
	a := segment.Act{State: segment.ActStateActs, Counted: true, Policy: "3ed31677f0a8230b", Decisions: []segment.RawActDecision{synth.Decision(65536, 50, 5000000, rank == 0)}}
	a.Counts = segment.ActCounts{
		segment.ActEagerMessages: 100, segment.ActEagerBytes: 6400, segment.ActZeroCopyMessages: 60, segment.ActZeroCopyBytes: 4800, segment.ActRendezvousMessages: 50, segment.ActRendezvousBytes: 5000000,
		segment.ActReadMessages: 30, segment.ActReadBytes: 3000000, segment.ActWrittenMessages: 20, segment.ActWrittenBytes: 2000000,
		segment.ActRtrSent: 40, segment.ActRtrUsed: 30, segment.ActRtrCrossed: 6, segment.ActRtrMispredicted: 3, segment.ActRtrRevoked: 1, segment.ActRtrSuspended: 2, segment.ActRtrResumed: 1,
		segment.ActVerifiedMessages: 9, segment.ActWrongMessages: uint64(rank),
		segment.ActCommunicatorsByIdup: 1, segment.ActMessagesOfCommunicators: 4, segment.ActBytesOfCommunicators: 512,
	}
	return a
}

// TestActSegments: ranks that left no ledger have their figures in their segments;
// of those that left one the ledger counts, and what a segment says beside it does
// not.
func TestActSegments(t *testing.T) {
	world := loadAct(t, nil).Ranks[0].World
	both := loadAct(t, map[string]string{"job.json": verdictJSON, "act-w-0.json": ledgerJSON(world, "0"), "act-w-1.json": ledgerJSON(world, "1")})
	want := *both.Act
	stale := carried(0)
	stale.Counts[segment.ActEagerMessages] = 1
	r := loadActs(t, map[string]string{"job.json": verdictJSON, "act-w-0.json": ledgerJSON(world, "0")}, map[int]segment.Act{0: stale, 1: carried(1)})
	killed := section(t, r)
	if r.Act.Ledgers != 1 || r.Act.Ranks != 2 {
		t.Errorf("%d ledgers, %d ranks", r.Act.Ledgers, r.Act.Ranks)
	}
	want.Ledgers = 1
	r.Act.Peers, want.Peers, want.Devices = nil, nil, want.Devices[:1] // no segment has them
	if !reflect.DeepEqual(*r.Act, want) {
		t.Errorf("with a segment in place of a ledger\n%+v\nwith both ledgers\n%+v", *r.Act, want)
	}
	golden.Compare(t, "act-killed.txt", []byte(killed+"\n"))

	r = loadActs(t, map[string]string{"act-w-0.json": ledgerJSON(world, "0"), "act-w-1.json": "{"}, map[int]segment.Act{0: carried(0), 1: carried(1)})
	if text := section(t, r); r.Act.Ledgers != 1 || r.Act.Messages != 300 || strings.Contains(text, "without MPI_Finalize") ||
		!strings.Contains(text, "of 1 rank without an act-*.json that could be read") {
		t.Errorf("of a file that cannot be read: %s", text)
	}

	for _, c := range []struct{ name, text, problem string }{
		{"act-w-1.json", strings.Replace(ledgerJSON(world, "1"), `"schema": 1`, `"schema": 2`, 1), "act-w-1.json: is of schema 2, this program reads 1"},
		{"act-w-2.json", ledgerJSON(world, "0"), "act-w-2.json: rank 0 has another ledger here"},
	} {
		r = loadActs(t, map[string]string{"act-w-0.json": ledgerJSON(world, "0"), c.name: c.text}, nil)
		if r.Act.Ledgers != 1 || !slices.ContainsFunc(r.Problems, func(p string) bool { return strings.HasPrefix(p, c.problem) }) {
			t.Errorf("%d ledgers, problems %q, want %q", r.Act.Ledgers, r.Problems, c.problem)
		}
	}

	live := loadActs(t, nil, map[int]segment.Act{0: carried(0), 1: carried(1)})
	if v := live.Act.Verdicts; len(v) != 1 || !v[0].Act || v[0].Ranks != 2 || v[0].Policy != "3ed31677f0a8230b" {
		t.Errorf("without job.json the verdicts are %+v", v)
	}
	if m, bytes := live.Act.Share(); m != 300.0/308 || math.Abs(bytes-10012800.0/10013824) > 1e-12 {
		t.Errorf("carried %v of the messages, %v of the bytes", m, bytes)
	}
	torn := carried(1)
	torn.Torn = true
	r = loadActs(t, nil, map[int]segment.Act{0: carried(0), 1: torn})
	if r.Act.Messages != 300 || r.Act.Decisions[0].Ranks != 1 || !slices.ContainsFunc(r.Problems, func(p string) bool { return strings.Contains(p, "rank 1 died while") }) {
		t.Errorf("%+v, problems %q", r.Act, r.Problems)
	}
	r = loadActs(t, nil, map[int]segment.Act{0: carried(0), 1: {State: segment.ActStateActs}})
	if r.Act.Ranks != 1 || !slices.ContainsFunc(r.Problems, func(p string) bool { return strings.Contains(p, "rank 1: its segment had no room") }) {
		t.Errorf("%+v, problems %q", r.Act, r.Problems)
	}
	off := segment.Act{State: segment.ActStateObserves, Reason: "no device"}
	r = loadActs(t, map[string]string{"job.json": strings.Replace(verdictJSON, `"w"`, `"`+world+`"`, 1)}, map[int]segment.Act{0: off, 1: off})
	if v := r.Act.Verdicts; len(v) != 1 || v[0].Act || v[0].Reason != "no device" || v[0].Ranks != 2 {
		t.Errorf("of ranks that could not start: %+v", v)
	}
	for state, reason := range map[uint32]string{segment.ActStateObserves: "no room", segment.ActStateStarting: ""} {
		r = loadActs(t, nil, map[int]segment.Act{0: carried(0), 1: {State: state, Reason: reason}})
		if v := r.Act.Verdicts; len(v) != 1 || v[0].Act || v[0].Reason == "" || r.Act.Ranks != 1 {
			t.Errorf("state %d: %+v", state, v)
		}
	}
}

// TestActPaused: more carried than was counted as sent is no share of it.
func TestActPaused(t *testing.T) {
	for name, a := range map[string]Act{
		"messages":    {Ranks: 2, Ledgers: 2, Messages: 1000, Bytes: 8000, Sent: 10, SentBytes: 8000},
		"bytes":       {Ranks: 2, Ledgers: 2, Messages: 10, Bytes: 8000, Sent: 10, SentBytes: 80},
		"none at all": {Ranks: 2, Ledgers: 2, Messages: 10, Bytes: 8000},
	} {
		if text := a.Lines()[0]; !strings.Contains(text, "in all was not observed") || strings.Contains(text, "%") {
			t.Errorf("%s: %s", name, text)
		}
	}
	a := Act{Ranks: 2, Ledgers: 2, Messages: 10, Bytes: 80, Sent: 10, SentBytes: 80}
	if text := a.Lines()[0]; !strings.Contains(text, "100 % of the messages") {
		t.Error(text)
	}
}

// TestActUntried: where nothing was tried because nothing could be read or written.
func TestActUntried(t *testing.T) {
	const reason = "all long messages went in fragments"
	for fragments, want := range map[uint64]bool{0: false, 9: false, 10: true} {
		a := Act{Ranks: 2, Ledgers: 2}
		a.Counts[segment.ActRendezvousMessages], a.Counts[segment.ActFragmentMessages] = 10, fragments
		if text := strings.Join(a.Lines(), "\n"); strings.Contains(text, reason) != want || !strings.Contains(text, "nothing was tried") {
			t.Errorf("%d of 10 in fragments: %s", fragments, text)
		}
	}
}

// TestActNothing: what there is not is said, or nothing is said at all.
func TestActNothing(t *testing.T) {
	for _, c := range []struct {
		files map[string]string
		want  string
	}{
		{map[string]string{"job.json": `{}`}, ""},
		{map[string]string{"job.json": `{"act": [{"ranks": 2, "act": false, "reason": "rank 1 did not report"}]}`}, "only observed: rank 1 did not report"},
		{map[string]string{"job.json": verdictJSON}, "nothing is known of what was carried"},
		{map[string]string{"job.json": verdictJSON, "act-w-0.json": `{"schema": 1, "world": "w"}`}, "no point-to-point message was sent that mpitrace could have carried"},
		{map[string]string{"job.json": verdictJSON, "act-w-0.json": `{"world": 3}`}, "nothing is known of what was carried"},
	} {
		r := loadAct(t, c.files)
		if got := section(t, r); !strings.Contains(strings.Join(strings.Fields(got), " "), c.want) || (got == "") != (c.want == "") {
			t.Errorf("%v: %q, want %q", c.files, got, c.want)
		}
	}
}

// FuzzLedger reads whatever a rank may have left.
func FuzzLedger(f *testing.F) {
	f.Add([]byte(verdictJSON), []byte(ledgerJSON("w", "0")))
	f.Add([]byte(`{"act": [{}]}`), []byte(`{"decisions": [{"from": 18446744073709551615}], "counts": {"eager_messages": 18446744073709551615}}`))
	f.Add([]byte(verdictJSON), []byte(`{"decisions": [{"reason": "slower", "change": 1e308}, {"reason": "slower", "change": -1e308}]}`))
	f.Fuzz(func(t *testing.T, job, ledger []byte) {
		writeAll(t, loadAct(t, map[string]string{"job.json": string(job), "act-w-0.json": string(ledger)}))
	})
}
