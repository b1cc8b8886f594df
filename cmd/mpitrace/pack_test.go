package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mpitrace/mpitrace/internal/synth"
)

// TestPackLeavesTracesOut: trace files stay behind, and pack says so.
func TestPackLeavesTracesOut(t *testing.T) {
	for _, traces := range []int{0, 2} {
		dir := t.TempDir()
		if err := (synth.Job{ID: "p", Ranks: 2}).Write(dir); err != nil {
			t.Fatal(err)
		}
		for i := range traces {
			if err := os.WriteFile(filepath.Join(dir, string(rune('a'+i))+".mtt"), []byte("MPITRTRC"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		var said bytes.Buffer
		c := newPackCommand()
		c.SetErr(&said)
		c.SetArgs([]string{dir, "-o", filepath.Join(t.TempDir(), "all.mtn")})
		if err := c.Execute(); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(said.String(), "2 trace files (*.mtt)") != (traces > 0) || !strings.Contains(said.String(), "2 processes are in") {
			t.Errorf("%d traces: %s", traces, &said)
		}
	}
}
