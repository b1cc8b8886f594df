package microbench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/mpitrace/mpitrace/internal/launch"
	"github.com/mpitrace/mpitrace/internal/launch/harvest"
	"github.com/mpitrace/mpitrace/internal/presence"
	"github.com/mpitrace/mpitrace/segment"
)

// grace is how long a launcher has after SIGTERM to end its ranks.
const grace = 5 * time.Second

// native runs the command as it is and returns what it printed.
func (r *runner) native(ctx context.Context, command []string) (string, error) {
	return start(ctx, command, r.launcher.environ())
}

// preloaded runs the command with the shim in its ranks. That the shim was at
// work is shown by the result it wrote, which is then removed.
func (r *runner) preloaded(ctx context.Context, command []string) (string, error) {
	dir, err := os.MkdirTemp(r.scratch, "result-")
	if err != nil {
		return "", fmt.Errorf("result of the run: %w", err)
	}
	defer os.RemoveAll(dir)
	id := launch.NewJobID(time.Now()) + "-" + filepath.Base(dir)
	plan, err := launch.Make(launch.Request{
		Kind: r.launcher.kind, Args: command, Env: r.launcher.environ(), Preload: r.o.Shim,
		Set: []string{"MPITRACE_JOB_ID=" + id, "MPITRACE_OUTPUT=" + dir},
	})
	if err != nil {
		return "", err
	}
	text, err := start(ctx, plan.Args, plan.Env)
	if err != nil {
		return "", errors.Join(err, collect(id, dir))
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"+segment.NodeFileSuffix))
	if err == nil && len(files) == 0 {
		err = errors.New("the preloaded library wrote no result: it saw no MPI call, or could not write to " + dir)
	}
	return text, err
}

// acting runs the command in act mode. That all of its ranks acted stands in
// the result, which is then removed.
func (r *runner) acting(ctx context.Context, command []string, policy string) (string, error) {
	dir, err := os.MkdirTemp(r.scratch, "result-")
	if err != nil {
		return "", fmt.Errorf("result of the run: %w", err)
	}
	defer os.RemoveAll(dir)
	run := append(slices.Clone(r.o.ActRun), "--act="+policy, "--output", dir, "--")
	text, err := start(ctx, append(run, command...), r.launcher.environ())
	if err != nil && !errors.Is(err, errTimeout) {
		return "", err
	}
	if off := CheckActed(dir); off != nil {
		return "", errors.Join(err, off)
	}
	return text, err
}

// CheckActed is an error unless every MPI_COMM_WORLD of a result was told to act.
func CheckActed(dir string) error {
	var job struct{ Act []presence.Verdict }
	text, err := os.ReadFile(filepath.Join(dir, "job.json"))
	if err == nil {
		err = json.Unmarshal(text, &job)
	}
	if err != nil {
		return fmt.Errorf("result of act mode: %w", err)
	}
	for _, v := range job.Act {
		if !v.Act {
			return fmt.Errorf("act mode was off: %s", v.Reason)
		}
	}
	if len(job.Act) == 0 {
		return errors.New("act mode was off: no rank reported")
	}
	return nil
}

// collect takes the segments of a job that failed out of shared memory.
func collect(job, dir string) error {
	_, err := harvest.Collect(context.Background(), harvest.Options{
		Job: job, Wait: grace, Output: func(string) string { return dir }, Writer: "mpitrace bench",
	})
	return err
}

// finalizing is how long a job has for its MPI_Finalize once all is measured. That of
// MPICH over TCP hangs now and then.
const finalizing = 10 * time.Second

// printed is what a job prints; the first time that the end of the measurement is in it,
// it calls done.
type printed struct {
	text bytes.Buffer
	done func()
}

func (p *printed) Write(more []byte) (int, error) {
	n, err := p.text.Write(more)
	if p.done != nil && bytes.Contains(p.text.Bytes(), []byte("\ndone ")) {
		p.done()
		p.done = nil
	}
	return n, err
}

// start runs a command in a process group of its own and waits for it. At the
// end of the context, or some seconds after all was measured, it gets SIGTERM, which
// launchers hand to their ranks; what it printed until then is returned too.
func start(ctx context.Context, command, env []string) (string, error) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	stdout := printed{done: func() { time.AfterFunc(finalizing, func() { end(errTimeout) }) }}
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr = env, &stdout, &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = grace
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return stdout.text.String(), context.Cause(ctx)
	case err != nil:
		return "", fmt.Errorf("%s: %w: %s", command[0], err, complaint(stderr.String(), stdout.text.String()))
	}
	return stdout.text.String(), nil
}

// complaint is the line of a benchmark program that says what is wrong, else
// the first one on stderr, or on stdout.
func complaint(stderr, stdout string) string {
	first := ""
	for _, line := range strings.Split(stderr+"\n"+stdout, "\n") {
		line = strings.TrimSpace(line)
		if at := strings.Index(line, "bench "); at >= 0 && strings.Contains(line[at:], ": rank ") {
			return line[at:]
		}
		if first == "" && strings.Trim(line, "-=") != "" {
			first = line
		}
	}
	return first
}
