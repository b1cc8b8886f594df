package report

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mpitrace/mpitrace/internal/golden"
	"github.com/mpitrace/mpitrace/internal/synth"
)

const verdictJSON = `{"act": [{"world": "w", "ranks": 2, "policy": "3ed31677f0a8230b", "act": true}]}`

// ledgerJSON is what one rank left; rank 1 has decided otherwise than rank 0.
func ledgerJSON(world, rank string) string {
	chosen, runner, reason, change := "write", "read", "faster", "-0.25"
	if rank == "1" {
		chosen, runner, reason, change = "read", "write", "no-gain", "0.01"
	}
	return `{"schema": 1, "world": "` + world + `", "rank": ` + rank + `, "ranks": 2,
  "counts": {"eager_messages": 100, "eager_bytes": 6400, "rendezvous_messages": 50, "rendezvous_bytes": 5000000,
    "zero_copy_messages": 60, "zero_copy_bytes": 4800,
    "read_messages": 30, "read_bytes": 3000000, "written_messages": 20, "written_bytes": 2000000, "verified_messages": 9, "wrong_messages": ` + rank + `},
  "left": {"communicators_by_idup": 1, "messages_of_communicators": 4, "bytes_of_communicators": 512},
  "decisions": [{"communicator": "MPI_COMM_WORLD", "from": 65536, "to": 131072, "chosen": "` + chosen + `", "runner_up": "` + runner + `",
    "newcomer": "write", "state": "kept", "reason": "` + reason + `", "change": ` + change + `, "pairs": 64, "messages": 50, "newcomer_messages": 20, "bytes": 5000000}]}`
}

// loadAct reads a job of two ranks with these files beside it.
func loadAct(t *testing.T, files map[string]string) *Report {
	t.Helper()
	dir := t.TempDir()
	if err := (synth.Job{ID: "acted", Ranks: 2}).Write(dir); err != nil {
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
	if a.Ledgers != 2 || a.Messages != 300 || a.Ways[0].Messages != 80 || a.Ways[1].Bytes != 9600 || a.Ways[2].Bytes != 6000000 || a.Counts.Wrong != 1 || len(a.Decisions) != 1 {
		t.Errorf("%+v", a)
	}
	if d := a.Decisions[0]; d.Ranks != 2 || d.Kept != 1 || d.Retreated != 1 || d.Change != -0.12 || d.Known != "read" || d.Pairs != 128 {
		t.Errorf("%+v", d)
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
		{map[string]string{"job.json": verdictJSON}, "no rank came to write down what it carried"},
		{map[string]string{"job.json": verdictJSON, "act-w-0.json": `{"world": "w"}`}, "no point-to-point message was sent that mpitrace could have carried"},
		{map[string]string{"job.json": verdictJSON, "act-w-0.json": `{"world": 3}`}, "no rank came to write down what it carried"},
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
	f.Fuzz(func(t *testing.T, job, ledger []byte) {
		writeAll(t, loadAct(t, map[string]string{"job.json": string(job), "act-w-0.json": string(ledger)}))
	})
}
