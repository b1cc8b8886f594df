package launch_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mpitrace/mpitrace/test/mpijob"
)

// TestRefused: what cannot work is refused with status 2 before anything
// starts, in one line that says how to mend it.
func TestRefused(t *testing.T) {
	dir := t.TempDir()
	m := mpis[0]
	m.program(t)
	full := filepath.Join(dir, "full")
	if err := os.Mkdir(full, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{filepath.Join(full, "x"), filepath.Join(dir, "text")} {
		if err := os.WriteFile(name, []byte("text"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	ran := filepath.Join(dir, "ran")
	cases := []struct {
		options []string
		env     string
		want    string
	}{
		{[]string{"-o", "full"}, "", "exists and is not empty: remove it, or choose another with -o DIR"},
		{[]string{"-o", "none/out"}, "", "does not exist: make it"},
		{[]string{"-o", "text"}, "", "not a directory"},
		{[]string{"-o", "/sys/mpitrace"}, "", "choose a place where you may write with -o DIR"},
		{[]string{"--shim", "none.so"}, "", "no such file"},
		{[]string{"--shim", "text"}, "", "not a shared library"},
		{[]string{"--stack", "17"}, "", "0 to 16"},
		{[]string{"--mode", "on"}, "", "not one of off, observe"},
		{[]string{"--segment-bytes", "1X"}, "", "not a size"},
		{[]string{"--segment-bytes", "8M"}, "", "more than --segment-bytes-max"},
		{[]string{"--nonsense"}, "", "unknown flag: --nonsense"},
		{nil, "MPITRACE_STACK=99", "MPITRACE_STACK: "},
		{nil, "MPITRACE_SEGMENT_BYTES_MAX=much", "MPITRACE_SEGMENT_BYTES_MAX: "},
	}
	for _, c := range cases {
		t.Run(strings.Join(append(c.options, c.env), " "), func(t *testing.T) {
			args := append([]string{mpitrace, "run", "--shim", shim}, c.options...)
			got := run(t, dir, append(environment(), c.env), append(args, "--", "touch", ran)...)
			if got.status != 2 {
				t.Errorf("status %d, want 2", got.status)
			}
			wantLine(t, got, c.want)
			if _, err := os.Stat(ran); err == nil {
				t.Error("the command ran")
			}
		})
	}
}

// TestDotInPath: a command in the working directory runs where "." is in PATH, as
// from a shell.
func TestDotInPath(t *testing.T) {
	dir := t.TempDir()
	mpis[0].program(t)
	if err := os.WriteFile(filepath.Join(dir, "here"), []byte("#!/bin/sh\nexit 5\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	env := append(environment(), "PATH=.:"+os.Getenv("PATH"))
	if got := run(t, dir, env, mpitrace, "run", "--shim", shim, "--", "here"); got.status != 5 {
		t.Errorf("status %d, want 5: %s", got.status, got.stderr)
	}
}

// TestCommandLine: other mistakes on the command line.
func TestCommandLine(t *testing.T) {
	dir := t.TempDir()
	mpis[0].program(t)
	script := filepath.Join(dir, "notexecutable")
	if err := os.WriteFile(script, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"run"}, 2, "no command to run"},
		{[]string{"run", "--shim", shim, "--", "no-such-program"}, 127, "no-such-program: command not found\n"},
		{[]string{"run", "--shim", shim, "--act", "eager=copy", "--", "true"}, 127, "eager=copy: command not found: for a policy write --act=eager=copy"},
		{[]string{"run", "--shim", shim, "--", "./notexecutable"}, 126, "permission denied"},
		{[]string{"nonsense"}, 2, `unknown command "nonsense"`},
		{[]string{"reprot"}, 2, `unknown command "reprot" for "mpitrace": did you mean report?`},
		{[]string{"diff", "a"}, 2, "accepts 2 arg(s), received 1 (usage: mpitrace diff BEFORE AFTER [flags])"},
		{[]string{"report", "--top", "x"}, 2, `invalid argument "x" for "--top" flag: not a number in its range`},
		{[]string{"collect", "--job", "../x"}, 2, "is not a job id"},
		{[]string{"clean", "--job", "a/b"}, 2, "is not a job id"},
	}
	for _, c := range cases {
		got := run(t, dir, environment(), append([]string{mpitrace}, c.args...)...)
		if got.status != c.status || len(got.ours()) != 1 || !strings.Contains(got.stderr, c.want) {
			t.Errorf("%v: status %d, %q, want %d, %q", c.args, got.status, got.stderr, c.status, c.want)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("%v %v: a refused run left something behind", entries, err)
	}
}

// TestNothingToSee: programs whose MPI calls cannot be seen run all the same,
// and one line says why there is no result.
func TestNothingToSee(t *testing.T) {
	dir := t.TempDir()
	m := mpis[0]
	m.program(t)
	source := filepath.Join(dir, "plain.c")
	if err := os.WriteFile(source, []byte("int main(void) { return 4; }"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, flag := range map[string]string{"static": "-static", "plain": "-O"} {
		if err := mpijob.Compile("cc", filepath.Join(dir, name), flag, source); err != nil {
			t.Fatal(err)
		}
	}
	cases := []struct {
		options, command []string
		want             string
	}{
		{nil, []string{"./static"}, "./static is statically linked"},
		{nil, m.launch(2, "./static"), "./static is statically linked"},
		{nil, []string{"./plain"}, "./plain is not linked with a shared MPI library, and loaded none"},
		{nil, []string{"sh", "-c", "exit 4"}, "no MPI call was seen, so there is no result"},
		{[]string{"--mode=off"}, []string{m.program(t), "status"}, "the mode is off"},
	}
	for _, c := range cases {
		args := append([]string{mpitrace, "run", "--shim", shim, "-o", "out"}, c.options...)
		got := run(t, dir, environment(), append(append(args, "--"), c.command...)...)
		if got.status != 4 && got.status != 7 {
			t.Errorf("%v: status %d, want the program's", c.command, got.status)
		}
		wantLine(t, got, c.want)
		if _, err := os.Stat(filepath.Join(dir, "out")); err == nil {
			t.Errorf("%v: an empty result directory is left", c.command)
		}
	}
}

// TestGenerated: man pages and completions come from the command tree.
func TestGenerated(t *testing.T) {
	dir := t.TempDir()
	if got := run(t, dir, environment(), mpitrace, "man", "man"); got.status != 0 {
		t.Fatal(got.stderr)
	}
	page, err := os.ReadFile(filepath.Join(dir, "man", "mpitrace-run.1"))
	if err != nil || !strings.Contains(string(page), `\-\-segment\-bytes`) && !strings.Contains(string(page), "--segment-bytes") {
		t.Errorf("man page of run: %v\n%s", err, page)
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if got := run(t, dir, environment(), mpitrace, "completion", shell); got.status != 0 || !strings.Contains(got.stdout, "mpitrace") {
			t.Errorf("%s: %d %s", shell, got.status, got.stderr)
		}
	}
	if got := run(t, dir, environment(), mpitrace, "__complete", "run", "--clock", ""); !strings.Contains(got.stdout, "vdso") {
		t.Errorf("completion of --clock: %q", got.stdout)
	}
}
