// Package mpirun starts small MPI jobs on this machine, for tests and
// benchmarks: it knows how each MPI's launcher passes the environment, runs
// as root, runs more ranks than processors, and how to end a job that hangs.
// It must not know anything of what a job computes.
package mpirun

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// MPI is one MPI library of Debian, by the names of its tools.
type MPI struct {
	Name     string // openmpi, mpich: the suffix of Debian's alternatives
	CC       string // C compiler wrapper
	FC       string // Fortran compiler wrapper
	Launcher string // mpirun of this library
}

// All lists the MPI libraries the tests know.
var All = []MPI{named("openmpi"), named("mpich")}

func named(name string) MPI {
	return MPI{Name: name, CC: "mpicc." + name, FC: "mpifort." + name, Launcher: "mpirun." + name}
}

// Parse turns a comma-separated list of names into libraries, in that order.
func Parse(list string) ([]MPI, error) {
	var out []MPI
	for _, name := range strings.Split(list, ",") {
		i := slices.IndexFunc(All, func(m MPI) bool { return m.Name == strings.TrimSpace(name) })
		if i < 0 {
			return nil, fmt.Errorf("unknown MPI %q: known are openmpi and mpich", name)
		}
		out = append(out, All[i])
	}
	return out, nil
}

// Missing names the tools of m that are not installed, with the apt line
// that brings them; nil if all are there.
func (m MPI) Missing() error {
	for _, tool := range []string{m.CC, m.FC, m.Launcher} {
		if _, err := exec.LookPath(tool); err != nil {
			packages := map[string]string{
				"openmpi": "libopenmpi-dev openmpi-bin",
				"mpich":   "libmpich-dev mpich",
			}[m.Name]
			return fmt.Errorf("%s is not installed; install it by: apt-get install -y gcc gfortran %s", tool, packages)
		}
	}
	return nil
}

// Helpers compiles into dir what has to be preloaded behind the shim for this
// MPI to run more ranks than processors, and returns the full paths. source
// is the path of ucxnap.c.
func (m MPI) Helpers(source, dir string) ([]string, error) {
	if m.Name != "mpich" {
		return nil, nil
	}
	library, err := filepath.Abs(filepath.Join(dir, "libucxnap.so"))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	if strings.ContainsAny(library, ": ") {
		return nil, fmt.Errorf("%s holds a colon or a space, which LD_PRELOAD cannot take: choose another folder", library)
	}
	cmd := exec.Command("cc", "-O2", "-fPIC", "-shared", "-Wall", "-o", library, source, "-ldl")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", cmd, err, out)
	}
	return []string{library}, nil
}

// Job is one start of a program on this machine.
type Job struct {
	MPI     MPI
	Ranks   int
	Argv    []string // program and its arguments
	Dir     string   // working directory; empty: this one
	Preload []string // libraries for LD_PRELOAD of the ranks, first one in front
	Env     []string // further KEY=VALUE for the ranks
	Stdin   []byte   // for rank 0
	Timeout time.Duration

	// Dedicated says that there is a processor for each rank, so that waiting
	// ranks need not give theirs away. Benchmarks want that.
	Dedicated bool
}

// Outcome is what is left of a job.
type Outcome struct {
	Stdout, Stderr []byte
	Status         int // exit status of the launcher; 128+signal if it died of one
	TimedOut       bool
	Elapsed        time.Duration
}

// jobMark is the variable by which stray processes of a job are found.
const jobMark = "MPIRUN_TEST_JOB"

// Run starts the job and waits for it. A job that outlives its timeout is
// ended with all its processes. The error is about starting, not about the
// job's own status.
func Run(job Job) (Outcome, error) {
	mark := fmt.Sprintf("%d-%d", os.Getpid(), time.Now().UnixNano())
	ctx, cancel := context.WithTimeout(context.Background(), job.Timeout)
	defer cancel()

	argv := job.commandLine(mark)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.Stdin = bytes.NewReader(job.Stdin)
	cmd.Dir = job.Dir
	cmd.Env = append(cleanEnv(), jobMark+"="+mark)
	cmd.Env = append(cmd.Env, launcherEnv...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 3 * time.Second

	start := time.Now()
	if err := cmd.Start(); err != nil {
		return Outcome{}, fmt.Errorf("start %s: %w", argv[0], err)
	}
	err := cmd.Wait()
	timedOut := ctx.Err() != nil
	if timedOut {
		killMarked(mark)
	}
	if err != nil && !isExit(err) && !timedOut {
		return Outcome{}, fmt.Errorf("run %s: %w", argv[0], err)
	}
	return Outcome{
		Stdout: stdout.Bytes(), Stderr: stderr.Bytes(), Status: status(cmd.ProcessState),
		TimedOut: timedOut, Elapsed: time.Since(start),
	}, nil
}

// cleanEnv is this process's environment without settings of the shim: a test
// must not depend on the caller's, and the names that only the tests know
// (MPITRACE_CACHE) would make the shim complain.
func cleanEnv() []string {
	return slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "MPITRACE_") })
}

// launcherEnv is what Open MPI's launcher needs in its own environment.
var launcherEnv = []string{"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"}

func (job Job) commandLine(mark string) []string {
	env := append([]string{jobMark + "=" + mark}, job.Env...)
	if len(job.Preload) > 0 {
		env = append(env, "LD_PRELOAD="+strings.Join(job.Preload, ":"))
	}
	argv := []string{job.MPI.Launcher}
	switch job.MPI.Name {
	case "openmpi":
		argv = append(argv, "--bind-to", "none")
		if !job.Dedicated {
			argv = append(argv, "--oversubscribe", "--mca", "mpi_yield_when_idle", "1")
		}
		for _, kv := range env {
			argv = append(argv, "-x", kv)
		}
	case "mpich":
		for _, kv := range env {
			key, value, _ := strings.Cut(kv, "=")
			argv = append(argv, "-genv", key, value)
		}
	}
	argv = append(argv, "-n", strconv.Itoa(job.Ranks))
	return append(argv, job.Argv...)
}

func isExit(err error) bool {
	var exit *exec.ExitError
	return errors.As(err, &exit)
}

func status(state *os.ProcessState) int {
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return state.ExitCode()
}

// killMarked ends every process whose environment carries the job's mark:
// ranks that their launcher has left behind.
func killMarked(mark string) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return
	}
	want := []byte(jobMark + "=" + mark + "\x00")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		environ, err := os.ReadFile("/proc/" + e.Name() + "/environ")
		if err == nil && bytes.Contains(environ, want) {
			// it may have ended meanwhile: nothing to do then
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}
