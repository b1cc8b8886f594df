package report

import (
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/mpitrace/mpitrace/internal/advise"
	"github.com/mpitrace/mpitrace/internal/symbols"
	"github.com/mpitrace/mpitrace/internal/synth"
	"github.com/mpitrace/mpitrace/segment"
)

// writeAll makes every kind of output; none may panic on anything that Load
// accepts.
func writeAll(t *testing.T, r *Report) {
	t.Helper()
	for _, by := range append(Views(), "") {
		for _, v := range []View{{By: by, Width: 60, Top: 3}, {By: by, ASCII: true, Color: true, Top: -1}} {
			if err := r.WriteText(io.Discard, v); err != nil {
				t.Fatal(err)
			}
			if err := r.WriteCSV(io.Discard, v); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := r.WriteJSON(io.Discard); err != nil {
		t.Fatal(err)
	}
	if err := advise.Advise(r.AdviceInput()).WriteJSON(io.Discard); err != nil {
		t.Fatal(err)
	}
	d := Diff{Before: r, After: r}
	if err := d.WriteText(io.Discard, View{}); err != nil {
		t.Fatal(err)
	}
}

// FuzzReport reads two ranks, one of which is whatever the fuzzer makes of a
// segment, with whatever it makes of job.json and symbols.json.
func FuzzReport(f *testing.F) {
	sound, err := segment.Parse("rank 0", traced().Segment(0).Bytes())
	if err != nil {
		f.Fatal(err)
	}
	for _, job := range []synth.Job{deadlocked(), phased(), blemished(), traced(), apart(), jumping()} {
		s, err := segment.Parse("rank 1", job.Segment(1).Bytes())
		if err != nil {
			f.Fatal(err)
		}
		f.Add(s.Compact(), []byte(`{"command":["a","b"],"start":"2026-01-02T09:30:00Z","end":"2026-01-02T09:31:00Z","exit_status":1}`), synth.Symbols())
	}
	acted := traced().Segment(1)
	decision := synth.Decision(65536, 8, 1<<20, true)
	decision.Change = math.NaN()
	acted.Extra = synth.Act(segment.Act{State: segment.ActStateActs, Counted: true, Policy: "\x1b[2J", Decisions: []segment.RawActDecision{decision}})
	f.Add(acted.Bytes(), []byte(`{}`), synth.Symbols())
	f.Add([]byte{}, []byte(`{"command":"x"}`), []byte(`{"schema":1,"modules":[{"places":[{}]}]}`))
	f.Fuzz(func(t *testing.T, data, job, places []byte) {
		dir := t.TempDir()
		err := segment.WriteNodeFile(filepath.Join(dir, "n.0.mtn"), "n", "j", "fuzz",
			[]segment.Record{{Kind: segment.RecordSegment, Data: sound.Compact()}, {Kind: segment.RecordSegment, Data: data}})
		if err != nil {
			t.Fatal(err)
		}
		for name, data := range map[string][]byte{"job.json": job, "symbols.json": places, "live.seg": data} {
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		// Lookups in files of this machine are no matter of this test.
		r, err := Load(dir, Options{Detail: true, Symbols: symbols.New(symbols.Options{DebugDirs: []string{}}), Network: &Network{StartupNS: 500, NSPerByte: 0.1}, Costs: someCosts()})
		if err != nil {
			t.Fatalf("one sound rank should do: %v", err)
		}
		writeAll(t, r)
	})
}
