// Command conformance runs the test suite of MPICH with the shim preloaded, or in
// act mode, on every MPI that is installed:
//
//	go run ./test/conformance                  everything on the native pass lists
//	go run ./test/conformance --subset         the part named in subset.txt
//	go run ./test/conformance --act            the same in act mode
//	go run ./test/conformance --act --hosts 2  and with the ranks on two hosts
//	go run ./test/conformance --native         writes the pass lists anew, without the shim
//	go run ./test/conformance --run '^pt2pt/'  part of it; with --native of the lists, too
//
// The suite comes from Debian's source package and is kept, built, in
// $MPITRACE_CACHE/conformance (default ~/.cache/mpitrace/conformance).
// A test passes when it prints "No Errors" and ends with status 0; one that
// fails is run a second time, and counts as failed only then; between hosts only
// if it passes there without the shim, since the pass lists are of one host. The shim may
// not complain on stderr; with --check-results each result must be readable.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mpitrace/mpitrace/test/hosts"
	"github.com/mpitrace/mpitrace/test/mpijob"
)

// suiteDirs are the folders of the suite that the gate is made of.
var suiteDirs = []string{
	"attr", "coll", "comm", "datatype", "group", "info", "init", "pt2pt", "topo", "f77", "f08",
	"errhan", "rma", "io", "part", "threads", "spawn", "errors", "f90",
}

type options struct {
	mpis                  []mpijob.MPI
	subset, native, check bool
	act                   bool
	policy                string
	hosts                 int
	buildOnly, verbose    bool
	shim, reporter        string
	only                  *regexp.Regexp
	timeout               time.Duration
	memory                float64
	jobs                  int
	cache, mirror         string
	home                  string // this folder
}

func main() {
	opt, err := parseFlags()
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(2)
	}
	passed, failed := 0, 0
	for _, mpi := range opt.mpis {
		p, f, err := runMPI(opt, mpi)
		if err != nil {
			fmt.Fprintf(os.Stderr, "conformance: %s: %v\n", mpi.Name, err)
			os.Exit(2)
		}
		passed, failed = passed+p, failed+f
	}
	if opt.buildOnly {
		return
	}
	fmt.Printf("conformance: %d passed, %d failed\n", passed, failed)
	if failed > 0 && !opt.native {
		os.Exit(1)
	}
}

func parseFlags() (options, error) {
	var opt options
	mpis := flag.String("mpi", "openmpi,mpich", "libraries to test, comma separated")
	only := flag.String("run", "", "only tests whose name matches this regular expression")
	flag.BoolVar(&opt.subset, "subset", false, "only the tests named in subset.txt")
	flag.BoolVar(&opt.native, "native", false, "run without the shim and write the pass lists")
	flag.BoolVar(&opt.act, "act", false, "run in act mode (mpitrace run --act); with --native refused")
	flag.StringVar(&opt.policy, "policy", "auto", "of act mode, as for mpitrace run --act")
	flag.IntVar(&opt.hosts, "hosts", 1, "how many hosts the ranks are dealt out to: network namespaces, as root")
	flag.BoolVar(&opt.check, "check-results", false, "also read each result with mpitrace report --json")
	flag.BoolVar(&opt.buildOnly, "build-only", false, "fetch and build, run nothing")
	flag.BoolVar(&opt.verbose, "v", false, "name each test as it ends")
	flag.StringVar(&opt.shim, "shim", "build/libmpishim.so", "library to preload")
	flag.StringVar(&opt.reporter, "mpitrace", "build/mpitrace", "command that reads results")
	flag.DurationVar(&opt.timeout, "timeout", 0, "limit of one test (default 25s native, 5m with the shim)")
	flag.Float64Var(&opt.memory, "memory", 4, "leave out tests that need more GiB than this")
	flag.IntVar(&opt.jobs, "j", runtime.NumCPU(), "parallel compilations")
	flag.StringVar(&opt.mirror, "mirror", "http://deb.debian.org/debian", "Debian mirror for the source package")
	flag.Parse()
	if flag.NArg() > 0 {
		return opt, fmt.Errorf("unexpected argument %q; see --help", flag.Arg(0))
	}
	var err error
	if opt.mpis, err = mpijob.Parse(*mpis); err != nil {
		return opt, err
	}
	if opt.act && opt.native {
		return opt, fmt.Errorf("--act and --native exclude each other")
	}
	if err := opt.checkHosts(); err != nil {
		return opt, err
	}
	if opt.only, err = regexp.Compile(*only); err != nil {
		return opt, fmt.Errorf("--run: %w", err)
	}
	return opt, opt.complete()
}

