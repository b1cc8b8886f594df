package launch_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// A launcher's own status may depend on which of its ranks it hears of first:
// the same job of Hydra ends with 0 or 9 when ranks leave without MPI_Finalize,
// and with 0 or 15 of SIGTERM. What must hold in every case is that mpitrace run
// ends with the status of its launcher, so the tests put themselves between
// the two.

// statusEnv names the file that the launcher's status is written to; where it
// is set this program is the launcher.
const statusEnv = "LAUNCH_TEST_STATUS"

// launcherStatus is the status of the launcher of a job; a job of one process
// has no launcher.
type launcherStatus struct{ path string }

// recordStatus puts this program in front of the launcher of a job, under its
// name.
func recordStatus(t *testing.T, ranks int, command []string) ([]string, launcherStatus) {
	t.Helper()
	if ranks == 1 {
		return command, launcherStatus{}
	}
	real, err := exec.LookPath(command[0])
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	status := launcherStatus{filepath.Join(dir, "status")}
	launcher := filepath.Join(dir, filepath.Base(command[0]))
	script := fmt.Sprintf("#!/bin/sh\n%s='%s' exec '%s' '%s' \"$@\"\n", statusEnv, status.path, self, real)
	if err := os.WriteFile(launcher, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return append([]string{launcher}, command[1:]...), status
}

// want demands that a run ended as its launcher.
func (s launcherStatus) want(t *testing.T, got ran) {
	t.Helper()
	if s.path == "" {
		return
	}
	text, err := os.ReadFile(s.path)
	if err != nil {
		t.Fatal(err)
	}
	if strconv.Itoa(got.status) != string(text) {
		t.Errorf("status %d, that of the launcher was %s\n%s", got.status, text, got.stderr)
	}
}

// beLauncher runs a launcher, hands on every signal, and writes its status,
// which is a shell's, to a file.
func beLauncher(path string, command []string) int {
	// a signal for this process is one for the launcher; it must not be lost
	// between the two
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, statusEnv+"=") })
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	go func() {
		for s := range signals {
			// it may have ended meanwhile: nothing to do then
			_ = cmd.Process.Signal(s)
		}
	}()
	if err := cmd.Wait(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	status := cmd.ProcessState.ExitCode()
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		status = 128 + int(ws.Signal())
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, os.ErrExist) {
		return status // it was started again, to fetch what other nodes have
	}
	if err == nil {
		_, err = file.WriteString(strconv.Itoa(status))
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return status
}
