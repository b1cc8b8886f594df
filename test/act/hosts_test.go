package act

import (
	"slices"
	"testing"

	"github.com/mpitrace/mpitrace/test/hosts"
	"github.com/mpitrace/mpitrace/test/mpijob"
)

// TestHosts: programs of two hosts with two ranks each, over iWARP. With Open MPI
// only: between hosts without fast network MPICH's own MPI_Finalize hangs now and
// then (test/launch).
func TestHosts(t *testing.T) {
	m := mpijob.All[0]
	mpijob.Need(t, m.Missing())
	h, dir := hosts.New(t, 2), t.TempDir()
	program := compile(t, m, dir, "random.c")
	across := func(policy, seed string) []string {
		run := []string{tool(t), "run", "--act=" + policy, "--output", t.TempDir(), "--"}
		return runProgram(t, h.OnIn(0, dir, append(run, h.Across(m, program, seed, "1500")...)...), dir)
	}
	want := native(t, 4, 21, "1500")
	for _, policy := range []string{"auto", "rndv=write,eager-limit=1000"} {
		same(t, policy, across(policy, "21"), want)
	}
	order := compile(t, m, dir, "comms.c")
	run := []string{tool(t), "run", "--act", "--output", t.TempDir(), "--"}
	got := runProgram(t, h.OnIn(0, dir, append(run, h.Across(m, order)...)...), dir)
	if right := []string{"0: right", "1: right", "2: right", "3: right"}; !slices.Equal(got, right) {
		t.Errorf("comms.c said %q", got)
	}
}
