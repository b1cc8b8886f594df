package passtable

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/mpitrace/mpitrace/test/mpijob"
)

// limit is how long one run may take before it counts as hung, on a loaded machine.
const limit = 5 * time.Minute

// kind says what a run preloads.
type kind int

const (
	native   kind = iota // nothing of ours
	observed             // the shim
	wrong                // the negative control
)

// outcome is what a run did.
type outcome struct {
	dir    string // its PASSTABLE_DIR
	status int
	stdout string // of all ranks in order, and of mpirun
	stderr string
}

// launch starts the program by way of a shell that gives each rank a file of
// its own for stdout. $1 is what to do before, the rest the program.
const launch = `rank=${OMPI_COMM_WORLD_RANK-$PMI_RANK}; eval "$1"; shift; exec "$@" >"$PASSTABLE_DIR/stdout.$rank"`

// run executes the row once; the error says what could not be done, or what
// was waited for in vain.
func (h *harness) run(m *mpi, r *row, k kind) (*outcome, error) {
	dir, err := os.MkdirTemp(h.runs, "passtable-")
	if err != nil {
		return nil, err
	}
	command, err := h.commandLine(m, r)
	if err != nil {
		return nil, err
	}
	env, err := h.environment(m, r, k, dir)
	if err != nil {
		return nil, err
	}
	p, err := mpijob.Start(limit, dir, env, command, nil)
	if err != nil {
		return nil, err
	}
	end, err := p.Wait()
	if end.TimedOut {
		err = fmt.Errorf("waited %v for the end of %q; stderr:\n%s", limit, command, end.Stderr)
	}
	if err != nil {
		return nil, err
	}
	got := &outcome{dir: dir, status: end.Status, stderr: string(end.Stderr)}
	got.stdout, err = allStdout(dir, string(end.Stdout))
	return got, err
}

// commandLine builds what the row needs and gives the command that runs it.
func (h *harness) commandLine(m *mpi, r *row) ([]string, error) {
	program, err := h.build(m, r.program, r.flags...)
	if err != nil {
		return nil, err
	}
	argv := []string{"/bin/sh", "-c", launch, "launch", r.before}
	if filepath.Ext(program) == ".py" {
		argv = append(argv, python)
	}
	arguments, err := h.arguments(m, r)
	if err != nil {
		return nil, err
	}
	argv = append(append(argv, program), arguments...)
	return slices.Concat(r.wrap, mpijob.Job{MPI: m.MPI, Ranks: r.ranks, Argv: argv}.Command()), nil
}

// environment is that of mpirun, which is preloaded like its ranks.
func (h *harness) environment(m *mpi, r *row, k kind, dir string) ([]string, error) {
	preload, err := h.preload(m, r, k)
	if err != nil {
		return nil, err
	}
	env := mpijob.Environ("PASSTABLE_DIR="+dir, "LD_PRELOAD="+preload)
	if r.noSharedMemory {
		env = append(env, m.noSharedMemory)
	}
	if k == observed {
		env = append(env, h.settings(dir, r)...)
	}
	for _, variable := range r.env {
		env = append(env, strings.ReplaceAll(variable, "$DIR", dir))
	}
	return env, nil
}

// settings are the MPITRACE_ variables of an observed run.
func (h *harness) settings(dir string, r *row) []string {
	if r.plain {
		return nil
	}
	set := []string{"MPITRACE_JOB_ID=" + filepath.Base(dir), "MPITRACE_OUTPUT=" + filepath.Join(dir, "result")}
	if !r.defaultSegments {
		set = append(set, "MPITRACE_SEGMENT_DIR="+h.segments)
	}
	return set
}

// arguments are those of the program; @plugin.c stands for the library built
// from it and @mpi for the MPI library.
func (h *harness) arguments(m *mpi, r *row) ([]string, error) {
	var args []string
	for _, arg := range r.args {
		name, special := strings.CutPrefix(arg, "@")
		var err error
		switch {
		case special && name == "mpi":
			arg, err = m.library()
		case special:
			arg, err = h.library(m, name)
		}
		if err != nil {
			return nil, err
		}
		args = append(args, arg)
	}
	return args, nil
}

// preload gives LD_PRELOAD: the row's own libraries, in front and behind what
// the kind of run preloads.
func (h *harness) preload(m *mpi, r *row, k kind) (string, error) {
	var list []string
	add := func(source string) error {
		if source == "" {
			return nil
		}
		path, err := h.library(m, source)
		list = append(list, path)
		return err
	}
	if err := add(r.front); err != nil {
		return "", err
	}
	switch k {
	case observed:
		list = append(list, h.shim)
	case wrong:
		if err := add("wrong.c"); err != nil {
			return "", err
		}
	}
	if err := add(r.behind); err != nil {
		return "", err
	}
	return strings.Join(list, ":"), nil
}

var processID = regexp.MustCompile(`PID +\d+`)

// allStdout joins the files of the ranks and what mpirun printed itself, in
// which Hydra names the pid of a process that died.
func allStdout(dir, launcher string) (string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "stdout.*"))
	if err != nil {
		return "", err
	}
	sort.Strings(files)
	var all strings.Builder
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("reading the output of a rank: %w", err)
		}
		fmt.Fprintf(&all, "-- %s\n%s", filepath.Base(file), data)
	}
	fmt.Fprintf(&all, "-- mpirun\n%s", processID.ReplaceAllString(launcher, "PID"))
	return all.String(), nil
}

// noted adds to want what the rank wrote with note_calls.
func (o *outcome) noted(rank int, want counts) (counts, error) {
	data, err := os.ReadFile(filepath.Join(o.dir, "calls."+strconv.Itoa(rank)))
	if errors.Is(err, os.ErrNotExist) {
		return want, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the noted calls: %w", err)
	}
	sum := counts{}
	for name, calls := range want {
		sum[name] = calls
	}
	for _, line := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		var name string
		var calls int64
		if _, err := fmt.Sscan(line, &name, &calls); err != nil {
			return nil, fmt.Errorf("noted call %q: %w", line, err)
		}
		sum[strings.TrimPrefix(name, "MPI_")] += calls
	}
	return sum, nil
}

// lines gives those of stderr that start with prefix, sorted.
func (o *outcome) lines(prefix string) []string {
	var found []string
	for _, line := range strings.Split(o.stderr, "\n") {
		if strings.HasPrefix(line, prefix) {
			found = append(found, line)
		}
	}
	sort.Strings(found)
	return found
}