// checkHosts: between hosts without a fast network MPICH's own MPI_Finalize hangs often
// (test/launch), which is no gate for anything; in act mode it does so seldom.
func (opt *options) checkHosts() error {
	switch {
	case opt.hosts < 1 || opt.hosts > 8:
		return fmt.Errorf("--hosts %d: 1 to 8", opt.hosts)
	case opt.hosts > 1 && opt.native:
		return fmt.Errorf("--hosts and --native exclude each other: the pass lists are of one host")
	case opt.hosts > 1 && !opt.act && (len(opt.mpis) != 1 || opt.mpis[0].Name != "openmpi"):
		return fmt.Errorf("--hosts without --act wants --mpi openmpi: MPICH hangs in its MPI_Finalize between hosts without a fast network")
	}
	return nil
}

// complete fills in paths and checks what must be there before the long part.
func (opt *options) complete() error {
	opt.cache = os.Getenv("MPITRACE_CACHE")
	if opt.cache == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			return fmt.Errorf("no cache folder; set MPITRACE_CACHE: %w", err)
		}
		opt.cache = filepath.Join(base, "mpitrace")
	}
	opt.cache = filepath.Join(opt.cache, "conformance")
	if err := os.MkdirAll(opt.cache, 0o755); err != nil {
		return fmt.Errorf("make the cache folder: %w", err)
	}
	opt.home = "test/conformance"
	if _, err := os.Stat(filepath.Join(opt.home, "subset.txt")); err != nil {
		return fmt.Errorf("run this from the top of the source tree: %w", err)
	}
	if opt.timeout == 0 {
		opt.timeout = 5 * time.Minute
		if opt.native {
			opt.timeout = 25 * time.Second
		}
	}
	for _, path := range []*string{&opt.shim, &opt.reporter} {
		absolute, err := filepath.Abs(*path)
		if err != nil {
			return fmt.Errorf("%s: %w", *path, err)
		}
		*path = absolute
	}
	return opt.checkProducts()
}

func (opt *options) checkProducts() error {
	needed := map[string]bool{opt.shim: !opt.native && !opt.buildOnly, opt.reporter: opt.check || opt.act}
	for path, wanted := range needed {
		if !wanted {
			continue
		}
		if _, err := os.Stat(path); err != nil {
			return fmt.Errorf("%s is missing: run 'make build' first", path)
		}
	}
	return nil
}

// runMPI fetches, builds and runs the suite for one MPI.
func runMPI(opt options, mpi mpijob.MPI) (passed, failed int, err error) {
	if err := mpi.Missing(); err != nil {
		return 0, 0, err
	}
	source, err := fetchSuite(opt.cache, opt.mirror)
	if err != nil {
		return 0, 0, err
	}
	build, err := configureSuite(opt.cache, source, mpi)
	if err != nil {
		return 0, 0, err
	}
	tests, err := chooseTests(opt, mpi, build, source)
	if err != nil {
		return 0, 0, err
	}
	if opt.subset {
		err = buildTests(build, tests, opt.jobs)
	} else {
		err = buildAll(build, foldersOf(tests), opt.jobs)
	}
	if err != nil || opt.buildOnly {
		return 0, 0, err
	}
	g, err := newGate(opt, mpi, build)
	if err != nil {
		return 0, 0, err
	}
	defer os.RemoveAll(g.scratch)
	ended, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	defer stop()
	g.ended = ended
	if opt.hosts > 1 {
		files, failed := os.MkdirTemp("", "mpitrace-hosts-")
		if failed != nil {
			return 0, 0, failed
		}
		defer os.RemoveAll(files)
		if g.hosts, err = hosts.Make(files, opt.hosts); err != nil {
			return 0, 0, err
		}
		defer func() { err = errors.Join(err, g.hosts.Close()) }()
	}
	names, failures := g.runAll(opt, tests)
	if ended.Err() != nil {
		return 0, 0, context.Cause(ended)
	}
	fmt.Printf("%s: %d passed, %d of them the second time, %d failed\n", mpi.Name, len(names), g.repeated, failures)
	if opt.native && !opt.subset {
		err = opt.mergePassList(mpi, build, source, tests, names)
	}
	return len(names), failures, err
}

// foldersOf names the folders that hold the tests, in the suite's order.
func foldersOf(tests []suiteTest) []string {
	return slices.DeleteFunc(slices.Clone(suiteDirs), func(dir string) bool {
		return !slices.ContainsFunc(tests, func(t suiteTest) bool {
			return t.Dir == dir || strings.HasPrefix(t.Dir, dir+"/")
		})
	})
}

