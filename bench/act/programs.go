package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mpitrace/mpitrace/internal/microbench"
	"github.com/mpitrace/mpitrace/internal/stats"
	"github.com/mpitrace/mpitrace/test/mpijob"
)

// program is a whole program on two ranks.
type program struct {
	name    string
	place   place
	mpi     string // library that it is linked with; empty: any
	tool    string // that must be installed
	pack    string // by this package
	prepare func(b *bench, m mpijob.MPI, dir string) error
	argv    []string
	own     *regexp.Regexp // of its output, where it says what its work took, s
	file    string         // where it says so; empty: on stdout
}

var wholePrograms = []program{
	{name: "stencil", place: here, prepare: stencil, argv: []string{"./heat", "-n", "2000", "-s", "400"}},
	{name: "stencil", place: between, prepare: stencil, argv: []string{"./heat", "-n", "2000", "-s", "400"}},
	{name: "stencil", place: pacedTwo, prepare: stencil, argv: []string{"./heat", "-n", "2000", "-s", "400"}},
	{
		name: "HPL", place: between, mpi: "openmpi", tool: "hpcc", pack: "hpcc", prepare: hpl, argv: []string{"hpcc"},
		own: regexp.MustCompile(`HPL_time=([\d.]+)`), file: "hpccoutf.txt",
	},
	{
		name: "HPL", place: pacedTwo, mpi: "openmpi", tool: "hpcc", pack: "hpcc", prepare: hpl, argv: []string{"hpcc"},
		own: regexp.MustCompile(`HPL_time=([\d.]+)`), file: "hpccoutf.txt",
	},
	{
		name: "LAMMPS", place: between, mpi: "openmpi", tool: "lmp", pack: "lammps lammps-examples", prepare: melt, argv: []string{"lmp", "-in", "in.melt"},
		own: regexp.MustCompile(`Loop time of ([\d.]+)`),
	},
	{
		name: "LAMMPS", place: pacedTwo, mpi: "openmpi", tool: "lmp", pack: "lammps lammps-examples", prepare: melt, argv: []string{"lmp", "-in", "in.melt"},
		own: regexp.MustCompile(`Loop time of ([\d.]+)`),
	},
}

func stencil(_ *bench, m mpijob.MPI, dir string) error {
	return mpijob.Compile(m.CC, filepath.Join(dir, "heat"), "-O2", "examples/heat.c", "-lm")
}

// hpl writes the input of Debian's example for two ranks in a row, with a matrix of
// twice the order: that of the example takes less than a tenth of a second.
func hpl(b *bench, _ mpijob.MPI, dir string) error {
	text, err := os.ReadFile("/usr/share/doc/hpcc/examples/_hpccinf.txt")
	if err != nil {
		return err
	}
	grid := strings.Replace(string(text), "2            Ps", "1            Ps", 1)
	order := "2000"
	if b.quick {
		order = "200 "
	}
	grid = strings.Replace(grid, "1000         Ns", order+"         Ns", 1)
	return os.WriteFile(filepath.Join(dir, "hpccinf.txt"), []byte(grid), 0o644)
}

// melt is the example of LAMMPS with eight times the atoms.
func melt(b *bench, _ mpijob.MPI, dir string) error {
	text, err := os.ReadFile("/usr/share/lammps/examples/melt/in.melt")
	if err != nil {
		return err
	}
	if !b.quick {
		text = bytes.Replace(text, []byte("0 10 0 10 0 10"), []byte("0 20 0 20 0 20"), 1)
	}
	return os.WriteFile(filepath.Join(dir, "in.melt"), text, 0o644)
}

// The ways to run, in turn.
var ways = []struct {
	name    string
	options []string // of mpitrace run; nil: without it
}{
	{"native", nil},
	{"observe", []string{"--mode", "observe"}},
	{"act", []string{"--act=auto"}},
}

