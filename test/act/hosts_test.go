package act

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mpitrace/mpitrace/test/hosts"
	"github.com/mpitrace/mpitrace/test/mpijob"
)

// TestHosts: programs of two hosts with two ranks each, over iWARP; and what they
// leave behind.
func TestHosts(t *testing.T) {
	want := native(t, 4, 21, "1500")
	for _, m := range mpijob.All {
		t.Run(m.Name, func(t *testing.T) {
			mpijob.Need(t, m.Missing())
			testHosts(t, m, want)
		})
	}
}

func testHosts(t *testing.T, m mpijob.MPI, want []string) {
	h, dir := hosts.New(t, 2), t.TempDir()
	program := compile(t, m, dir, "random.c")
	counts, policies := tally{}, []policy{
		{"auto", []string{"eager_messages", "ring_messages", "rendezvous_messages"}},
	}
	if m.Name == "openmpi" {
		policies = append(policies,
			policy{"rndv=write,eager-limit=1000", []string{"written_messages"}},
			policy{"transport=ud-first,rc-peers=1,rc-after=100", []string{"datagram_messages", "fragment_messages"}})
	}
	for _, p := range policies {
		policy, output := p.line, t.TempDir()
		run := []string{tool(t), "run", "--act=" + policy, "--output", output, "--"}
		same(t, policy, runProgram(t, h.OnIn(0, dir, append(run, h.Across(m, program, "21", "1500")...)...), dir), want)
		hash := hashOf(t, policy)
		decided(t, output, hash, 4)
		counts.add(t, policy, output, 4)
		for _, l := range ledgers(t, output, 4) {
			if !slices.Contains(l.Policy, "hash="+hash) {
				t.Errorf("%s: rank %d has the policy %q, not %s", policy, l.Rank, l.Policy, hash)
			}
			l.checkPeers(t, policy, 3, strings.HasPrefix(policy, "transport=ud-first"))
		}
	}
	counts.check(t, policies)
	order := compile(t, m, dir, "comms.c")
	run := []string{tool(t), "run", "--act", "--output", t.TempDir(), "--"}
	got := runProgram(t, h.OnIn(0, dir, append(run, h.Across(m, order)...)...), dir)
	if right := []string{"0: right", "1: right", "2: right", "3: right"}; !slices.Equal(got, right) {
		t.Errorf("comms.c said %q", got)
	}
}

// TestOutage: the network between two hosts is away for a while, as with a switch that
// begins anew, in the middle of a program, which goes on.
func TestOutage(t *testing.T) {
	m := mpijob.All[0]
	mpijob.Need(t, m.Missing())
	h, dir := hosts.New(t, 2), t.TempDir()
	program := compile(t, m, dir, "turns.c")
	begun := filepath.Join(dir, "begun")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for start := time.Now(); time.Since(start) < limit; time.Sleep(10 * time.Millisecond) {
			if _, err := os.Stat(begun); err == nil {
				break
			}
		}
		err := h.Cut(1)
		time.Sleep(8 * time.Second)
		if err = errors.Join(err, h.Mend(1)); err != nil {
			t.Error(err)
		}
	}()
	run := append([]string{tool(t), "run", "--act", "--output", t.TempDir(), "--"}, h.Across(m, program, "200", begun)...)
	got := runProgram(t, h.OnIn(0, dir, run...), dir)
	<-ended
	if want := []string{"0: right", "1: right", "2: right", "3: right"}; !slices.Equal(got, want) {
		t.Errorf("turns.c said %q", got)
	}
}

// TestUnreachable: hosts with an interface each whose address leads nowhere else, as that of
// containers does. The ranks find out in MPI_Init, and the program runs without us.
func TestUnreachable(t *testing.T) {
	m := mpijob.All[0]
	mpijob.Need(t, m.Missing())
	h, dir := hosts.New(t, 2), t.TempDir()
	for i := range h.Names {
		for _, args := range [][]string{
			{"ip", "link", "add", "inside0", "type", "veth", "peer", "name", "inside1"},
			{"ip", "link", "set", "inside1", "up"},
			{"ip", "addr", "add", "172.17.0.1/16", "dev", "inside0"},
			{"ip", "link", "set", "inside0", "up"},
		} {
			runProgram(t, h.On(i, args...), dir)
		}
	}
	program := compile(t, m, dir, "turns.c")
	for _, policy := range []string{"device=iwarp:inside0", "device=iwarp:inside0,transport=ud-first"} {
		run := append([]string{tool(t), "run", "--act=" + policy, "--output", t.TempDir(), "--"}, h.Across(m, program, "20", filepath.Join(dir, "begun"))...)
		out := finished(t, h.OnIn(0, dir, run...), dir)
		want := []string{"0: right", "1: right", "2: right", "3: right"}
		if got := said(out.Stdout); !slices.Equal(got, want) {
			t.Errorf("%s: the program said %q", policy, got)
		}
		for _, part := range []string{"act mode is off, the job is only observed: ", "does not answer over iwarp:inside0"} {
			if strings.Count(string(out.Stderr), part) != 1 {
				t.Errorf("%s: no single line with %q:\n%s", policy, part, out.Stderr)
			}
		}
	}
}

// TestNetwork: hosts whose first interface has the same address on each, as the bridge of
// containers does, take the one whose network they have in common.
func TestNetwork(t *testing.T) {
	m := mpijob.All[0]
	mpijob.Need(t, m.Missing())
	h, dir, output := hosts.New(t, 2), t.TempDir(), t.TempDir()
	if err := h.AddNetwork(); err != nil {
		t.Fatal(err)
	}
	for i := range h.Names {
		runProgram(t, h.On(i, "ip", "addr", "flush", "dev", "eth0"), dir)
		runProgram(t, h.On(i, "ip", "addr", "add", "172.17.0.1/16", "dev", "eth0"), dir)
	}
	words := h.Across(m, compile(t, m, dir, "turns.c"), "20", filepath.Join(dir, "begun"))
	for i := range words {
		words[i] = strings.ReplaceAll(words[i], "eth0", "eth1") // of Open MPI
	}
	run := append([]string{tool(t), "run", "--act", "--output", output, "--"}, words...)
	if got, want := runProgram(t, h.OnIn(0, dir, run...), dir), []string{"0: right", "1: right", "2: right", "3: right"}; !slices.Equal(got, want) {
		t.Errorf("turns.c said %q", got)
	}
	for _, l := range ledgers(t, output, 4) {
		if l.Device != "iwarp:eth1" {
			t.Errorf("rank %d took %q", l.Rank, l.Device)
		}
	}
}
