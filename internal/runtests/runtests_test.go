package main

import (
	"fmt"
	"strings"
	"testing"
)

// events is what go test -json prints, of a package "p".
func events(lines ...string) string {
	var b strings.Builder
	for _, line := range lines {
		action, rest, _ := strings.Cut(line, " ")
		test, output, _ := strings.Cut(rest, " ")
		fmt.Fprintf(&b, `{"Action":%q,"Package":"p","Test":%q,"Output":%q}`+"\n", action, test, output)
	}
	return b.String()
}

// TestEvents: what is counted, and which tests are named as failed.
func TestEvents(t *testing.T) {
	for name, c := range map[string]struct {
		events string
		passed int
		failed string // what summary says of each
	}{
		"good":     {events("run A", "pass A", "run B", "run B/x", "pass B/x", "pass B", "pass "), 2, ""},
		"skipped":  {events("run A", "output A why", "skip A", "pass "), 0, ""},
		"one":      {events("run A", "output A wrong", "fail A", "run B", "pass B", "output  FAIL", "fail "), 1, "p A: wrong"},
		"subtest":  {events("run A", "run A/x", "output A/x wrong", "fail A/x", "run A/y", "pass A/y", "fail A", "fail "), 1, "p A/x: wrong"},
		"parent":   {events("run A", "run A/x", "pass A/x", "output A wrong", "fail A", "fail "), 1, "p A: wrong"},
		"deep":     {events("run A", "run A/x", "run A/x/y", "output A/x/y wrong", "fail A/x/y", "fail A/x", "fail A", "fail "), 0, "p A/x/y: wrong"},
		"slash":    {events("run A", "run A/x/y", "pass A/x/y", "run A/x/z", "output A/x/z wrong", "fail A/x/z", "fail A", "fail "), 1, "p A/x/z: wrong"},
		"panicked": {events("run A", "pass A", "run B", "run B/x", "output B/x panic: test timed out", "output  FAIL", "fail "), 1, "p B/x: panic: test timed out"},
		"package":  {events("output  no rule", "fail "), 0, "p: no rule"},
		"later":    {events("run A", "pass A", "output A a word", "output  exit status 2", "fail "), 1, "p: exit status 2"},
	} {
		var got tally
		readEvents(strings.NewReader(c.events), &got)
		var failed []string
		for _, f := range got.failures {
			failed = append(failed, f.name+": "+f.output)
		}
		if got.passed != c.passed || got.failed != len(got.failures) || strings.Join(failed, "; ") != c.failed {
			t.Errorf("%s: %d passed, %q; want %d and %q", name, got.passed, failed, c.passed, c.failed)
		}
	}
}

// TestBuildFails: what does not compile is named, with what the compiler says.
func TestBuildFails(t *testing.T) {
	var got tally
	readEvents(strings.NewReader(`{"ImportPath":"p [p.test]","Action":"build-output","Output":"x.go:1: no"}
{"ImportPath":"p [p.test]","Action":"build-fail"}
{"Action":"output","Package":"p","Output":"FAIL p [build failed]"}
{"Action":"fail","Package":"p"}
`), &got)
	if len(got.failures) != 2 || got.failures[0] != (failure{"p [p.test]", "x.go:1: no"}) || got.failures[1].name != "p" {
		t.Errorf("%q", got.failures)
	}
}

// TestSummary: the end of the output names all that failed, each with the beginning of
// what it said, and its last line has the counts.
func TestSummary(t *testing.T) {
	got := tally{passed: 5}
	got.fail("p A", "=== RUN A\n\nwrong\n")
	got.fail("p B", strings.Repeat("line\n", linesOfFailure+7))
	got.fail("p C", strings.Repeat("x", 2*bytesOfLine))
	got.fail("p D", "")
	want := "failed: p A\n    === RUN A\n    wrong\nfailed: p B\n" + strings.Repeat("    line\n", linesOfFailure) + "    (and 7 more lines above)\n" +
		"failed: p C\n    " + strings.Repeat("x", bytesOfLine) + " ...\nfailed: p D\n5 passed, 4 failed\n"
	if s := got.summary(); s != want {
		t.Errorf("%s\nwant\n%s", s, want)
	}
}
