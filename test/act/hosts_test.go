package act

import (
	"slices"
	"strings"
	"testing"

	"github.com/mpitrace/mpitrace/test/hosts"
	"github.com/mpitrace/mpitrace/test/mpijob"
)

// TestHosts: programs of two hosts with two ranks each, over iWARP; and what they
// leave behind. With Open MPI
// only: between hosts without fast network MPICH's own MPI_Finalize hangs now and
// then (test/launch).
func TestHosts(t *testing.T) {
	m := mpijob.All[0]
	mpijob.Need(t, m.Missing())
	h, dir := hosts.New(t, 2), t.TempDir()
	program := compile(t, m, dir, "random.c")
	want := native(t, 4, 21, "1500")
	for _, policy := range []string{"auto", "rndv=write,eager-limit=1000", "transport=ud-first,rc-peers=1,rc-after=100"} {
		output := t.TempDir()
		run := []string{tool(t), "run", "--act=" + policy, "--output", output, "--"}
		same(t, policy, runProgram(t, h.OnIn(0, dir, append(run, h.Across(m, program, "21", "1500")...)...), dir), want)
		hash := hashOf(t, policy)
		decided(t, output, hash, 4)
		for _, l := range ledgers(t, output, 4) {
			if !slices.Contains(l.Policy, "hash="+hash) {
				t.Errorf("%s: rank %d has the policy %q, not %s", policy, l.Rank, l.Policy, hash)
			}
			l.checkPeers(t, policy, 3, strings.HasPrefix(policy, "transport=ud-first"))
		}
	}
	order := compile(t, m, dir, "comms.c")
	run := []string{tool(t), "run", "--act", "--output", t.TempDir(), "--"}
	got := runProgram(t, h.OnIn(0, dir, append(run, h.Across(m, order)...)...), dir)
	if right := []string{"0: right", "1: right", "2: right", "3: right"}; !slices.Equal(got, right) {
		t.Errorf("comms.c said %q", got)
	}
}
