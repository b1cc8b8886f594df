package act

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mpitrace/mpitrace/test/mpijob"
)

// TestLostDevice: the device of a rank goes away in the middle of its messages, by
// every way that they take. Messages end with an error then, nobody waits for ever,
// and who lost it says so once. (Without mpitrace there is no such device.)
func TestLostDevice(t *testing.T) {
	for _, m := range mpijob.All {
		t.Run(m.Name, func(t *testing.T) {
			mpijob.Need(t, m.Missing())
			helpers, dir, command := helpersOf(t, m), t.TempDir(), tool(t)
			script := filepath.Join(dir, "lose.fault")
			if err := os.WriteFile(script, []byte("lose 500\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			job := mpijob.Job{MPI: m, Ranks: 2, Argv: []string{compile(t, m, dir, "lost.c")}, Preload: helpers,
				Env: []string{"MPITRACE_ACT_FAULTS=" + script}}
			for _, policy := range ways {
				job.Before = []string{command, "run", "--act=" + policy, "--output", t.TempDir(), "--"}
				testLost(t, job.Command(), dir, policy)
			}
		})
	}
}

func testLost(t *testing.T, command []string, dir, policy string) {
	out := runActing(t, command, dir)
	if lines := said(out.Stdout); !slices.Equal(lines, []string{"0: right", "1: right"}) {
		t.Errorf("%s: it said\n%s", policy, out.Stdout)
	}
	told := 0
	for _, rank := range []string{"0", "1"} {
		n := strings.Count(string(out.Stderr), " of process "+rank+" is lost, as its driver reports")
		if n > 1 {
			t.Errorf("%s: rank %s says %d times that its device is lost:\n%s", policy, rank, n, out.Stderr)
		}
		told += n
	}
	if told == 0 {
		t.Errorf("%s: nobody says that its device is lost:\n%s", policy, out.Stderr)
	}
}
