package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mpitrace/mpitrace/test/mpijob"
)

// The variants that the tables know by name.
const (
	nativeName = "native"
	shimName   = "mpitrace"
	floorName  = "2 counter reads"
	stackName  = "mpitrace stack=4"
)

// jobLimit ends a job that hangs.
const jobLimit = 2 * time.Minute

// variant is one way to run a program: what is preloaded.
type variant struct {
	name    string
	preload []string
	env     []string
	only    string // the only program that runs with it; empty: all
}

// optional says whether the tables are printed without it if it fails.
func (v variant) optional() bool {
	return !slices.Contains([]string{nativeName, shimName, floorName, stackName}, v.name)
}

// figures are all results of some programs on one MPI.
type figures struct {
	mpi      mpijob.MPI
	programs []program
	variants []variant            // the first one is native
	further  []column             // columns beside those of the variants
	failed   map[string]string    // variant → why it has no figures
	ns       map[figure][]float64 // one per repetition
	loops    []string             // in the order of the programs' output
}

type figure struct{ variant, loop string }

func newFigures(mpi mpijob.MPI, programs []program, variants []variant) *figures {
	return &figures{mpi: mpi, programs: programs, variants: variants, failed: map[string]string{}, ns: map[figure][]float64{}}
}

// measureCalls fills the table of calls.
func measureCalls(opt options, mpi mpijob.MPI, scratch string) (result, error) {
	list := []variant{{name: nativeName}}
	if opt.shim != "" {
		list = append(list, shimVariant(opt, shimName))
	}
	if opt.chosen(floorChoice) {
		library := filepath.Join(scratch, "tworeads."+mpi.Name+".so")
		if err := buildLibrary(mpi.CC, library, "tworeads"); err != nil {
			return nil, err
		}
		list = append(list, variant{name: floorName, preload: []string{library}, only: self.name})
	}
	if v, ok := eztrace(mpi); opt.eztrace && ok {
		list = append(list, v)
	}
	f := newFigures(mpi, opt.callsChosen(), append(list, opt.tools...))
	return f, f.measure(opt.repetitions, scratch)
}

// measureStack measures what the call stacks add to the shim's default mode.
func measureStack(opt options, mpi mpijob.MPI, scratch string) (result, error) {
	f := newFigures(mpi, []program{stackProgram}, []variant{
		{name: nativeName}, shimVariant(opt, shimName), shimVariant(opt, stackName, "MPITRACE_STACK=4"),
	})
	f.further = []column{{"stack=4 - default", stackName, shimName}}
	return f, f.measure(opt.repetitions, scratch)
}

// measure builds every program and runs it in every variant, repetition by
// repetition.
func (f *figures) measure(repetitions int, scratch string) error {
	for _, p := range f.programs {
		if err := build(f.mpi.CC, p.executable(f.mpi, scratch), p.name); err != nil {
			return err
		}
	}
	for rep := range repetitions {
		for i := range f.variants {
			v := f.variants[(i+rep)%len(f.variants)]
			if f.failed[v.name] != "" {
				continue
			}
			if err := f.repeat(v, scratch); err != nil {
				if !v.optional() {
					return err
				}
				f.failed[v.name] = err.Error()
			}
		}
		progress("%s: repetition %d of %d", f.mpi.Name, rep+1, repetitions)
	}
	progress("")
	return nil
}

// repeat runs every program once in one variant.
func (f *figures) repeat(v variant, scratch string) error {
	for _, p := range f.programs {
		if v.only != "" && v.only != p.name {
			continue
		}
		stdout, err := runJob(f.mpi, v, p.ranks, p.executable(f.mpi, scratch), scratch)
		if err != nil {
			return err
		}
		if err := f.add(v.name, stdout); err != nil {
			return fmt.Errorf("%s with %s: %w", p.name, v.name, err)
		}
	}
	return nil
}

// runJob runs a program in one variant and returns what it printed. What the
// variant writes goes to outputDir.
func runJob(mpi mpijob.MPI, v variant, ranks int, program, scratch string) ([]byte, error) {
	output := outputDir(scratch)
	if err := os.RemoveAll(output); err != nil {
		return nil, fmt.Errorf("empty %s: %w", output, err)
	}
	env := []string{"OVERHEAD_CORES=" + cores()}
	for _, kv := range v.env {
		env = append(env, strings.ReplaceAll(kv, "OUTPUT_DIR", output))
	}
	out, err := mpijob.Run(mpijob.Job{
		MPI: mpi, Ranks: ranks, Argv: []string{program}, Dir: scratch,
		Preload: v.preload, Env: env, Timeout: jobLimit, Dedicated: dedicated(ranks),
	})
	if err != nil {
		return nil, err
	}
	if out.Status != 0 || out.TimedOut {
		return nil, fmt.Errorf("%s with %s ended with status %d: %s", filepath.Base(program), v.name, out.Status, bytes.TrimSpace(out.Stderr))
	}
	return out.Stdout, nil
}

// outputDir holds the result or trace of the last job; OUTPUT_DIR in the
// environment of a variant.
func outputDir(scratch string) string { return filepath.Join(scratch, "output") }

// add takes the "result NAME NS" lines of one run.
func (f *figures) add(name string, stdout []byte) error {
	found := 0
	for _, line := range strings.Split(string(stdout), "\n") {
		fields := strings.Fields(line)
		if len(fields) != 3 || fields[0] != "result" {
			continue
		}
		ns, err := strconv.ParseFloat(fields[2], 64)
		if err != nil {
			return fmt.Errorf("result %q: %w", line, err)
		}
		f.append(name, fields[1], ns)
		found++
	}
	if found == 0 {
		return fmt.Errorf("no result line in the output %q", stdout)
	}
	return nil
}

// append adds one repetition's figure of a loop.
func (f *figures) append(name, loop string, ns float64) {
	if !slices.Contains(f.loops, loop) {
		f.loops = append(f.loops, loop)
	}
	f.ns[figure{name, loop}] = append(f.ns[figure{name, loop}], ns)
}

// cores names the processors of ranks or threads 0 and 1: the last one
// first, because interrupts prefer processor 0.
func cores() string {
	n := runtime.NumCPU()
	return fmt.Sprintf("%d,%d", n-1, max(n-2, 0))
}

// shimVariant is the shim with its default settings and those given.
func shimVariant(opt options, name string, settings ...string) variant {
	return variant{name: name, preload: []string{opt.shim}, env: append([]string{"MPITRACE_OUTPUT=OUTPUT_DIR"}, settings...)}
}

// eztrace finds the libraries of Debian's package; its plug-in is one per MPI.
func eztrace(mpi mpijob.MPI) (variant, bool) {
	found, err := filepath.Glob("/usr/lib/*/libeztrace-" + mpi.Name + ".so")
	if err != nil || len(found) == 0 {
		return variant{}, false
	}
	dir := filepath.Dir(found[0])
	return variant{
		name:    "eztrace",
		preload: []string{filepath.Join(dir, "libeztrace-lib.so"), found[0]},
		env: []string{
			"EZTRACE_TRACE=" + mpi.Name, "EZTRACE_TRACE_DIR=OUTPUT_DIR", "EZTRACE_LIBRARY_PATH=" + dir,
		},
	}, true
}

// progress overwrites one line on a terminal and is silent elsewhere.
func progress(format string, args ...any) {
	if _, err := unix.IoctlGetTermios(int(os.Stderr.Fd()), unix.TCGETS); err == nil {
		fmt.Fprintf(os.Stderr, "\r\033[K"+format, args...)
	}
}
