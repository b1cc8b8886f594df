// Command act measures act mode against the MPI libraries, each run of ours beside
// a native one of the same minute, and prints the goals with what was reached:
//
//	go run ./bench/act                       # all of it
//	go run ./bench/act -only overlap -mpi openmpi -reps 5
//
// Micro-benchmarks are those of mpitrace bench, started on this host, on two hosts
// of this machine (network namespaces, so it wants root), and on these with a link
// of 1 Gbit/s. Whole programs run in pairs. docs/bench.md says what is measured.
//
// make bench-act
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mpitrace/mpitrace/test/hosts"
	"github.com/mpitrace/mpitrace/test/mpijob"
)

// sections are the parts of the measurement, in their order.
var sections = []struct {
	name string
	run  func(*bench) error
}{
	{"latency", latency},
	{"limits", limits},
	{"overlap", overlap},
	{"progress", progress},
	{"snapshot", snapshot},
	{"receiver", receiver},
	{"reuse", reuse},
	{"programs", programs},
}

// bench is what the sections share.
type bench struct {
	build   string // where the libraries and mpitrace are
	out     string // for plots
	scratch string
	mpis    []mpijob.MPI
	reps    int // 0: as many as each section wants
	quick   bool
	chosen  string // whole programs, comma separated
	where   string // in the names of the places
	hosts   *hosts.Hosts
	goals   []goal
	job     atomic.Pointer[mpijob.Running] // the last one that was started
}

func main() {
	b := &bench{}
	var names []string
	for _, s := range sections {
		names = append(names, s.name)
	}
	only := flag.String("only", strings.Join(names, ","), "sections, comma separated")
	mpis := flag.String("mpi", "openmpi,mpich", "MPI libraries, comma separated")
	flag.StringVar(&b.chosen, "programs", "stencil,HPL,LAMMPS", "whole programs, comma separated")
	flag.StringVar(&b.where, "where", "", "only the places whose name contains this `text`")
	flag.IntVar(&b.reps, "reps", 0, "repetitions (default: 7 of latencies, 5 of limits, 3 of overlap, progress, snapshot, receiver (crossings 7), 21, 9 and 7 of reuse (against native, against copies, ping-pong), 5 of programs)")
	flag.BoolVar(&b.quick, "quick", false, "smoke run: one repetition of a few iterations")
	flag.StringVar(&b.build, "build", "build", "`directory` of mpitrace and its libraries")
	flag.StringVar(&b.out, "out", "build/bench-act", "`directory` for plots")
	flag.Parse()
	err := b.prepare(*mpis, flag.Args())
	if err == nil {
		err = b.run(strings.Split(*only, ","), names)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench/act:", err)
		os.Exit(1)
	}
}

func (b *bench) prepare(mpis string, rest []string) (err error) {
	if len(rest) > 0 {
		return fmt.Errorf("unexpected argument %q; see --help", rest[0])
	}
	if b.mpis, err = mpijob.Parse(mpis); err != nil {
		return err
	}
	for _, m := range b.mpis {
		if err := m.Missing(); err != nil {
			return err
		}
	}
	if !slices.ContainsFunc(places, func(p place) bool { return strings.Contains(p.name, b.where) }) {
		return fmt.Errorf("-where %q: no place has this in its name; see docs/bench.md", b.where)
	}
	for _, path := range []*string{&b.build, &b.out} {
		if *path, err = filepath.Abs(*path); err != nil {
			return err
		}
	}
	if _, err := os.Stat(b.mpitrace()); err != nil {
		return fmt.Errorf("%w; run make build first", err)
	}
	return os.MkdirAll(b.out, 0o755)
}

func (b *bench) mpitrace() string { return filepath.Join(b.build, "mpitrace") }

// run runs the chosen sections. One that fails does not stop the others.
func (b *bench) run(chosen, known []string) (err error) {
	for _, name := range chosen {
		if !slices.Contains(known, name) {
			return fmt.Errorf("there is no section %q: choose of %s", name, strings.Join(known, ", "))
		}
	}
	if b.scratch, err = os.MkdirTemp("", "bench-act-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.scratch)
	if b.hosts, err = hosts.Make(b.scratch, 2); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.hosts.Close()) }()
	b.endOnSignal()
	fmt.Printf("Act mode, %s, commit %s, %d processors, load %s\n", time.Now().UTC().Format("2006-01-02 15:04"), commit(), runtime.NumCPU(), load())
	var failed error
	for _, s := range sections {
		if slices.Contains(chosen, s.name) {
			start := time.Now()
			if err := s.run(b); err != nil {
				failed = errors.Join(failed, fmt.Errorf("%s: %w", s.name, err))
			}
			fmt.Printf("\n(%s took %.0f s; load %s)\n", s.name, time.Since(start).Seconds(), load())
		}
	}
	writeGoals(os.Stdout, b.goals)
	return failed
}

// endOnSignal ends jobs and hosts when this process is to end.
func (b *bench) endOnSignal() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	go func() {
		<-signals
		if job := b.job.Load(); job != nil {
			job.Kill()
		}
		_ = b.hosts.Close() // nobody is left to be told
		os.RemoveAll(b.scratch)
		os.Exit(1)
	}()
}

// repetitions of a section that wants n.
func (b *bench) repetitions(n int) int {
	switch {
	case b.reps > 0:
		return b.reps
	case b.quick:
		return 1
	}
	return n
}

// long adds what a smoke run goes without to the settings of a benchmark.
func (b *bench) long(settings []string, more ...string) []string {
	if b.quick {
		return settings
	}
	return append(settings, more...)
}

// load is what /proc/loadavg says, in its first three numbers.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(text))[:3], " ")
}

// commit is what was built, if this is a work tree of git.
func commit() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}