// spent is what one run of a program took.
type spent struct {
	seconds float64 // its work, if it says so, else from the start to the end of its slowest rank
	cpu     float64 // seconds of processors, of all ranks
	wait    float64 // seconds in MPI_Wait and its kin, of all ranks
}

// programs runs whole programs in pairs.
func programs(b *bench) error {
	var failed error
	for _, p := range wholePrograms {
		for _, m := range b.mpis {
			if !slices.Contains(strings.Split(b.chosen, ","), p.name) || !strings.Contains(p.place.name, b.where) || p.mpi != "" && p.mpi != m.Name {
				continue
			}
			if err := b.program(p, m); err != nil {
				failed = errors.Join(failed, fmt.Errorf("%s, %s: %w", p.name, m.Name, err))
			}
		}
	}
	return failed
}

func (b *bench) program(p program, m mpijob.MPI) error {
	if p.tool != "" {
		if err := mpijob.Tools(p.pack, p.tool); err != nil {
			return err
		}
	}
	if err := b.enter(p.place); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(b.scratch, "program-")
	if err != nil {
		return err
	}
	if err := p.prepare(b, m, dir); err != nil {
		return err
	}
	reps := b.repetitions(5)
	runs := make([][]spent, len(ways))
	for rep := range reps {
		for i := range ways {
			way := (i + rep) % len(ways)
			s, err := b.once(p, m, dir, ways[way].options)
			if err != nil {
				return fmt.Errorf("%s: %w", ways[way].name, err)
			}
			runs[way] = append(runs[way], s)
		}
	}
	b.report(p, m, runs)
	return nil
}

// programLimit ends a run that hangs.
const programLimit = 5 * time.Minute

// rank runs a program, and leaves what it took beside the first argument: ns, and
// what the shell says of its own processor time and of that of its children.
const rank = `a=$(date +%s%N); "$@"; s=$?; b=$(date +%s%N); { echo $((b-a)); times; } >"$0.$$"; exit $s`

// once runs a program one way.
func (b *bench) once(p program, m mpijob.MPI, dir string, options []string) (spent, error) {
	result := filepath.Join(dir, "result")
	took := filepath.Join(dir, "took")
	stale, _ := filepath.Glob(took + ".*")
	for _, path := range append(stale, result, filepath.Join(dir, p.file)) {
		if path != dir {
			os.RemoveAll(path)
		}
	}
	argv := append(b.launcher(p.place, m), "-n", "2", "sh", "-c", rank, took)
	if options != nil {
		run := append([]string{b.mpitrace(), "run", "--output", result}, options...)
		argv = append(append(run, "--"), argv...)
	}
	if !p.place.between {
		argv = append([]string{"env", "-C", dir}, argv...)
	}
	out, err := b.start(p.place, dir, programLimit, append(argv, p.argv...))
	switch {
	case err != nil:
		return spent{}, err
	case out.TimedOut:
		return spent{}, fmt.Errorf("still running after %v", programLimit)
	case out.Status != 0:
		return spent{}, fmt.Errorf("status %d: %s", out.Status, bytes.TrimSpace(out.Stderr))
	}
	s, err := readTook(took)
	if err == nil && p.own != nil {
		s.seconds, err = p.ownTime(dir, out.Stdout)
	}
	if err != nil || options == nil {
		return s, err
	}
	if strings.HasPrefix(options[0], "--act=") {
		if err := microbench.CheckActed(result); err != nil {
			return s, err
		}
	}
	s.wait, err = b.waited(result)
	return s, err
}

// ownTime is what the program says.
func (p program) ownTime(dir string, stdout []byte) (float64, error) {
	text := stdout
	if p.file != "" {
		var err error
		if text, err = os.ReadFile(filepath.Join(dir, p.file)); err != nil {
			return 0, err
		}
	}
	found := p.own.FindSubmatch(text)
	if found == nil {
		return 0, fmt.Errorf("its output has no %s", p.own)
	}
	return strconv.ParseFloat(string(found[1]), 64)
}

