package mpijob

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Job is one start of a program on this machine.
type Job struct {
	MPI     MPI
	Ranks   int
	Argv    []string // program and its arguments
	Dir     string   // working directory; empty: this one
	Preload []string // libraries for LD_PRELOAD of the ranks, first one in front
	Env     []string // further KEY=VALUE for the ranks
	Stdin   []byte   // for rank 0
	Before  []string // command that is given the launcher's, as mpitrace run -- is
	Across  []string // the launcher and its words that say on which hosts; none: on this machine
	Timeout time.Duration

	// Dedicated says that there is a processor for each rank, so that waiting
	// ranks need not give theirs away. Benchmarks want that.
	Dedicated bool
}

// Command is the command line that starts the job; it wants Environ.
func (job Job) Command() []string {
	env := job.Env
	if len(job.Preload) > 0 {
		env = append(slices.Clone(env), "LD_PRELOAD="+strings.Join(job.Preload, ":"))
	}
	argv := slices.Concat(job.Before, job.launcher())
	switch job.MPI.Name {
	case "openmpi":
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

func (job Job) launcher() []string {
	switch {
	case job.Across != nil:
		return job.Across
	case job.MPI.Name == "openmpi":
		return []string{job.MPI.Launcher, "--bind-to", "none"}
	}
	return []string{job.MPI.Launcher}
}

// Environ is this process's environment and more, as a launcher needs it. It
// has no settings of the shim: a test must not depend on the caller's, and the
// names that only the tests know (MPITRACE_CACHE) would make the shim complain.
func Environ(more ...string) []string {
	env := slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "MPITRACE_") })
	return append(append(env, "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"), more...)
}

// Run starts the job and waits for it; see Wait.
func Run(job Job) (Outcome, error) {
	p, err := Start(job.Timeout, job.Dir, Environ(), job.Command(), job.Stdin)
	if err != nil {
		return Outcome{}, err
	}
	return p.Wait()
}

// Running is a command under way.
type Running struct {
	*exec.Cmd
	ctx            context.Context
	cancel         func()
	timer          *time.Timer
	start          time.Time
	mark           string // in the environment of all its processes
	stdout, stderr bytes.Buffer
}

// telling is the standard output of a command whose limit begins anew with all
// that it prints.
type telling struct {
	p     *Running
	limit time.Duration
}

func (w telling) Write(b []byte) (int, error) {
	w.p.timer.Reset(w.limit)
	return w.p.stdout.Write(b)
}

// grace is how long a command has after SIGTERM, and how long its output may
// be held open after its end.
const grace = 5 * time.Second

// Start starts a command in a process group of its own, so that signals of a
// terminal do not reach it. At its limit it gets SIGTERM, and is then killed.
func Start(limit time.Duration, dir string, env, argv []string, stdin []byte) (*Running, error) {
	return start(limit, false, dir, env, argv, stdin)
}

// StartTelling is Start for a long command that prints how far it is: its limit
// is for the time in which it prints nothing, however loaded the machine is.
func StartTelling(limit time.Duration, env, argv []string) (*Running, error) {
	return start(limit, true, "", env, argv, nil)
}

func start(limit time.Duration, tells bool, dir string, env, argv []string, stdin []byte) (*Running, error) {
	ctx, cancel := context.WithCancel(context.Background())
	now := time.Now()
	p := &Running{
		Cmd: exec.CommandContext(ctx, argv[0], argv[1:]...), ctx: ctx, cancel: cancel,
		timer: time.AfterFunc(limit, cancel), start: now, mark: fmt.Sprintf("MPIJOB_MARK=%d-%d", os.Getpid(), now.UnixNano()),
	}
	p.Dir, p.Env = dir, append(slices.Clone(env), p.mark)
	if stdin != nil {
		p.Stdin = bytes.NewReader(stdin)
	}
	p.Stdout, p.Stderr = &p.stdout, &p.stderr
	if tells {
		p.Stdout = telling{p, limit}
	}
	p.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.Cancel = func() error { return p.Process.Signal(syscall.SIGTERM) }
	p.WaitDelay = grace
	if err := p.Cmd.Start(); err != nil {
		p.timer.Stop()
		cancel()
		return nil, fmt.Errorf("start %s: %w", argv[0], err)
	}
	return p, nil
}

// Outcome is what is left of a command.
type Outcome struct {
	Stdout, Stderr []byte
	Status         int // as a shell's: 128+signal if it died of one
	TimedOut       bool
	Elapsed        time.Duration
}

// Wait waits for the end of the command; one that outlives its limit is ended
// with all its processes. The error is about running, not about its status.
func (p *Running) Wait() (Outcome, error) {
	err := p.Cmd.Wait()
	out := Outcome{
		Stdout: p.stdout.Bytes(), Stderr: p.stderr.Bytes(), Status: p.ProcessState.ExitCode(),
		TimedOut: p.ctx.Err() != nil, Elapsed: time.Since(p.start),
	}
	p.timer.Stop()
	p.cancel()
	if ws, ok := p.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		out.Status = 128 + int(ws.Signal())
	}
	if out.TimedOut {
		p.Kill()
	}
	if err == nil || out.TimedOut || errors.As(err, new(*exec.ExitError)) {
		return out, nil
	}
	return out, fmt.Errorf("run %s: %w", p.Path, err)
}

// Kill ends every process of the command, by its mark: the ranks of Open MPI
// are each in a group of their own, those of Hydra in a session.
func (p *Running) Kill() {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		environ, err := os.ReadFile("/proc/" + e.Name() + "/environ")
		if err == nil && bytes.Contains(environ, []byte(p.mark+"\x00")) {
			// it may have ended meanwhile: nothing to do then
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}
