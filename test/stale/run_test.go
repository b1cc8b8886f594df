package stale

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mpitrace/mpitrace/test/mpijob"
)

// mpitrace builds the command and returns the words that run a job with it.
func mpitrace(t *testing.T, options ...string) (words []string) {
	t.Helper()
	dir := t.TempDir()
	exe, err := mpijob.BuildCommand(dir)
	if err != nil {
		t.Fatal(err)
	}
	shim, err := filepath.Abs("../../build/libmpishim.so")
	if err == nil {
		_, err = os.Stat(shim)
	}
	if err != nil {
		t.Fatalf("make build first: %v", err)
	}
	words = append([]string{exe, "run", "-o", filepath.Join(dir, "result"), "--shim", shim}, options...)
	return append(words, "--")
}

// socketOfJob is where a rank of the job was told to ask.
var socketOfJob = regexp.MustCompile(`(?m)^\[(.*)\]$`)

// output runs a command to its end, which must be a good one.
func output(t *testing.T, argv []string) (out, complaints string) {
	t.Helper()
	p, err := mpijob.StartTelling(limit, mpijob.Environ(), argv)
	if err != nil {
		t.Fatal(err)
	}
	o, err := p.Wait()
	if err != nil || o.Status != 0 || o.TimedOut {
		t.Fatalf("%q: %v, status %d, timed out %v\n%s%s", argv, err, o.Status, o.TimedOut, o.Stdout, o.Stderr)
	}
	return string(o.Stdout), string(o.Stderr)
}

// TestRun: the ranks of a job that asks for it are watched by a helper of
// mpitrace run, which ends with it.
func TestRun(t *testing.T) {
	helper(t) // skips where it cannot be; nobody asks this one
	for _, mpi := range mpijob.All {
		t.Run(mpi.Name, func(t *testing.T) {
			need(t, mpi.Missing())
			exe := build(t, mpi.CC, "-DSTALE_MPI=1")
			j := mpijob.Job{MPI: mpi, Ranks: 2, Argv: []string{"sh", "-c", "echo [$MPITRACE_MEMMON_SOCKET]; SOCKET=$MPITRACE_MEMMON_SOCKET exec " + exe + " munmap,raw-munmap 1000"}}
			out, _ := output(t, append(mpitrace(t, "--memory-monitor"), j.Command()...))
			counts := parse(t, out)
			if len(counts) != 4 {
				t.Errorf("%d counts: %s", len(counts), out)
			}
			for _, c := range counts {
				expectFresh(t, c)
			}
			m := socketOfJob.FindStringSubmatch(out)
			if m == nil || m[1] == "" {
				t.Fatalf("the ranks were told of no socket:\n%s", out)
			}
			if _, err := os.Stat(filepath.Dir(m[1])); !os.IsNotExist(err) {
				t.Errorf("%s is still there (%v)", m[1], err)
			}
		})
	}
}

// TestRunOtherwise: jobs that do not ask are told of nobody; one that asks and
// cannot have it is told why, once, and runs; one within another shares.
func TestRunOtherwise(t *testing.T) {
	tell := []string{"sh", "-c", "echo [$MPITRACE_MEMMON_SOCKET]"}
	if out, _ := output(t, append(mpitrace(t), tell...)); out != "[]\n" {
		t.Errorf("nobody asked: %q", out)
	}
	need(t, mpijob.Tools("util-linux", "setpriv"))
	powerless := append([]string{"setpriv", "--bounding-set=-all", "--inh-caps=-all"}, append(mpitrace(t, "--memory-monitor"), tell...)...)
	out, complaints := output(t, powerless)
	if out != "[]\n" || strings.Count(complaints, "memory is not watched") != 1 || !strings.Contains(complaints, "as a service with CAP_BPF") {
		t.Errorf("without rights: %q, %s", out, complaints)
	}
	helper(t) // skips where it cannot be; nobody asks this one
	out, complaints = output(t, append(mpitrace(t, "--memory-monitor"), powerless...))
	if !strings.Contains(out, "mpitrace-memmon-") || strings.Contains(complaints, "not watched") {
		t.Errorf("a job without rights in one that is watched: %q, %s", out, complaints)
	}
}

// besideHelper runs a command while the node's helper serves, in a mount
// namespace, so that /run is ours. The helper's first word is that it does.
const besideHelper = `mount -t tmpfs none /run && mkfifo /run/said || exit
"$0" memmon >/run/said & helper=$!
read -r word </run/said || exit
"$@"; status=$?; kill $helper; wait $helper; exit $status`

// TestNodesOwn: where the socket of the job does not lead anywhere, as on its
// other nodes, the node's helper watches; a job on a node that has one takes it.
func TestNodesOwn(t *testing.T) {
	helper(t) // skips where it cannot be; nobody asks this one
	need(t, mpijob.Tools("util-linux mount", "unshare", "mount"))
	words := mpitrace(t, "--memory-monitor")
	begin := []string{"unshare", "--mount", "sh", "-c", besideHelper, words[0]}
	out, _ := output(t, append(slices.Clone(begin), "env", "SOCKET=/nowhere/socket", build(t, "gcc"), "raw-munmap", "1000"))
	expectFresh(t, parse(t, out)[0])
	out, complaints := output(t, append(append(begin, words...), "sh", "-c", "echo [$MPITRACE_MEMMON_SOCKET]"))
	if !strings.Contains(out, "[]\n") || strings.Contains(complaints, "not watched") {
		t.Errorf("a job on a node with a helper: %q, %s", out, complaints)
	}
}
