package fakempi

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestInert preloads the library into programs that have nothing to do with
// MPI: no thread, no descriptor, no signal handler or mask, no environment and
// no file of its own.
func TestInert(t *testing.T) {
	library, err := filepath.Abs("../../build/libmpishim.so")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(library); err != nil {
		t.Fatalf("%v: run make build first", err)
	}
	own := "unshare -m" // a /dev/shm that no other process has
	if os.Geteuid() != 0 {
		own = "unshare -rm"
	}
	for name, script := range map[string]string{
		// without SigQ, which counts those of all processes of the user
		"threads and signals": "grep -E '^(Threads|Sig[^Q]|Shd)' /proc/self/status",
		"descriptors":         "ls -l /proc/self/fd | wc -l",
		"tasks":               "ls /proc/self/task | wc -l",
		"environment":         "env | grep -v -e '^LD_PRELOAD=' -e '^_=' | sort",
		"files":               own + ` sh -c "mount -t tmpfs tmpfs /dev/shm; true; ls -A . /dev/shm"`,
		"status":              "exit 7",
	} {
		t.Run(name, func(t *testing.T) {
			run := func(preload string) (string, int) {
				cmd := exec.Command("sh", "-c", script)
				cmd.Dir = t.TempDir()
				cmd.Env = append(os.Environ(), "PWD="+cmd.Dir, "LD_PRELOAD="+preload)
				out, err := cmd.CombinedOutput()
				var exit *exec.ExitError
				if err != nil && !errors.As(err, &exit) {
					t.Fatal(err)
				}
				return strings.ReplaceAll(string(out), cmd.Dir, ""), cmd.ProcessState.ExitCode()
			}
			nativeOut, nativeStatus := run("")
			out, status := run(library)
			if out != nativeOut || status != nativeStatus {
				t.Errorf("preloaded: status %d, %q; without: status %d, %q", status, out, nativeStatus, nativeOut)
			}
		})
	}
}
