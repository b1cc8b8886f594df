package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

const module = "github.com/mpitrace/mpitrace"

// alone are packages whose tests compare what was measured of an MPI job with what
// the job did: nothing else should want the processors meanwhile.
var alone = []string{module + "/test/measure"}

// longest are packages that take minutes, and begin before the others, so that none is
// left to itself at the end.
var longest = []string{module + "/test/vm", module + "/test/act", module + "/test/runtime"}

// order is the place of a package in longest, or behind it.
func order(pkg string) int {
	if i := slices.Index(longest, pkg); i >= 0 {
		return i
	}
	return len(longest)
}

// goTests runs the Go tests, three packages at a time also on two processors: most start
// MPI jobs or guests, whose ends wait for each other for much of their time.
func goTests(t *tally) {
	out, err := exec.Command("go", "list", "./...").Output()
	if err != nil {
		t.fail("go list", err.Error()+"\n")
		return
	}
	packages := slices.DeleteFunc(strings.Fields(string(out)), func(pkg string) bool { return slices.Contains(alone, pkg) })
	slices.SortStableFunc(packages, func(a, b string) int { return cmp.Compare(order(a), order(b)) })
	testPackages(t, 3, packages)
	testPackages(t, 1, alone)
	for _, pkg := range concurrent {
		step(t, "race detector: "+pkg, false, "go", "test", "-race", "-count=1", "-timeout", "10m", pkg)
	}
}

// testPackages tests packages, so many at a time. The limit of each is for what
// hangs: on a loaded machine they take several times as long as usual.
func testPackages(t *tally, atOnce int, packages []string) {
	argv := []string{"test", "-json", "-count=1", "-timeout", "60m", "-p", strconv.Itoa(atOnce)}
	cmd := exec.Command("go", append(argv, packages...)...)
	cmd.Stderr = os.Stderr
	pipe, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.fail("go test", err.Error()+"\n")
		return
	}
	failed := t.failed
	readEvents(pipe, t)
	if err := cmd.Wait(); err != nil && t.failed == failed {
		t.fail("go test", err.Error()+"\n")
	}
}

// concurrent packages are tested under the race detector too.
var concurrent = []string{"./regcache"}

// event is a line of go test -json.
type event struct {
	Action, Package, Test, Output string
	ImportPath                    string  // of a build, in place of Package
	Elapsed                       float64 // s
}

// goTest is a test, or with the name "" its package.
type goTest struct {
	said             strings.Builder
	parent           bool // it has subtests
	ended, explained bool // explained: a subtest has failed
}

// goPackage is the tests of a package by name.
type goPackage map[string]*goTest

func (p goPackage) of(test string) *goTest {
	if p[test] == nil {
		p[test] = &goTest{}
	}
	return p[test]
}

// above are the tests that a test is a subtest of, and last its package. A part of a
// name may end at a slash and be no test.
func (p goPackage) above(test string) (list []*goTest) {
	for test != "" {
		test = test[:max(strings.LastIndexByte(test, '/'), 0)]
		if test == "" || p[test] != nil {
			list = append(list, p.of(test))
		}
	}
	return list
}

// readEvents counts the tests without subtests, and takes down what failed ones
// said.
func readEvents(r io.Reader, t *tally) {
	packages := map[string]goPackage{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			fmt.Println(lines.Text())
			continue
		}
		name := e.Package + e.ImportPath
		if packages[name] == nil {
			packages[name] = goPackage{}
		}
		packages[name].take(&e, name, t)
	}
}

func (p goPackage) take(e *event, name string, t *tally) {
	g := p.of(e.Test)
	switch e.Action {
	case "run":
		p.above(e.Test)[0].parent = true
	case "output", "build-output":
		g.said.WriteString(e.Output)
	case "pass":
		if e.Test == "" {
			fmt.Printf("ok   %s %.0f s\n", name, e.Elapsed)
		} else if !g.parent {
			if e.Elapsed >= slow.Seconds() {
				fmt.Printf("ok   %s %s %.0f s\n", name, e.Test, e.Elapsed)
			}
			t.pass()
		}
	case "skip":
		if e.Test != "" {
			fmt.Print(g.said.String())
		}
	case "fail", "build-fail":
		if e.Test == "" {
			p.unfinished(name, t)
		}
		p.fail(name, e.Test, t)
	}
	if e.Action == "pass" || e.Action == "skip" {
		g.ended = true
		g.said.Reset()
	}
}

// fail takes down a test, or the package, unless it has failed because of a
// subtest.
func (p goPackage) fail(name, test string, t *tally) {
	g := p.of(test)
	g.ended = true
	if g.explained {
		fmt.Print(g.said.String())
		return
	}
	for _, other := range p.above(test) {
		other.explained = true
	}
	t.fail(strings.TrimSpace(name+" "+test), g.said.String())
}

// unfinished takes down the tests that had not ended when their package did: it
// panicked, or its time was over.
func (p goPackage) unfinished(name string, t *tally) {
	for _, test := range slices.Backward(slices.Sorted(maps.Keys(p))) {
		if test != "" && !p[test].ended {
			p.fail(name, test, t)
		}
	}
}
