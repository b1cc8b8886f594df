// Command realapps runs Debian's MPI programs natively and with the shim
// preloaded:
//
//	go run ./test/realapps
//	go run ./test/realapps --run 'lammps|mumps'
//	go run ./test/realapps --act
//	go run ./test/realapps --findings
//
// The printed numbers must be the same after timings are masked, the exit
// status must be the same, and the figures of the report must agree with
// each other: what one rank has sent to another is what that one has
// received. Each program is run once more under test/programs/wrong.c, which
// spoils data: a comparison that does not notice that is itself a failure.
//
// With --act the second run is in act mode, in which messages must have been
// carried by mpitrace; the comparison is the same, so no data is spoiled.
//
// With --findings it runs some of them and the examples under mpitrace run
// --trace, prints what mpitrace finds, which docs/findings.md confirms by their
// sources, and fails if figures contradict each other or the source.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/mpitrace/mpitrace/test/mpijob"
)

const (
	home = "test/realapps"

	// stepLimit bounds one start of a program; the slowest takes 15 s on two
	// processors.
	stepLimit = 3 * time.Minute
)

type options struct {
	only           *regexp.Regexp
	control        bool
	findings       bool
	act            bool
	policy         string
	shim, mpitrace string
	mpis           []mpijob.MPI
}

func main() {
	passed, failed, err := run()
	if err != nil {
		fmt.Fprintln(os.Stderr, "realapps:", err)
		os.Exit(2)
	}
	fmt.Printf("realapps: %d passed, %d failed\n", passed, failed)
	if failed > 0 {
		os.Exit(1)
	}
}

func parseFlags() (options, error) {
	var opt options
	only := flag.String("run", "", "only programs whose name matches this regular expression")
	mpis := flag.String("mpi", "openmpi,mpich", "libraries to test, comma separated")
	flag.BoolVar(&opt.control, "control", true, "also run each program with spoiled data, which must be noticed")
	flag.BoolVar(&opt.act, "act", false, "in act mode (mpitrace run --act)")
	flag.StringVar(&opt.policy, "policy", "auto", "of act mode, as for mpitrace run --act")
	flag.BoolVar(&opt.findings, "findings", false, "print the findings on the programs of docs/findings.md")
	flag.StringVar(&opt.shim, "shim", "build/libmpishim.so", "library to preload")
	flag.StringVar(&opt.mpitrace, "mpitrace", "build/mpitrace", "command that reads results")
	flag.Parse()
	if flag.NArg() > 0 {
		return opt, fmt.Errorf("unexpected argument %q; see --help", flag.Arg(0))
	}
	var err error
	if opt.only, err = regexp.Compile(*only); err != nil {
		return opt, fmt.Errorf("--run: %w", err)
	}
	if opt.mpis, err = mpijob.Parse(*mpis); err != nil {
		return opt, err
	}
	if _, err := os.Stat(home); err != nil {
		return opt, fmt.Errorf("run this from the top of the source tree: %w", err)
	}
	for _, path := range []*string{&opt.shim, &opt.mpitrace} {
		if *path, err = filepath.Abs(*path); err != nil {
			return opt, err
		}
		if _, err := os.Stat(*path); err != nil {
			return opt, fmt.Errorf("%s is missing: run 'make build' first", *path)
		}
	}
	return opt, nil
}

func run() (passed, failed int, err error) {
	opt, err := parseFlags()
	if err != nil {
		return 0, 0, err
	}
	full, err := filepath.Abs(home)
	if err != nil {
		return 0, 0, err
	}
	if opt.findings {
		return runFindings(opt, full)
	}
	chosen := slices.DeleteFunc(apps(full), func(a app) bool { return !opt.chooses(a) })
	if len(chosen) == 0 {
		return 0, 0, fmt.Errorf("no program is chosen")
	}
	if err := install(chosen); err != nil {
		return 0, 0, err
	}
	b, err := newBench(opt)
	if err != nil {
		return 0, 0, err
	}
	defer b.close()
	for _, a := range chosen {
		summary, err := b.judge(a, opt.control && !opt.act)
		if err != nil {
			failed++
			fmt.Printf("FAIL %s: %v\n", a, err)
			continue
		}
		passed++
		fmt.Printf("ok   %s: %s\n", a, summary)
	}
	return passed, failed, nil
}

// chooses tells whether a program is to be run.
func (o *options) chooses(a app) bool {
	return o.only.MatchString(a.name) && slices.ContainsFunc(o.mpis, func(m mpijob.MPI) bool { return m.Name == a.mpi })
}

// install brings the packages that are missing, or says how.
func install(chosen []app) error {
	var missing []string
	for _, a := range chosen {
		for _, pkg := range a.packages {
			out, err := exec.Command("dpkg-query", "-W", "-f", "${Status}", pkg).Output()
			if (err != nil || !strings.HasSuffix(string(out), " installed")) && !slices.Contains(missing, pkg) {
				missing = append(missing, pkg)
			}
		}
	}
	if len(missing) == 0 {
		return nil
	}
	line := append([]string{"apt-get", "install", "-y", "--no-install-recommends"}, missing...)
	if os.Geteuid() != 0 {
		return fmt.Errorf("packages are missing; install them by: %s", strings.Join(line, " "))
	}
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(line, " "), err, out)
	}
	return nil
}

