package vm

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/mpitrace/mpitrace/test/mpijob"
)

var suite = flag.String("suite", "", "of the tests of TestSuite, those whose names match")

// TestSuite: what CI runs of MPICH's test suite in act mode, with all messages over an
// RDMA device. Only with -long: emulated processors take a quarter of an hour for each
// MPI. Nobody watches memory in the guest, so registrations are not to be kept.
func TestSuite(t *testing.T) {
	if !*long {
		return // asked for by make test-vm
	}
	gate := filepath.Join(t.TempDir(), "conformance")
	here := func(args ...string) {
		t.Helper()
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir = top
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	here("go", "build", "-o", gate, "./test/conformance")
	root, err := filepath.Abs(top)
	if err != nil {
		t.Fatal(err)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mpijob.All {
		t.Run(m.Name, func(t *testing.T) {
			mpijob.Need(t, m.Missing())
			here(gate, "--build-only", "--subset", "--mpi", m.Name) // the guest has the files of its host
			g := Boot(t, Options{CPUs: 2, MiB: 4096})
			began := time.Now()
			out := g.Run(t, 5*time.Hour, append(append([]string{"env", "HOME=" + home}, ours...),
				"sh", "-c", `cd "$1" && shift && exec "$@"`, "in", root,
				gate, "--act", "--subset", "--mpi", m.Name, "--run", *suite, "--policy", "device=rxe0,cache=off", "--timeout", "30m", "-v")...)
			t.Logf("%v\n%s", time.Since(began).Round(time.Second), out.Stdout)
			if out.Status != 0 || !bytes.Contains(out.Stdout, []byte("conformance: ")) {
				t.Errorf("status %d\n%s", out.Status, out.Stderr)
			}
		})
	}
}
