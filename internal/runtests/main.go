// Command runtests runs every test of the project and ends with one line
// "N passed, N failed". It is what make test runs; -only NAME runs one group.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// tally counts the results of all groups.
type tally struct {
	passed, failed int
	failures       []string
}

func (t *tally) pass() { t.passed++ }

func (t *tally) fail(name string) {
	t.failed++
	t.failures = append(t.failures, name)
	fmt.Printf("FAIL %s\n", name)
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
	for _, name := range t.failures {
		fmt.Printf("failed: %s\n", name)
	}
	fmt.Printf("%d passed, %d failed\n", t.passed, t.failed)
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
	fmt.Printf("%s\n%s\n", strings.Join(command, " "), out)
	t.fail(name)
}

func style(t *tally) {
	step(t, "gofmt", true, "gofmt", "-l", ".")
	step(t, "go vet", false, "go", "vet", "./...")
	step(t, "generated files are fresh", false, "go", "run", "./internal/gen", "-check")
}

// goTests runs the Go tests one package at a time: several start MPI jobs, and
// those must not share the processors.
func goTests(t *tally) {
	cmd := exec.Command("go", "test", "-json", "-count=1", "-p", "1", "-timeout", "25m", "./...")
	cmd.Stderr = os.Stderr
	pipe, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Println(err)
		t.fail("go test")
		return
	}
	failed := t.failed
	readEvents(pipe, t)
	if err := cmd.Wait(); err != nil && t.failed == failed {
		fmt.Println(err)
		t.fail("go test")
	}
	for _, pkg := range concurrent {
		step(t, "race detector: "+pkg, false, "go", "test", "-race", "-count=1", "-timeout", "10m", pkg)
	}
}

// concurrent packages are tested under the race detector too.
var concurrent = []string{"./regcache"}

var summary = regexp.MustCompile(`^(?:conformance: )?(\d+) passed, (\d+) failed$`)

// conformance runs the chosen part of the MPICH suite and takes over its counts.
func conformance(t *tally) {
	cmd := exec.Command("go", "run", "./test/conformance", "--subset")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	m := summary.FindStringSubmatch(lines[len(lines)-1])
	if m == nil || (err != nil && m[2] == "0") {
		fmt.Printf("%s\n%v\n", out, err)
		t.fail("conformance")
		return
	}
	passed, _ := strconv.Atoi(m[1])
	failed, _ := strconv.Atoi(m[2])
	t.passed += passed
	if failed > 0 {
		fmt.Printf("%s\n", out)
		t.failed += failed
		t.failures = append(t.failures, fmt.Sprintf("%d tests of the MPICH suite", failed))
	}
}

// event is a line of go test -json.
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64 // s
}

// readEvents counts the tests without subtests and shows what failed ones said.
func readEvents(r io.Reader, t *tally) {
	output := map[string]*strings.Builder{}
	parents := map[string]bool{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			fmt.Println(lines.Text())
			continue
		}
		key := e.Package + " " + e.Test
		switch e.Action {
		case "run":
			if i := strings.LastIndexByte(e.Test, '/'); i > 0 {
				parents[e.Package+" "+e.Test[:i]] = true
			}
		case "output", "build-output":
			if output[key] == nil {
				output[key] = &strings.Builder{}
			}
			output[key].WriteString(e.Output)
		case "pass":
			if e.Test == "" {
				fmt.Printf("ok   %s %.0f s\n", e.Package, e.Elapsed)
			} else if !parents[key] {
				t.pass()
			}
			delete(output, key)
		case "skip":
			if e.Test != "" && output[key] != nil {
				fmt.Print(output[key])
			}
		case "fail", "build-fail":
			if output[key] != nil {
				fmt.Print(output[key])
			}
			if !parents[key] {
				t.fail(key)
			}
		}
	}
}
