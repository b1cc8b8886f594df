// Command overhead measures what a preloaded tool adds to each MPI call, on
// every MPI that is installed:
//
//	go run ./bench/overhead
//	go run ./bench/overhead --tool other=/path/libother.so --save
//
// Each repetition runs the programs natively and with each tool, one after
// the other in changing order, bound to fixed processors. A figure is the
// median of the differences between a tool's run and the native run of the
// same repetition. EZTrace, where Debian's package is installed, stands
// beside the shim; other tools are given by path.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/mpitrace/mpitrace/test/conformance/mpirun"
)

// minRepetitions is the least number from which figures may be published.
const minRepetitions = 9

type options struct {
	mpis        []mpirun.MPI
	tools       toolList
	shim        string
	programs    []program
	repetitions int
	save, gate  bool
	eztrace     bool
	machine     string
	note        string
}

// toolList collects --tool NAME=PATH.
type toolList []variant

func (l *toolList) String() string { return "" }

func (l *toolList) Set(text string) error {
	name, path, ok := strings.Cut(text, "=")
	if !ok || name == "" {
		return fmt.Errorf("%q is not NAME=PATH", text)
	}
	library, err := library(path)
	if err != nil {
		return err
	}
	*l = append(*l, variant{name: name, preload: []string{library}})
	return nil
}

// library returns the full path of a library that is to be preloaded.
func library(path string) (string, error) {
	full, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	if _, err := os.Stat(full); err != nil {
		return "", fmt.Errorf("library to preload: %w", err)
	}
	return full, nil
}

func main() {
	opt, err := parseFlags()
	if err != nil {
		fmt.Fprintln(os.Stderr, "overhead:", err)
		os.Exit(2)
	}
	within, err := run(opt)
	if err != nil {
		fmt.Fprintln(os.Stderr, "overhead:", err)
		os.Exit(2)
	}
	if opt.gate && !within {
		os.Exit(1)
	}
}

func parseFlags() (options, error) {
	var opt options
	mpis := flag.String("mpi", "openmpi,mpich", "libraries to measure on, comma separated")
	only := flag.String("programs", "self,cold,threads,tworanks", "programs to run, comma separated")
	flag.StringVar(&opt.shim, "shim", "build/libmpishim.so", "the shim; empty: leave it out")
	flag.Var(&opt.tools, "tool", "`NAME=PATH` of another tool to preload; may be given several times")
	flag.IntVar(&opt.repetitions, "reps", 11, "repetitions, at least 9")
	flag.BoolVar(&opt.eztrace, "eztrace", true, "measure EZTrace too where it is installed")
	flag.BoolVar(&opt.save, "save", false, "write table and raw figures into bench/results/DATE-MACHINE/")
	flag.BoolVar(&opt.gate, "gate", false, "end with status 1 if the shim is beyond a limit")
	flag.StringVar(&opt.machine, "machine", "", "name of this machine for --save (default: its processor)")
	flag.StringVar(&opt.note, "note", "", "remark to print above the tables")
	flag.Parse()
	if flag.NArg() > 0 {
		return opt, fmt.Errorf("unexpected argument %q; see --help", flag.Arg(0))
	}
	if opt.repetitions < minRepetitions {
		return opt, fmt.Errorf("--reps %d: at least %d are needed for a median to publish", opt.repetitions, minRepetitions)
	}
	var err error
	if opt.mpis, err = mpirun.Parse(*mpis); err != nil {
		return opt, err
	}
	if opt.programs, err = choosePrograms(*only); err != nil {
		return opt, err
	}
	if opt.shim != "" {
		if opt.shim, err = library(opt.shim); err != nil {
			return opt, fmt.Errorf("%w; run 'make build' first", err)
		}
	}
	return opt, nil
}

// run measures on each MPI, prints the tables and saves them if asked. It
// says whether the shim stayed within all limits.
func run(opt options) (within bool, err error) {
	scratch, err := os.MkdirTemp("", "mpitrace-overhead-")
	if err != nil {
		return false, fmt.Errorf("scratch folder: %w", err)
	}
	defer os.RemoveAll(scratch)

	within = true
	var text, raw strings.Builder
	text.WriteString(describe(opt))
	fmt.Print(text.String())
	for _, mpi := range opt.mpis {
		figures, err := measure(opt, mpi, scratch)
		if err != nil {
			return false, fmt.Errorf("%s: %w", mpi.Name, err)
		}
		table, ok := figures.table()
		within = within && ok
		fmt.Print(table)
		text.WriteString(table)
		raw.WriteString(figures.raw())
	}
	closing := loadLine("at the end")
	fmt.Print(closing)
	text.WriteString(closing)
	if opt.save {
		return within, save(opt, text.String(), raw.String())
	}
	return within, nil
}
