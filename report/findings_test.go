package report

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mpitrace/mpitrace/internal/synth"
)

// TestCrowded says that ranks share processors where that is known.
func TestCrowded(t *testing.T) {
	const job = `{"command":"x","host":"node000","processors":2}`
	for _, c := range []struct {
		name, file string
		job        synth.Job
		want       bool
	}{
		{"crowded", job, synth.Job{ID: "j", Ranks: 4}, true},
		{"one for each", job, synth.Job{ID: "j", Ranks: 2}, false},
		{"other nodes too", job, synth.Job{ID: "j", Ranks: 4, RanksPerNode: 2}, false},
		{"launched elsewhere", strings.Replace(job, "node000", "login", 1), synth.Job{ID: "j", Ranks: 4}, false},
		{"older result", `{"command":"x","host":"node000"}`, synth.Job{ID: "j", Ranks: 4}, false},
	} {
		dir := t.TempDir()
		if err := c.job.Write(dir); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "job.json"), []byte(c.file), 0o644); err != nil {
			t.Fatal(err)
		}
		r, err := Load(dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := findingWith(r, "4 ranks share the 2 processors of node000") != ""; got != c.want {
			t.Errorf("%s: findings %q", c.name, r.Findings)
		}
	}
}
