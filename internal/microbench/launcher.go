package microbench

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/mpitrace/mpitrace/internal/launch"
)

// launcher is how the jobs are started.
type launcher struct {
	words []string // the first one is the program
	path  string   // of the program
	kind  launch.Kind
	given bool // by the user, whose options are left alone
}

// launcherNames are looked for on PATH, in this order.
var launcherNames = []string{"mpirun", "mpiexec", "mpirun.openmpi", "mpirun.mpich", "srun"}

// countOptions are the launchers' options for the number of ranks.
var countOptions = []string{"-n", "-np", "--n", "--np", "--ntasks"}

// findLauncher reads the words of --mpirun, or finds a launcher on PATH.
func findLauncher(text string) (launcher, error) {
	words, err := splitWords(text)
	if err != nil {
		return launcher{}, fmt.Errorf("--mpirun %s: %w", text, err)
	}
	l := launcher{words: words, given: len(words) > 0}
	if !l.given {
		if l.words = defaultWords(); l.words == nil {
			return l, fmt.Errorf("no MPI launcher on PATH (%s): say which with --mpirun", strings.Join(launcherNames, ", "))
		}
	}
	if l.path, err = exec.LookPath(l.words[0]); err != nil {
		return l, fmt.Errorf("--mpirun %s: %w", l.words[0], errors.Unwrap(err))
	}
	for _, word := range l.words[1:] {
		if slices.Contains(countOptions, word) {
			return l, fmt.Errorf("--mpirun %s: without %s, please: --ranks N says how many", text, word)
		}
	}
	l.kind = launch.Recognise(l.path, launch.Version)
	switch l.kind {
	case launch.Direct:
		return l, fmt.Errorf("--mpirun %s: not a launcher that mpitrace knows (mpirun, mpiexec, srun)", l.words[0])
	case launch.Batch:
		return l, launch.ErrBatch
	}
	return l, nil
}

func defaultWords() []string {
	for _, name := range launcherNames {
		if _, err := exec.LookPath(name); err == nil {
			return []string{name}
		}
	}
	return nil
}

// splitWords splits like a shell does, with single and double quotes and the
// backslash, and nothing else of a shell.
func splitWords(text string) ([]string, error) {
	var words []string
	var word strings.Builder
	quote, in, escaped := rune(0), false, false
	for _, r := range text {
		switch {
		case escaped:
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			escaped, in = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote, in = r, true
		case quote == 0 && (r == ' ' || r == '\t' || r == '\n'):
			if in {
				words = append(words, word.String())
			}
			word.Reset()
			in = false
		default:
			word.WriteRune(r)
			in = true
		}
	}
	if quote != 0 || escaped {
		return nil, errors.New("a quote is not closed")
	}
	if in {
		words = append(words, word.String())
	}
	return words, nil
}

// families are the suffixes of Debian's alternatives by kind of launcher.
var families = map[launch.Kind]string{launch.OpenMPI: "openmpi", launch.Hydra: "mpich"}

// compiler is the MPI compiler wrapper: given, or that of the launcher's
// family: beside the launcher with the same suffix, then with the family's,
// then mpicc beside the launcher, then on PATH.
func (l launcher) compiler(given string) (string, error) {
	if given != "" {
		path, err := exec.LookPath(given)
		if err != nil {
			return "", fmt.Errorf("--cc %s: %w", given, errors.Unwrap(err))
		}
		return path, nil
	}
	dir := filepath.Dir(l.path)
	candidates := []string{}
	if ext := filepath.Ext(l.path); ext == ".openmpi" || ext == ".mpich" {
		candidates = append(candidates, filepath.Join(dir, "mpicc"+ext))
	}
	if family := families[l.kind]; family != "" {
		candidates = append(candidates, filepath.Join(dir, "mpicc."+family))
	}
	candidates = append(candidates, filepath.Join(dir, "mpicc"), "mpicc")
	for _, name := range candidates {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("no MPI compiler found (%s): say which with --cc", strings.Join(candidates, ", "))
}

// command starts so many ranks of a program.
func (l launcher) command(ranks int, program string, args []string) []string {
	words := slices.Clone(l.words)
	if !l.given && l.kind == launch.OpenMPI && ranks > cores() {
		words = append(words, "--oversubscribe")
	}
	words = append(words, "-n", strconv.Itoa(ranks), program)
	return append(words, args...)
}

// environ is that of the launcher. Open MPI refuses to run as root unless it
// is told twice.
func (l launcher) environ() []string {
	env := os.Environ()
	if l.kind == launch.OpenMPI && os.Geteuid() == 0 {
		env = append(env, "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
	}
	return env
}

// crowded warns of more ranks than cores.
func (l launcher) crowded(ranks int) string {
	if ranks <= cores() || l.kind == launch.Slurm {
		return ""
	}
	text := fmt.Sprintf("%d ranks on %s: waiting ranks take the processor from working ones, so the figures say little", ranks, count(cores(), "core"))
	if l.kind == launch.Hydra {
		text += "; MPICH (ch4:ucx) never yields, expect it to be very slow"
	}
	return text
}