// readTook reads what the ranks left.
func readTook(prefix string) (spent, error) {
	files, err := filepath.Glob(prefix + ".*")
	if err != nil || len(files) != 2 {
		return spent{}, fmt.Errorf("%d ranks of 2 came to their end, %w", len(files), err)
	}
	var s spent
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return s, err
		}
		one, err := parseTook(string(text))
		if err != nil {
			return s, err
		}
		s.seconds = max(s.seconds, one.seconds)
		s.cpu += one.cpu
	}
	return s, nil
}

var shellTime = regexp.MustCompile(`(\d+)m([\d.]+)s`)

// parseTook reads ns, and the two lines of times of a shell.
func parseTook(text string) (spent, error) {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines) != 3 {
		return spent{}, fmt.Errorf("%q: not what a rank leaves", text)
	}
	ns, err := strconv.ParseFloat(lines[0], 64)
	if err != nil {
		return spent{}, err
	}
	s := spent{seconds: ns / 1e9}
	for _, t := range shellTime.FindAllStringSubmatch(lines[2], -1) {
		minutes, _ := strconv.ParseFloat(t[1], 64) // digits
		seconds, err := strconv.ParseFloat(t[2], 64)
		if err != nil {
			return s, err
		}
		s.cpu += 60*minutes + seconds
	}
	return s, nil
}

// waited is the time in MPI_Wait, MPI_Waitall and so on of all ranks of a result.
func (b *bench) waited(result string) (float64, error) {
	var report struct {
		Functions []struct {
			Name   string
			TimeNS float64 `json:"time_ns"`
		}
	}
	text, err := exec.Command(b.mpitrace(), "report", "--json", result).Output()
	if err == nil {
		err = json.Unmarshal(text, &report)
	}
	if err != nil {
		return 0, fmt.Errorf("report of %s: %w", result, err)
	}
	ns := 0.0
	for _, f := range report.Functions {
		if strings.HasPrefix(f.Name, "MPI_Wait") {
			ns += f.TimeNS
		}
	}
	return ns / 1e9, nil
}

// report prints what the runs took, by way.
func (b *bench) report(p program, m mpijob.MPI, runs [][]spent) {
	of := func(way int, what func(spent) float64) []float64 {
		var out []float64
		for _, s := range runs[way] {
			out = append(out, what(s))
		}
		return out
	}
	seconds := func(s spent) float64 { return s.seconds }
	cpu := func(s spent) float64 { return s.cpu }
	wait := func(s spent) float64 { return s.wait }
	fmt.Printf("\n==== %s, %s, %s, %d pairs\n", p.name, p.place.name, m.Name, len(runs[0]))
	fmt.Printf("  %-8s %9s %9s %12s  %s\n", "", "time", "CPU", "MPI_Wait*", "slower than native (95 % bounds, one-sided)")
	for way, w := range ways {
		fmt.Printf("  %-8s %7.2f s %7.2f s", w.name, stats.Median(of(way, seconds)), stats.Median(of(way, cpu)))
		if w.options == nil {
			fmt.Println()
			continue
		}
		s := slowdownOf(of(0, seconds), of(way, seconds))
		fmt.Printf(" %10.2f s  %+.1f %% (%+.1f to %+.1f %%)\n", stats.Median(of(way, wait)), 100*s.mean, 100*s.lower, 100*s.upper)
	}
	s, most := slowdownOf(of(0, seconds), of(2, seconds)), 0.02
	g := goal{what: "slower than native, lower bound", where: p.name + ", " + p.place.name + ", " + m.Name, most: &most}
	if !math.IsInf(s.lower, -1) {
		g.got = &s.lower
	}
	b.reach(g)
	if before := stats.Median(of(1, wait)); p.place.rate != "" && before > 0 {
		change := stats.Median(of(2, wait))/before - 1
		b.reach(goal{what: "change of MPI_Wait* (published: HPL -0.30, SP -0.28)", where: p.name + ", " + p.place.name + ", " + m.Name, got: &change})
	}
}
