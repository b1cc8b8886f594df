// Command overhead measures what a preloaded tool adds to each MPI call, on
// every MPI that is installed, and what the shim takes at the start and end of
// processes (docs/overhead.md):
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

	"github.com/mpitrace/mpitrace/test/mpijob"
)

// minRepetitions is the least number from which figures may be published.
const minRepetitions = 9

type options struct {
	mpis        []mpijob.MPI
	tools       toolList
	shim        string
	programs    []string // of choices
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
	only := flag.String("programs", strings.Join(choices, ","), "what to measure, comma separated")
	flag.StringVar(&opt.shim, "shim", "build/libmpishim.so", "the shim; empty: leave it out, with stack, init and preload")
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
	if opt.mpis, err = mpijob.Parse(*mpis); err != nil {
		return opt, err
	}
	if opt.programs, err = choose(*only); err != nil {
		return opt, err
	}
	if opt.shim != "" {
		if opt.shim, err = library(opt.shim); err != nil {
			return opt, fmt.Errorf("%w; run 'make build' first", err)
		}
	}
	return opt, nil
}

// result is one table.
type result interface {
	table() (text string, within bool) // and whether the shim keeps its limits
	raw() string                       // every single figure
}

// run measures on each MPI and without one, prints the tables and saves them
// if asked. It says whether the shim stayed within all limits.
func run(opt options) (within bool, err error) {
	if _, err := os.Stat(source(self.name)); err != nil {
		return false, fmt.Errorf("run this from the top of the source tree: %w", err)
	}
	scratch, err := os.MkdirTemp("", "mpitrace-overhead-")
	if err != nil {
		return false, fmt.Errorf("scratch folder: %w", err)
	}
	defer os.RemoveAll(scratch)

	within = true
	var text, raw strings.Builder
	say := func(part string) {
		fmt.Print(part)
		text.WriteString(part)
	}
	say(describe(opt))
	for _, m := range measurements(opt) {
		r, err := m(scratch)
		if err != nil {
			return false, err
		}
		table, ok := r.table()
		within = within && ok
		say(table)
		raw.WriteString(r.raw())
	}
	say(loadLine("at the end"))
	if opt.save {
		return within, save(opt, text.String(), raw.String())
	}
	return within, nil
}

// measurement makes one table.
type measurement func(scratch string) (result, error)

// measurements are those that were chosen, in the order of their tables.
func measurements(opt options) []measurement {
	var list []measurement
	for _, mpi := range opt.mpis {
		on := func(measure func(options, mpijob.MPI, string) (result, error)) {
			list = append(list, func(scratch string) (result, error) {
				if err := mpi.Missing(); err != nil {
					return nil, err
				}
				r, err := measure(opt, mpi, scratch)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", mpi.Name, err)
				}
				return r, nil
			})
		}
		if len(opt.callsChosen()) > 0 {
			on(measureCalls)
		}
		if opt.shim != "" && opt.chosen(stackChoice) {
			on(measureStack)
		}
		if opt.shim != "" && opt.chosen(initChoice) {
			on(measureStartEnd)
		}
	}
	if opt.shim != "" && opt.chosen(preloadChoice) {
		list = append(list, func(scratch string) (result, error) { return measurePreload(opt, scratch) })
	}
	return list
}