func newGate(opt options, mpi mpijob.MPI, build string) (*gate, error) {
	preload, err := mpi.Helpers(opt.cache)
	if err != nil {
		return nil, err
	}
	g := &gate{mpi: mpi, build: build, shim: opt.shim, preload: preload, timeout: opt.timeout}
	switch {
	case opt.act:
		g.shimmed = true
		g.act = []string{opt.reporter, "run", "--act=" + opt.policy, "--shim", opt.shim, "--output"}
	case !opt.native:
		g.shimmed = true
		g.preload = append([]string{opt.shim}, preload...)
	}
	if opt.check {
		g.reporter = opt.reporter
	}
	base := "/dev/shm"
	if _, err := os.Stat(base); err != nil || opt.hosts > 1 { // each host has a /dev/shm of its own
		base = os.TempDir()
	}
	g.scratch, err = os.MkdirTemp(base, "mpitrace-conformance-")
	return g, err
}

// nativeTimes is how often a test that fails between hosts must pass there without the
// shim to count: some of MPICH hang in MPI_Finalize in 5 of 8 native runs.
const nativeTimes = 6

// runAll runs the tests and returns the names of those that passed, and how many
// failed.
func (g *gate) runAll(opt options, tests []suiteTest) (passed []string, failed int) {
	run := g.twice
	if opt.native { // flakes do not get onto the pass list
		run = func(t suiteTest) error { return g.passesAlways(t, 2) }
	}
	for i, t := range tests {
		start := time.Now()
		err := run(t)
		switch {
		case g.ended.Err() != nil:
			return passed, failed
		case err == nil:
			passed = append(passed, t.Name)
		case g.hosts != nil && g.native().passesAlways(t, nativeTimes) != nil:
			fmt.Printf("left out: %s: %s fails between hosts without the shim, too\n", g.mpi.Name, t.Name)
		default:
			failed++
			fmt.Printf("FAIL %s: %s: %v\n", g.mpi.Name, t.Name, err)
		}
		if opt.verbose {
			fmt.Printf("%4d/%d %6.2fs %s %s\n", i+1, len(tests), time.Since(start).Seconds(), g.mpi.Name, t.Name)
		}
	}
	return passed, failed
}

// chooseTests reads the suite's lists and keeps what is to be run: for the
// gate only what is on the native pass list.
func chooseTests(opt options, mpi mpijob.MPI, build, source string) ([]suiteTest, error) {
	all, err := readSuite(build, source, suiteDirs)
	if err != nil {
		return nil, err
	}
	var wanted, inSubset map[string]bool
	if !opt.native && (opt.subset || !opt.buildOnly) {
		if wanted, err = readPassList(opt.passList(mpi)); err != nil {
			return nil, err
		}
	}
	if opt.subset {
		if inSubset, err = readPassList(filepath.Join(opt.home, "subset.txt")); err != nil {
			return nil, err
		}
	}
	left, err := readPassList(filepath.Join(opt.home, "flaky.txt"))
	if err != nil {
		return nil, err
	}
	if opt.act {
		unlike, err := readPassList(filepath.Join(opt.home, "act.txt"))
		if err != nil {
			return nil, err
		}
		maps.Copy(left, unlike)
	}
	var tests []suiteTest
	for _, t := range all {
		if left[mpi.Name+" "+t.Name] || (wanted != nil && !wanted[t.Name]) || (inSubset != nil && !inSubset[t.Name]) {
			continue
		}
		if t.Memory <= opt.memory && opt.only.MatchString(t.Name) {
			tests = append(tests, t)
		}
	}
	if len(tests) == 0 {
		return nil, fmt.Errorf("no test of the suite is chosen")
	}
	return tests, nil
}

func (opt options) passList(mpi mpijob.MPI) string {
	return filepath.Join(opt.home, "pass-"+mpi.Name+".txt")
}

// readPassList reads names, one a line; lines that start with # are remarks.
func readPassList(path string) (map[string]bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("list of tests: %w", err)
	}
	defer f.Close()
	names := map[string]bool{}
	scan := bufio.NewScanner(f)
	for scan.Scan() {
		if line := strings.TrimSpace(scan.Text()); line != "" && line[0] != '#' {
			names[line] = true
		}
	}
	return names, scan.Err()
}

// mergePassList writes the pass list anew, in the suite's order: of the tests
// that ran those that passed, and of all others what it held.
func (opt options) mergePassList(mpi mpijob.MPI, build, source string, ran []suiteTest, passed []string) error {
	all, err := readSuite(build, source, suiteDirs)
	if err != nil {
		return err
	}
	wanted, err := readPassList(opt.passList(mpi))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, t := range ran {
		delete(wanted, t.Name)
	}
	var names []string
	for _, t := range all {
		if wanted[t.Name] || slices.Contains(passed, t.Name) {
			names = append(names, t.Name)
		}
	}
	return writePassList(opt.passList(mpi), names)
}

func writePassList(path string, names []string) error {
	text := "# Tests of the suite that pass twice in a row without the shim; written by --native.\n" +
		strings.Join(names, "\n") + "\n"
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		return fmt.Errorf("write the pass list: %w", err)
	}
	return nil
}
