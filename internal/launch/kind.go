package launch

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Kind is a family of launchers that take their environment in the same way.
type Kind string

// The kinds of launchers. Direct is everything else: a single process, or a
// script that calls launchers itself.
const (
	OpenMPI Kind = "openmpi"
	Hydra   Kind = "hydra"
	Slurm   Kind = "slurm"
	Batch   Kind = "sbatch"
	Direct  Kind = "direct"
)

// byName are the program names that leave no doubt.
var byName = map[string]Kind{
	"orterun":         OpenMPI,
	"prterun":         OpenMPI,
	"mpirun.openmpi":  OpenMPI,
	"mpiexec.openmpi": OpenMPI,
	"mpiexec.hydra":   Hydra,
	"mpirun.hydra":    Hydra,
	"mpiexec.mpich":   Hydra,
	"mpirun.mpich":    Hydra,
	"srun":            Slurm,
	"sbatch":          Batch,
}

// versionTimeout bounds the time a launcher may take to say its version.
const versionTimeout = 10 * time.Second

// outputDelay is how long whoever a command has started may hold its output.
const outputDelay = 2 * time.Second

// Recognise tells the kind of launcher at path: by its name, by the name of
// the file that its symbolic links lead to, and for an mpirun or mpiexec that
// this does not settle by what version(path) prints.
func Recognise(path string, version func(path string) string) Kind {
	names := []string{filepath.Base(path)}
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		names = append(names, filepath.Base(resolved))
	}
	for _, name := range names {
		if kind, ok := byName[name]; ok {
			return kind
		}
	}
	for _, name := range names {
		if name == "mpirun" || name == "mpiexec" || strings.HasPrefix(name, "mpirun_") {
			return byVersion(version(path))
		}
	}
	return Direct
}

// byVersion tells the kind from the output of --version.
func byVersion(text string) Kind {
	lower := strings.ToLower(text)
	for _, mark := range []string{"open mpi", "openrte", "open-mpi", "prrte", "prterun"} {
		if strings.Contains(lower, mark) {
			return OpenMPI
		}
	}
	for _, mark := range []string{"hydra", "intel(r) mpi", "mpich", "mvapich"} {
		if strings.Contains(lower, mark) {
			return Hydra
		}
	}
	return Direct
}

// Version runs path --version and returns what it prints, empty if it does
// not answer.
func Version(path string) string {
	ctx, cancel := context.WithTimeout(context.Background(), versionTimeout)
	defer cancel()
	out, _ := Output(ctx, path, "--version")
	return string(out)
}

// Output runs a command, at most until ctx ends, and returns what it prints. What it
// has started may hold its output longer (the ssh of a launcher whose node hangs), and
// is not waited for.
func Output(ctx context.Context, path string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.WaitDelay = outputDelay
	return cmd.CombinedOutput()
}
