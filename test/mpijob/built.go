package mpijob

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
)

// RestoreHangup lets SIGHUP end what is started from here on, although nohup has it
// ignored in this process: what is caught here is at its default there.
func RestoreHangup() {
	if signal.Ignored(syscall.SIGHUP) {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
}

// Main runs the tests of a package behind prepare, which puts what they test into a
// directory that goes away with them; it returns the status for os.Exit.
func Main(m *testing.M, prepare func(dir string) error) int {
	RestoreHangup()
	dir, err := os.MkdirTemp("", "mpitrace-test-")
	if err == nil {
		defer os.RemoveAll(dir)
		err = prepare(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// BuildCommand builds mpitrace in a directory and returns its path.
func BuildCommand(dir string) (string, error) {
	path := filepath.Join(dir, "mpitrace")
	return path, BuildStatic(path, "cmd/mpitrace")
}

// BuildStatic builds a command of the project that needs no library.
func BuildStatic(path, pkg string) error {
	return goBuild(path, "CGO_ENABLED=0", "-ldflags=-s -w", pkg)
}

// BuildService builds the thread of a rank that registers memory, with the whole of Go,
// as an archive in a directory, and returns its path.
func BuildService(dir string) (string, error) {
	path := filepath.Join(dir, "regservice.a")
	return path, goBuild(path, "CGO_ENABLED=1", "-buildmode=c-archive", "shim/regservice/archive")
}

// goBuild builds a package of the project with the flags of the Makefile, which has
// compiled most of what it needs.
func goBuild(path, env, flag, pkg string) error {
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", flag, "-o", path, "github.com/mpitrace/mpitrace/"+pkg)
	cmd.Env = append(os.Environ(), env)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build %s: %w\n%s", pkg, err, out)
	}
	return nil
}

// CopyBuilt copies a library that make build left, for a test two folders below
// the top, and returns its path: a build at the same time does not change it
// under the ranks. It is empty where there is none, so that tests can skip.
func CopyBuilt(dir, name string) (string, error) {
	library, err := os.ReadFile(filepath.Join("../../build", name))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	path := filepath.Join(dir, name)
	if err == nil {
		err = os.WriteFile(path, library, 0o755)
	}
	return path, err
}
