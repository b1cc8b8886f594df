package launch

import (
	"errors"
	"fmt"
	"os"
	"sort"
	"strings"
)

// Request is a command to run under measurement.
type Request struct {
	Kind    Kind
	Args    []string // the launcher or program and its arguments
	Env     []string // the environment it would have had
	Preload string   // absolute path of libmpishim.so
	Set     []string // settings for the ranks, NAME=VALUE; stronger than those in Env
	Self    string   // absolute path of mpitrace on all nodes, empty to rule out a prolog of srun

	// ReadFile reads the files that a command line names; os.ReadFile if nil.
	ReadFile func(name string) ([]byte, error)
	// TempFile is the name for a rewritten copy of an application file.
	TempFile string
}

// Plan is how to run it.
type Plan struct {
	Args     []string
	Env      []string
	Programs []string          // program of each part of the job, as far as the command line tells
	Files    map[string][]byte // to be written before the start and removed after the end

	// sweep is the command that starts one process on each node of the job,
	// without the program; nil when the job has this node only, or when its
	// nodes cannot be told.
	sweep []string
	// again begins sweep once RecallNodes knows the nodes, nil if it never does.
	again []string
}

// ErrBatch refuses a command that only queues a job.
var ErrBatch = errors.New("sbatch only queues the job: put mpitrace run in front of srun or mpirun inside the batch script")

// sizes are the variables by which launchers tell a process how many of it they
// have started.
var sizes = []string{"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}

// checkOutside refuses to be one of the processes that a launcher has started:
// each would take its rank for a job of its own. A shell that a launcher has
// started alone may start jobs.
func checkOutside(env []string) error {
	for _, name := range sizes {
		if size, _ := lookup(env, name); size != "" && size != "1" {
			return fmt.Errorf("mpitrace run is one of %s processes that a launcher has started (%s): put it in front of the launcher, as in mpitrace run -- mpirun -n %s PROGRAM", size, name, size)
		}
	}
	return nil
}

// Make rewrites the command so that its ranks are given the shim and the
// settings.
func Make(r Request) (*Plan, error) {
	if len(r.Args) == 0 {
		return nil, errors.New("no command to run")
	}
	if err := checkPreload(r.Preload); err != nil {
		return nil, err
	}
	if r.ReadFile == nil {
		r.ReadFile = os.ReadFile
	}
	r.Set = settings(r.Env, r.Set)
	switch r.Kind {
	case OpenMPI:
		return makeOpenMPI(r)
	case Hydra:
		return makeHydra(r)
	case Slurm:
		return makeSlurm(r)
	case Batch:
		return nil, ErrBatch
	case Direct:
		if err := checkOutside(r.Env); err != nil {
			return nil, err
		}
		return makeDirect(r), nil
	}
	return nil, fmt.Errorf("unknown kind of launcher %q", r.Kind)
}

// makeDirect sets the environment of the command itself.
func makeDirect(r Request) *Plan {
	env := withSettings(r.Env, r.Set)
	return &Plan{
		Args:     r.Args,
		Env:      with(env, preloadVariable, r.preload(r.Env)),
		Programs: r.Args[:1],
	}
}

// Sweep is the command that runs args once on every node of the job, nil when
// there is no other node or it cannot be told how to reach them.
func (p *Plan) Sweep(args ...string) []string {
	if p.sweep == nil {
		return nil
	}
	return append(append([]string{}, p.sweep...), args...)
}

// preload is the LD_PRELOAD of a rank that would have had env.
func (r Request) preload(env []string) string {
	user, _ := lookup(env, preloadVariable)
	return JoinPreload(r.Preload, user)
}

// settings merges the MPITRACE_ variables of env with set and sorts them by name.
func settings(env, set []string) []string {
	values := map[string]string{}
	for _, entry := range env {
		if name, value, ok := strings.Cut(entry, "="); ok && strings.HasPrefix(name, "MPITRACE_") {
			values[name] = value
		}
	}
	for _, entry := range set {
		name, value, _ := strings.Cut(entry, "=")
		values[name] = value
	}
	out := make([]string, 0, len(values))
	for name, value := range values {
		out = append(out, name+"="+value)
	}
	sort.Strings(out)
	return out
}

// withSettings puts the settings into an environment.
func withSettings(env, set []string) []string {
	out := env
	for _, entry := range set {
		name, value, _ := strings.Cut(entry, "=")
		out = with(out, name, value)
	}
	return out
}

// names are the names of settings.
func names(set []string) []string {
	out := make([]string, len(set))
	for i, entry := range set {
		out[i], _, _ = strings.Cut(entry, "=")
	}
	return out
}
