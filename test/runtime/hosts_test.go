package runtime_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/mpitrace/mpitrace/test/hosts"
	"github.com/mpitrace/mpitrace/test/mpijob"
)

// TestHosts: the ranks of another host reach mpitrace run, act with those of this
// one, and their messages arrive, by the network and not by the loopback, which is
// a device too. With Open MPI only: between hosts without fast network MPICH's own
// MPI_Finalize hangs now and then (test/launch).
func TestHosts(t *testing.T) {
	m := mpijob.All[0]
	program := made(t, m, "state")
	h, dir := hosts.New(t, 2), t.TempDir()
	result := filepath.Join(dir, "out")
	run := []string{at("mpitrace"), "run", "--act", "--shim", at("libmpishim.so"), "-o", result, "--"}
	command := h.OnIn(0, dir, append(run, h.Across(m, program)...)...)
	got := end(t, dir, result, mpijob.Environ("UCX_TLS=tcp,self"), command)
	if got.status != 0 || strings.Count(strings.Join(got.out, "\n"), "mapped 1") != 4 || strings.Count(strings.Join(got.out, "\n"), "sum 4") != 4 {
		t.Errorf("status %d, output %q\n%s", got.status, got.out, got.err)
	}
	result = filepath.Join(dir, "ring")
	run[len(run)-2] = result
	command = h.OnIn(0, dir, append(run, h.Across(m, made(t, m, "ring"))...)...)
	ring := end(t, dir, result, mpijob.Environ("UCX_TLS=tcp,self"), command)
	if ring.status != 0 || strings.Join(ring.out, "\n") != "round 6" {
		t.Errorf("a message round the ranks: status %d, output %q\n%s", ring.status, ring.out, ring.err)
	}
	if len(got.act) != 1 || !got.act[0].Act || got.act[0].Ranks != 4 || len(got.ours) > 0 {
		t.Errorf("verdicts %+v, lines %q", got.act, got.ours)
	}
}