func newBench(opt options) (*bench, error) {
	scratch, err := os.MkdirTemp("", "mpitrace-realapps-")
	if err != nil {
		return nil, fmt.Errorf("scratch folder: %w", err)
	}
	segments, err := os.MkdirTemp("/dev/shm", "mpitrace-realapps-")
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(scratch))
	}
	b := &bench{
		mpitrace: opt.mpitrace, scratch: scratch, segments: segments,
		mpi: map[string]mpijob.MPI{}, helpers: map[string][]string{}, wrong: map[string]string{},
	}
	b.traced = way{name: "shim", preload: []string{opt.shim}}
	if opt.act {
		b.traced = way{name: "act", before: []string{opt.mpitrace, "run", "--act=" + opt.policy, "--shim", opt.shim}}
	}
	for _, mpi := range opt.mpis {
		if err := b.addMPI(mpi); err != nil {
			return nil, errors.Join(err, b.close())
		}
	}
	return b, nil
}

func (b *bench) close() error {
	return errors.Join(os.RemoveAll(b.scratch), os.RemoveAll(b.segments))
}

func (b *bench) addMPI(mpi mpijob.MPI) error {
	if err := mpi.Missing(); err != nil {
		return err
	}
	helpers, err := mpi.Helpers(b.scratch)
	if err != nil {
		return err
	}
	wrong := filepath.Join(b.scratch, "libwrong-"+mpi.Name+".so")
	if err := mpijob.Compile(mpi.CC, wrong, "-O2", "-fPIC", "-shared", "-Wall", "test/programs/wrong.c"); err != nil {
		return err
	}
	b.mpi[mpi.Name], b.helpers[mpi.Name], b.wrong[mpi.Name] = mpi, helpers, wrong
	return nil
}

// judge runs one program natively, with the shim or in act mode, and with spoiled data.
func (b *bench) judge(a app, control bool) (summary string, err error) {
	golden, err := b.run(a, way{name: "native"}, stepLimit)
	if err != nil {
		return "", err
	}
	if golden.problem != nil || len(golden.lines) == 0 && a.check == nil {
		return "", fmt.Errorf("fails without the shim: %d lines to compare, status %v, %v", len(golden.lines), golden.status, golden.problem)
	}
	traced, err := b.run(a, b.traced, stepLimit)
	if err != nil {
		return "", err
	}
	total, problems := b.examine(a, golden, traced)
	if control {
		problems = append(problems, b.control(a, golden))
	}
	if err := errors.Join(problems...); err != nil {
		return "", err
	}
	carried := ""
	if b.traced.before != nil {
		carried = fmt.Sprintf(", %d carried", total.carried)
	}
	return fmt.Sprintf("%d lines the same, status %v, %d messages, %d bytes%s; %.1f s, native %.1f s",
		len(golden.lines), golden.status, total.messages, total.bytes, carried, traced.elapsed.Seconds(), golden.elapsed.Seconds()), nil
}

// examine compares the run with the shim with the native one and checks the
// results of all its steps.
func (b *bench) examine(a app, golden, traced trace) (traffic, []error) {
	problems := []error{traced.sameAs(golden, a.tolerance)}
	var total traffic
	for _, result := range traced.results {
		report, err := readReport(b.mpitrace, result)
		if err == nil {
			var t traffic
			t, err = crossCheck(report, a.ranks, a.calls)
			total.add(t.messages, t.bytes)
		}
		if err == nil && b.traced.before != nil {
			if err = actCheck(report, a.ranks); err == nil {
				total.carried += report.Act.Messages
			}
		}
		problems = append(problems, err)
	}
	if b.traced.before != nil && total.carried == 0 {
		problems = append(problems, fmt.Errorf("no message was carried by mpitrace"))
	}
	for _, note := range traced.notes {
		if !allowedNotes.MatchString(note) {
			problems = append(problems, fmt.Errorf("the shim complained: %s", note))
		}
	}
	return total, problems
}

// allowedNotes are the lines of the shim that a healthy run may bring.
var allowedNotes = regexp.MustCompile(`^mpitrace: result in `)

// control demands that the comparison notices spoiled data: other numbers,
// another status, or a program that hangs.
func (b *bench) control(a app, golden trace) error {
	limit := 5*golden.elapsed + 15*time.Second
	spoiled, err := b.run(a, way{name: "wrong", preload: []string{b.wrong[a.mpi]}}, limit)
	if err != nil {
		return err
	}
	if spoiled.sameAs(golden, a.tolerance) == nil {
		return fmt.Errorf("negative control: spoiled data was not noticed")
	}
	return nil
}
