package fakempi

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const limit = 5 * time.Minute

func build(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("gcc", append([]string{"-g", "-O1", "-w"}, args...)...).CombinedOutput(); err != nil {
		t.Fatalf("gcc %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// library builds library.c as dir/libfake.so, with a second one behind it if
// back is not empty, and user.c against it.
func library(t *testing.T, version, back string, flags ...string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	so := filepath.Join(dir, "libfake.so")
	args := []string{"-shared", "-fPIC", "-DVERSION=\"" + version + "\"", "testdata/library.c", "-o", so}
	if back != "" {
		behind := filepath.Join(dir, "libback.so")
		build(t, "-shared", "-fPIC", "-DVERSION=\""+back+"\"", "testdata/library.c", "-o", behind)
		args = append(args, "-DBACK=\""+behind+"\"")
	}
	build(t, append(args, flags...)...)
	build(t, "testdata/user.c", "-o", filepath.Join(dir, "user"), so, "-Wl,-rpath,"+dir)
	return dir
}

// run starts user, preloaded or not, and returns what it wrote and its status.
func run(t *testing.T, dir string, preload bool, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(dir, "user"), args...)
	cmd.Env = append(os.Environ(), "MPITRACE_OUTPUT="+filepath.Join(dir, "result"), "MPITRACE_SEGMENT_DIR="+filepath.Join(dir, "segments"))
	if preload {
		shim, err := filepath.Abs("../../build/libmpishim.so")
		if err != nil {
			t.Fatal(err)
		}
		cmd.Env = append(cmd.Env, "LD_PRELOAD="+shim)
	}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if ctx.Err() != nil {
		t.Fatalf("user did not end within %v", limit)
	}
	if _, ok := err.(*exec.ExitError); err != nil && !ok {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// calls reads the result of a run: calls per function.
func calls(t *testing.T, dir string) map[string]int {
	t.Helper()
	got, _ := result(t, filepath.Join(dir, "result"))
	return got
}

// result reads calls per function and the findings of a directory
// with a result or a segment.
func result(t *testing.T, path string) (calls map[string]int, findings []string) {
	t.Helper()
	out, err := exec.Command("../../build/mpitrace", "report", "--json", path).Output()
	if err != nil {
		t.Fatalf("mpitrace report: %v", err)
	}
	var report struct {
		Functions []struct {
			Name  string
			Calls int
		}
		Findings []string
	}
	if err := json.Unmarshal(out, &report); err != nil {
		t.Fatal(err)
	}
	calls = map[string]int{}
	for _, f := range report.Functions {
		calls[f.Name] = f.Calls
	}
	return calls, report.Findings
}

func sameAsNative(t *testing.T, dir string, args ...string) (stderr string) {
	t.Helper()
	stdout, _, status := run(t, dir, false, args...)
	gotOut, stderr, gotStatus := run(t, dir, true, args...)
	if gotOut != stdout || gotStatus != status {
		t.Errorf("preloaded: status %d, %q; native: status %d, %q\n%s", gotStatus, gotOut, status, stdout, stderr)
	}
	return stderr
}

func checkCalls(t *testing.T, dir string, inits int) {
	t.Helper()
	want := map[string]int{"MPI_Init": inits, "MPI_Send": 3, "MPI_Barrier": 2, "MPI_Wtime": 1, "MPI_Finalize": 1}
	got := calls(t, dir)
	for name, n := range want {
		if got[name] != n {
			t.Errorf("%s: %d calls, want %d", name, got[name], n)
		}
	}
	if len(got) != len(want) {
		t.Errorf("functions counted: %v", got)
	}
}

// TestInternalCalls: what the library calls of itself goes to it, uncounted.
func TestInternalCalls(t *testing.T) {
	dir := library(t, "MPICH Version: 9.9", "")
	sameAsNative(t, dir)
	checkCalls(t, dir, 1)
}

// TestInitAgain: an MPI_Init that fails, and the next one.
func TestInitAgain(t *testing.T) {
	dir := library(t, "MPICH Version: 9.9", "", "-DREFUSES")
	sameAsNative(t, dir)
	checkCalls(t, dir, 2)
}

// TestTranslationLayer: two MPI libraries in one process. The one behind calls
// MPI by public names, which the dynamic linker binds to the shim; they must go
// where they go without it, and count for nobody.
func TestTranslationLayer(t *testing.T) {
	dir := library(t, "MPICH Version: 9.9", "MPICH Version: behind")
	sameAsNative(t, dir)
	checkCalls(t, dir, 1)
}

// TestUnknownLibrary: also a layer with types of its own that tells the name of the
// library behind it.
func TestUnknownLibrary(t *testing.T) {
	for version, name := range map[string]string{
		"Strange MPI 1.0": "Strange MPI 1.0",
		`MPIwrapper 2.10, wrapping:\nMPICH Version: 9.9`: "MPIwrapper 2.10, wrapping:",
		"MPItrampoline 5, MPICH Version: 9.9":            "MPItrampoline 5, MPICH Version: 9.9",
	} {
		dir := library(t, version, "")
		stderr := sameAsNative(t, dir)
		if strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "mpitrace: this MPI library is not known ("+name+")") {
			t.Errorf("stderr: %q, want one line that names %s", stderr, name)
		}
		if _, err := os.Stat(filepath.Join(dir, "result")); err == nil {
			t.Error("a result was written although nothing was measured")
		}
	}
}

// TestMissingFunction: a call that the library has no function for ends the
// program as the dynamic linker would, instead of jumping to address 0.
func TestMissingFunction(t *testing.T) {
	dir := library(t, "MPICH Version: 9.9", "")
	_, stderr, status := run(t, dir, true, "commit")
	if status != 127 || !strings.Contains(stderr, "undefined symbol: MPI_Type_commit") {
		t.Errorf("status %d, stderr %q", status, stderr)
	}
}

// TestLaterFunctions: a program that looks for functions of a later MPI finds the
// shim's, which do what it would do itself.
func TestLaterFunctions(t *testing.T) {
	sameAsNative(t, library(t, "MPICH Version: 9.9", ""), "status")
}

// TestUnknownFunctions: a library of the future has functions that nobody
// intercepts; one line says so, and what is known is counted.
func TestUnknownFunctions(t *testing.T) {
	dir := library(t, "MPICH Version: 9.9", "", "-DEXTRA")
	stderr := sameAsNative(t, dir)
	if !strings.Contains(stderr, "mpitrace: the MPI library exports 2 functions that this version does not know (MPI_") || strings.Count(stderr, "not counted") != 1 {
		t.Errorf("stderr: %q, want one line that counts the unknown functions", stderr)
	}
	checkCalls(t, dir, 1)
}

// TestWeakSymbol: where there is no MPI, asking whether it is initialised must
// not end the program, although the shim makes the symbol exist.
func TestWeakSymbol(t *testing.T) {
	dir := t.TempDir()
	build(t, "testdata/weak.c", "-o", filepath.Join(dir, "user"))
	if stderr := sameAsNative(t, dir); stderr != "" {
		t.Errorf("stderr: %q", stderr)
	}
}

// TestAsked: where there is no MPI it is looked for again only when something was
// loaded since, and then found.
func TestAsked(t *testing.T) {
	dir := library(t, "MPICH Version: 9.9", "")
	build(t, "-rdynamic", "testdata/asked.c", "-o", filepath.Join(dir, "user"), "-ldl")
	out, stderr, status := run(t, dir, true, filepath.Join(dir, "libfake.so"))
	if want := "first one search, then 0 in 100 calls, flag 0\nflag 1\n"; out != want || status != 0 {
		t.Errorf("status %d, %q, want %q; %q", status, out, want, stderr)
	}
}

// TestConstructor: the first call of MPI, while another thread loads a library whose
// constructor calls MPI.
func TestConstructor(t *testing.T) {
	dir := library(t, "MPICH Version: 9.9", "")
	plugin := filepath.Join(dir, "plugin.so")
	fake := filepath.Join(dir, "libfake.so")
	build(t, "-shared", "-fPIC", "-DPLUGIN", "testdata/constructor.c", "-o", plugin)
	build(t, "-rdynamic", "testdata/constructor.c", "-o", filepath.Join(dir, "user"), fake, "-Wl,-rpath,"+dir, "-lpthread", "-ldl")
	for _, preload := range []bool{false, true} {
		if out, stderr, status := run(t, dir, preload, plugin); status != 0 || !strings.HasSuffix(out, "done\n") {
			t.Errorf("preloaded %v: status %d (-1: it hung), %q, %q", preload, status, out, stderr)
		}
	}
}

// TestHandler: a signal comes while the shim holds its lock, and the handler calls
// MPI: the call goes to the library uncounted, and an abort is noted.
func TestHandler(t *testing.T) {
	for how, want := range map[string]struct {
		status, sends int
		said          string
	}{"send": {0, 2, "signals: 1\n"}, "abort": {7, 0, ""}} {
		dir := library(t, "MPICH Version: 9.9", "")
		build(t, "-rdynamic", "testdata/handler.c", "-o", filepath.Join(dir, "user"), filepath.Join(dir, "libfake.so"), "-Wl,-rpath,"+dir, "-ldl")
		out, stderr, status := run(t, dir, true, how)
		if status != want.status || !strings.Contains(stderr, want.said) {
			t.Errorf("%s: status %d (-1: it hung), want %d; %q, %q", how, status, want.status, out, stderr)
			continue
		}
		path := filepath.Join(dir, "result")
		if how == "abort" { // a process that aborts leaves its segment
			left, _ := filepath.Glob(filepath.Join(dir, "segments", "*"))
			if len(left) != 1 {
				t.Fatalf("segments: %q", left)
			}
			path = left[0]
		}
		counted, findings := result(t, path)
		if counted["MPI_Send"] != want.sends || counted["MPI_Abort"] != 0 {
			t.Errorf("%s: calls %v, want %d of MPI_Send", how, counted, want.sends)
		}
		if aborted := strings.Contains(strings.Join(findings, "\n"), "called MPI_Abort(7)"); aborted != (how == "abort") {
			t.Errorf("%s: findings %q", how, findings)
		}
	}
}

// TestSessions: threads open the first sessions of a process at the same time. They have
// one segment, and all of their calls are counted.
func TestSessions(t *testing.T) {
	for range 20 {
		dir := library(t, "MPICH Version: 9.9", "")
		build(t, "testdata/sessions.c", "-o", filepath.Join(dir, "user"), filepath.Join(dir, "libfake.so"), "-Wl,-rpath,"+dir, "-pthread")
		sameAsNative(t, dir)
		counted, _ := result(t, filepath.Join(dir, "result"))
		if counted["MPI_Session_init"] != 8 || counted["MPI_Send"] != 8 || counted["MPI_Session_finalize"] != 8 {
			t.Fatalf("calls %v, want 8 of each", counted)
		}
		if left, _ := filepath.Glob(filepath.Join(dir, "segments", "*")); len(left) > 0 {
			t.Fatalf("left behind: %q", left)
		}
	}
}

// TestStderrGone: nobody reads stderr any more when the shim names its result;
// the SIGPIPE of that must not become the program's end.
func TestStderrGone(t *testing.T) {
	dir := library(t, "MPICH Version: 9.9", "")
	shim, err := filepath.Abs("../../build/libmpishim.so")
	if err != nil {
		t.Fatal(err)
	}
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	reader.Close()
	cmd := exec.Command(filepath.Join(dir, "user"))
	cmd.Env = append(os.Environ(), "LD_PRELOAD="+shim, "MPITRACE_OUTPUT="+filepath.Join(dir, "result"), "MPITRACE_SEGMENT_DIR="+filepath.Join(dir, "segments"))
	cmd.Stderr = writer
	if err := cmd.Run(); err != nil {
		t.Errorf("preloaded with stderr gone: %v", err)
	}
	writer.Close()
	checkCalls(t, dir, 1)
}
