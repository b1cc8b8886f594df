package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mpitrace/mpitrace/test/conformance/mpirun"
)

// program is one C program of programs/ and how many ranks it wants.
type program struct {
	name  string
	ranks int
}

var programs = []program{{"self", 1}, {"cold", 1}, {"threads", 1}, {"tworanks", 2}}

// choosePrograms reads a comma-separated list of their names.
func choosePrograms(list string) ([]program, error) {
	var chosen []program
	for _, name := range strings.Split(list, ",") {
		i := slices.IndexFunc(programs, func(p program) bool { return p.name == name })
		if i < 0 {
			return nil, fmt.Errorf("--programs: there is no %q, only self, cold, threads and tworanks", name)
		}
		chosen = append(chosen, programs[i])
	}
	return chosen, nil
}

// shimName is the shim's column.
const shimName = "mpitrace"

// variant is one column of the table: what is preloaded.
type variant struct {
	name    string
	preload []string
	env     []string
}

// figures are all results on one MPI.
type figures struct {
	mpi      mpirun.MPI
	variants []variant            // the first one is native
	failed   map[string]string    // variant → why it has no figures
	ns       map[figure][]float64 // one per repetition
	loops    []string             // in the order of the programs' output
}

type figure struct{ variant, loop string }

// measure runs every program in every variant, repetition by repetition.
func measure(opt options, mpi mpirun.MPI, scratch string) (*figures, error) {
	if err := mpi.Missing(); err != nil {
		return nil, err
	}
	if err := buildPrograms(mpi, scratch); err != nil {
		return nil, err
	}
	f := &figures{mpi: mpi, variants: variants(opt, mpi), failed: map[string]string{}, ns: map[figure][]float64{}}
	for rep := range opt.repetitions {
		for i := range f.variants {
			v := f.variants[(i+rep)%len(f.variants)]
			if f.failed[v.name] != "" {
				continue
			}
			if err := f.repeat(v, opt.programs, scratch); err != nil {
				if v.name == f.variants[0].name || v.name == shimName {
					return nil, err
				}
				f.failed[v.name] = err.Error()
			}
		}
		progress("%s: repetition %d of %d", mpi.Name, rep+1, opt.repetitions)
	}
	progress("")
	return f, nil
}

// repeat runs every program once in one variant.
func (f *figures) repeat(v variant, programs []program, scratch string) error {
	output := filepath.Join(scratch, "output")
	defer os.RemoveAll(output)
	for _, p := range programs {
		if err := os.RemoveAll(output); err != nil {
			return fmt.Errorf("empty %s: %w", output, err)
		}
		env := []string{"OVERHEAD_CORES=" + cores()}
		for _, kv := range v.env {
			env = append(env, strings.ReplaceAll(kv, "OUTPUT", output))
		}
		out, err := mpirun.Run(mpirun.Job{
			MPI: f.mpi, Ranks: p.ranks, Preload: v.preload, Env: env, Timeout: 2 * time.Minute,
			Argv: []string{filepath.Join(scratch, p.name+"."+f.mpi.Name)}, Dir: scratch,
			Dedicated: p.ranks <= runtime.NumCPU(),
		})
		if err != nil {
			return err
		}
		if out.Status != 0 || out.TimedOut {
			return fmt.Errorf("%s with %s ended with status %d: %s", p.name, v.name, out.Status, bytes.TrimSpace(out.Stderr))
		}
		if err := f.add(v.name, out.Stdout); err != nil {
			return fmt.Errorf("%s with %s: %w", p.name, v.name, err)
		}
	}
	return nil
}

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
		key := figure{name, fields[1]}
		if name == f.variants[0].name && len(f.ns[key]) == 0 {
			f.loops = append(f.loops, fields[1])
		}
		f.ns[key] = append(f.ns[key], ns)
		found++
	}
	if found == 0 {
		return fmt.Errorf("no result line in the output %q", stdout)
	}
	return nil
}

// cores names the processors of ranks or threads 0 and 1: the last one
// first, because interrupts prefer processor 0.
func cores() string {
	n := runtime.NumCPU()
	return fmt.Sprintf("%d,%d", n-1, max(n-2, 0))
}

// variants are the columns of the table; native is the first one.
func variants(opt options, mpi mpirun.MPI) []variant {
	list := []variant{{name: "native"}}
	if opt.shim != "" {
		list = append(list, variant{name: shimName, preload: []string{opt.shim}, env: []string{"MPITRACE_OUTPUT=OUTPUT"}})
	}
	if v, ok := eztrace(mpi); opt.eztrace && ok {
		list = append(list, v)
	}
	return append(list, opt.tools...)
}

// eztrace finds the libraries of Debian's package; its plug-in is one per MPI.
func eztrace(mpi mpirun.MPI) (variant, bool) {
	found, err := filepath.Glob("/usr/lib/*/libeztrace-" + mpi.Name + ".so")
	if err != nil || len(found) == 0 {
		return variant{}, false
	}
	dir := filepath.Dir(found[0])
	return variant{
		name:    "eztrace",
		preload: []string{filepath.Join(dir, "libeztrace-lib.so"), found[0]},
		env: []string{
			"EZTRACE_TRACE=" + mpi.Name, "EZTRACE_TRACE_DIR=OUTPUT", "EZTRACE_LIBRARY_PATH=" + dir,
		},
	}, true
}

func buildPrograms(mpi mpirun.MPI, scratch string) error {
	for _, p := range programs {
		source := filepath.Join("bench/overhead/programs", p.name+".c")
		if _, err := os.Stat(source); err != nil {
			return fmt.Errorf("run this from the top of the source tree: %w", err)
		}
		cmd := exec.Command(mpi.CC, "-O2", "-std=gnu11", "-Wall", "-Wno-stringop-overflow", "-pthread",
			"-o", filepath.Join(scratch, p.name+"."+mpi.Name), source)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", cmd, err, out)
		}
	}
	return nil
}

// progress overwrites one line on a terminal and is silent elsewhere.
func progress(format string, args ...any) {
	if _, err := unix.IoctlGetTermios(int(os.Stderr.Fd()), unix.TCGETS); err == nil {
		fmt.Fprintf(os.Stderr, "\r\033[K"+format, args...)
	}
}
