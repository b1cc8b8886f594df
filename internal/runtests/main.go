// Command runtests runs every test of the project and ends with one line
// "N passed, N failed". It is what make test runs; -only NAME runs one group.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// tally counts the results of all groups, of several tests at once too.
type tally struct {
	sync.Mutex
	passed, failed int
	failures       []failure
}

// failure is a test, and what it said.
type failure struct{ name, output string }

func (t *tally) pass() { t.add(1, 0) }

// add counts tests of which others have told.
func (t *tally) add(passed, failed int) {
	t.Lock()
	defer t.Unlock()
	t.passed += passed
	t.failed += failed
}

// fail shows a failed test at once, and once more in summary.
func (t *tally) fail(name, output string) {
	t.Lock()
	defer t.Unlock()
	t.failed++
	t.failures = append(t.failures, failure{name, output})
	fmt.Printf("%sFAIL %s\n", output, name)
}

// Of each failed test, summary repeats so much.
const (
	linesOfFailure = 25
	bytesOfLine    = 300
)

// summary is the end of all that is printed, for often nothing else is kept: the
// failed tests together, each with the beginning of what it said, and the counts.
func (t *tally) summary() string {
	var b strings.Builder
	for _, f := range t.failures {
		fmt.Fprintf(&b, "failed: %s\n", f.name)
		lines := strings.Split(strings.TrimSpace(f.output), "\n")
		for i, line := range lines {
			if i == linesOfFailure {
				fmt.Fprintf(&b, "    (and %d more lines above)\n", len(lines)-i)
				break
			}
			if len(line) > bytesOfLine {
				line = line[:bytesOfLine] + " ..."
			}
			if line != "" {
				fmt.Fprintf(&b, "    %s\n", line)
			}
		}
	}
	fmt.Fprintf(&b, "%d passed, %d failed\n", t.passed, t.failed)
	return b.String()
}

// group is a set of tests that one function runs.
type group struct {
	name string
	run  func(*tally)
}

func main() {
	only := flag.String("only", "", "run one group: style, c, go or conformance")
	flag.Parse()
	groups := []group{{"style", style}, {"c", cTests}, {"go", goTests}, {"conformance", conformance}}
	t := &tally{}
	ran := false
	for _, g := range groups {
		if *only == "" || *only == g.name {
			fmt.Printf("== %s\n", g.name)
			begin := time.Now()
			g.run(t)
			fmt.Printf("== %s took %.0f s\n", g.name, time.Since(begin).Seconds())
			ran = true
		}
	}
	if !ran {
		fmt.Fprintf(os.Stderr, "runtests: no group %q (style, c, go, conformance)\n", *only)
		os.Exit(2)
	}
	fmt.Print(t.summary())
	if t.failed > 0 || t.passed == 0 {
		os.Exit(1)
	}
}

// step runs a command as one test; its output is shown when it fails, or when
// it succeeds but prints although silence is what success looks like.
func step(t *tally, name string, silent bool, command ...string) {
	out, err := exec.Command(command[0], command[1:]...).CombinedOutput()
	if err == nil && (!silent || len(strings.TrimSpace(string(out))) == 0) {
		t.pass()
		return
	}
	t.fail(name, fmt.Sprintf("%s\n%s\n", strings.Join(command, " "), out))
}

func style(t *tally) {
	step(t, "gofmt", true, "gofmt", "-l", ".")
	step(t, "go vet", false, "go", "vet", "./...")
	step(t, "generated files are fresh", false, "go", "run", "./internal/gen", "-check")
}

var counts = regexp.MustCompile(`^(?:conformance: )?(\d+) passed, (\d+) failed$`)

// conformance runs the chosen part of the MPICH suite, observed and in act mode side by
// side: their ranks wait for each other and for their launcher half of the time.
func conformance(t *tally) {
	step(t, "conformance --build-only", false, "go", "run", "./test/conformance", "--subset", "--build-only")
	var both sync.WaitGroup
	both.Go(func() { suite(t, "--subset") })
	both.Go(func() { suite(t, "--subset", "--act") })
	both.Wait()
}

// suite runs tests of the MPICH suite and takes over their counts.
func suite(t *tally, which ...string) {
	cmd := exec.Command("go", append([]string{"run", "./test/conformance"}, which...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	m := counts.FindStringSubmatch(lines[len(lines)-1])
	if m == nil || (err != nil && m[2] == "0") {
		t.fail("conformance "+strings.Join(which, " "), fmt.Sprintf("%s\n%v\n", out, err))
		return
	}
	passed, _ := strconv.Atoi(m[1])
	failed, _ := strconv.Atoi(m[2])
	t.add(passed, max(failed-1, 0)) // one is told of below
	if failed > 0 {
		t.fail(fmt.Sprintf("%d tests of the MPICH suite (%s)", failed, strings.Join(which, " ")), string(out))
		return
	}
	fmt.Println(strings.Join(lines[:len(lines)-1], "\n")) // what passed the second time only
}
