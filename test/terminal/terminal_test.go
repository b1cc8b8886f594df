// Package terminal_test runs mpitrace top in a real terminal, tmux, on a real
// job: what is on the screen, and that the terminal is as before in the end,
// whatever ends it.
package terminal_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mpitrace/mpitrace/internal/top"
	"github.com/mpitrace/mpitrace/test/mpijob"
)

// limit bounds the job and each wait; it only serves to end a test that hangs.
const limit = 3 * time.Minute

// paths of what is tested, made by TestMain.
var mpitrace, scratch string

func TestMain(m *testing.M) {
	if os.Getenv("TERMINAL_TEST_PANIC") != "" {
		panicking()
		return
	}
	os.Exit(mpijob.Main(m, prepare))
}

func prepare(dir string) (err error) {
	scratch = dir
	mpitrace, err = mpijob.BuildCommand(dir)
	return err
}

// terminal is a session of a tmux of its own, in which a shell runs.
type terminal struct {
	*testing.T
	socket string
}

// newTerminal starts a terminal of 80 columns and 24 lines.
func newTerminal(t *testing.T, segments string, env ...string) *terminal {
	t.Helper()
	mpijob.Need(t, mpijob.Tools("tmux", "tmux", "stty"))
	x := &terminal{t, filepath.Join(t.TempDir(), "tmux")}
	args := []string{"-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24"}
	for _, kv := range append([]string{"PS1=ready> ", "MPITRACE_SEGMENT_DIR=" + segments, "LC_ALL=C.UTF-8", "HISTFILE="}, env...) {
		args = append(args, "-e", kv)
	}
	x.tmux(append(args, "bash", "--norc", "--noprofile")...)
	t.Cleanup(func() {
		// It has ended itself if its last session has.
		_ = exec.Command("tmux", "-S", x.socket, "kill-server").Run()
	})
	x.until("ready>")
	return x
}

// tmux runs a command of tmux.
func (x *terminal) tmux(args ...string) string {
	x.Helper()
	cmd := exec.Command("tmux", append([]string{"-S", x.socket}, args...)...)
	cmd.Env = mpijob.Environ("LC_ALL=C.UTF-8", "TERM=xterm-256color")
	out, err := cmd.CombinedOutput()
	if err != nil {
		x.Fatalf("tmux %q: %v\n%s", args, err, out)
	}
	return string(out)
}

// keys presses keys, by the names of tmux.
func (x *terminal) keys(keys ...string) {
	x.Helper()
	x.tmux(append([]string{"send-keys"}, keys...)...)
}

// types types a command line.
func (x *terminal) types(text string) {
	x.Helper()
	x.tmux("send-keys", "-l", text)
	x.keys("Enter")
}

func (x *terminal) screen() string {
	x.Helper()
	return x.tmux("capture-pane", "-p")
}

// until waits for a pattern on the screen, which it returns.
func (x *terminal) until(pattern string) string {
	x.Helper()
	re := regexp.MustCompile(pattern)
	return x.wait(pattern, func(screen string) bool { return re.MatchString(screen) })
}

// fitting is until for a screen that also fits the terminal: half drawn, it is not.
func (x *terminal) fitting(pattern string, columns, lines int) string {
	x.Helper()
	re := regexp.MustCompile(pattern)
	what := fmt.Sprintf("%q in %d columns and %d lines, the last with keys", pattern, columns, lines)
	return x.wait(what, func(screen string) bool { return re.MatchString(screen) && fits(screen, columns, lines) })
}

// wait waits for a screen that is so, which it returns.
func (x *terminal) wait(what string, so func(screen string) bool) string {
	x.Helper()
	var text string
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if text = x.screen(); so(text) {
			return text
		}
	}
	x.Fatalf("it did not come to the screen: %s\n%s", what, text)
	return ""
}

// state is the settings of the terminal: what stty says, and what tmux knows.
func (x *terminal) state() string {
	x.Helper()
	file := filepath.Join(x.TempDir(), "stty")
	x.types("clear; stty -a > " + file + " && echo do''ne")
	x.until("(?m)^done")
	text, err := os.ReadFile(file)
	if err != nil {
		x.Fatal(err)
	}
	modes := x.tmux("display-message", "-p", "alternate #{alternate_on} cursor #{cursor_flag} keypad #{keypad_flag} mouse #{mouse_any_flag} wrap #{wrap_flag} insert #{insert_flag}")
	return regexp.MustCompile(`rows \d+; columns \d+;`).ReplaceAllString(string(text), "") + modes
}

// top starts mpitrace top and returns its process id.
func (x *terminal) top(args string) (pid string) {
	x.Helper()
	file := filepath.Join(x.TempDir(), "pid")
	x.types(fmt.Sprintf("clear; sh -c 'echo $$ > %s; exec %s top --interval 200ms %s'; echo status $?", file, mpitrace, args))
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if text, err := os.ReadFile(file); err == nil && strings.HasSuffix(string(text), "\n") {
			return strings.TrimSpace(string(text))
		}
	}
	x.Fatalf("mpitrace top did not start:\n%s", x.screen())
	return ""
}

// job starts a job of four ranks, and says where its segments, its result and
// the files that steer it are.
func job(t *testing.T) (segments, result, control string) {
	t.Helper()
	mpi := mpijob.All[0]
	mpijob.Need(t, mpi.Missing())
	shim, err := filepath.Abs("../../build/libmpishim.so")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(shim); err != nil {
		mpijob.Need(t, mpijob.Missing("build/libmpishim.so", "make build"))
	}
	program := filepath.Join(scratch, "steps")
	if _, err := os.Stat(program); err != nil {
		if err := mpijob.Compile(mpi.CC, program, "-g", "testdata/steps.c"); err != nil {
			t.Fatal(err)
		}
	}
	segments, result, control = filepath.Join(t.TempDir(), "segments"), filepath.Join(t.TempDir(), "result"), t.TempDir()
	run := append([]string{mpitrace, "run", "--shim", shim, "-o", result, "--segment-dir", segments, "--"},
		mpijob.Job{MPI: mpi, Ranks: 4, Argv: []string{program, control}}.Command()...)
	p, err := mpijob.Start(4*limit, t.TempDir(), mpijob.Environ(), run, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			p.Kill()
		}
		if out, err := p.Wait(); err != nil || out.Status != 0 || t.Failed() {
			t.Errorf("the job: status %d, %v: %s%s", out.Status, err, out.Stdout, out.Stderr)
		}
	})
	return segments, result, control
}

func touch(t *testing.T, dir, name string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// fits tells whether a screen fits the terminal, with the keys in its last line.
func fits(screen string, columns, lines int) bool {
	rows := strings.Split(strings.TrimSuffix(screen, "\n"), "\n")
	wide := func(row string) bool { return len([]rune(row)) > columns }
	return len(rows) == lines && strings.Contains(rows[lines-1], "q quit") && !slices.ContainsFunc(rows, wide)
}

// TestTop watches a job from its first steps over a hang to its end.
func TestTop(t *testing.T) {
	segments, result, control := job(t)
	x := newTerminal(t, segments)
	before := x.state()
	x.top("")
	screen := x.fitting(`(?s)MPI \d+% now.* 3 \S+ +\d+% +\d+%`, 80, 24)
	if !strings.Contains(screen, "4 ranks · Open MPI v4") {
		t.Errorf("%s", screen)
	}

	x.keys("Down", "Down", "Enter")
	x.until(`(?s)rank 2  process \d+ on .*Functions.*MPI_Allreduce +[\d,]+ +\d`)
	x.tmux("resize-window", "-x", "60", "-y", "20")
	x.until(`(?m)time   now…$`)
	x.keys("BSpace")
	x.fitting("enter rank", 60, 20)
	x.tmux("resize-window", "-x", "120", "-y", "40")
	x.fitting("(?m)J jobs  . help$", 120, 40)
	x.keys("/", "1", "-", "2", "Enter")
	others := regexp.MustCompile(`(?m)^.    [03] running`)
	x.wait("ranks 1 and 2 only", func(screen string) bool {
		return strings.Contains(screen, "filter: 1-2 (esc clears)") && !others.MatchString(screen)
	})
	x.keys("BSpace")

	touch(t, control, "hang")
	x.until(`(?m)1 late\b`)
	x.until(`(?m)^! ranks 0,2,3 in MPI_Allreduce for \S+ s, waiting for rank 1 \(outside MPI`)
	x.keys("l")
	x.until("(?s)In progress now.*steps.c:.*Late over the whole run")
	x.keys("BSpace")

	touch(t, control, "stop")
	x.until("finished after")
	x.until("see: mpitrace report " + result)
	x.fitting(`3 finished +- +\d+%`, 120, 40)
	x.keys("q")
	if screen := x.until("status 0"); !strings.Contains(screen, "mpitrace: finished after") {
		t.Errorf("it does not say how the job ended:\n%s", screen)
	}
	if after := x.state(); after != before {
		t.Errorf("the terminal was\n%s\nand is\n%s", before, after)
	}
}

// TestSignals ends the view by signals, and by closing its terminal.
func TestSignals(t *testing.T) {
	segments, _, control := job(t)
	x := newTerminal(t, segments)
	before := x.state()
	for signal, status := range map[string]string{"TERM": "143", "INT": "130", "HUP": "129"} {
		pid := x.top("")
		x.until("3 running")
		if out, err := exec.Command("kill", "-"+signal, pid).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		x.until("status " + status)
		if after := x.state(); after != before {
			t.Errorf("%s: the terminal was\n%s\nand is\n%s", signal, before, after)
		}
	}
	pid := x.top("")
	x.until("3 running")
	x.tmux("kill-server")
	for end := time.Now().Add(limit); ; time.Sleep(50 * time.Millisecond) {
		if _, err := os.Stat("/proc/" + pid); err != nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal("it outlives its terminal")
		}
	}
	touch(t, control, "stop")
}

// TestNoJob waits for a job, and quits.
func TestNoJob(t *testing.T) {
	x := newTerminal(t, t.TempDir())
	before := x.state()
	x.top("")
	x.until(`(?s)0 jobs running.*mpitrace run -- mpirun`)
	x.keys("?")
	x.until("Columns")
	x.keys("C-c")
	x.until("status 0")
	if after := x.state(); after != before {
		t.Errorf("the terminal was\n%s\nand is\n%s", before, after)
	}
}

// TestPlain: no colour where none is wanted, and plain text where nothing else
// can be shown.
func TestPlain(t *testing.T) {
	segments, _, control := job(t)
	colour := regexp.MustCompile(`\x1b\[([0-9]+;)*[34][0-7][;m]`)
	x := newTerminal(t, segments, "NO_COLOR=1")
	x.top("")
	x.until("3 running")
	touch(t, control, "hang")
	x.until("1 late")
	if screen := x.tmux("capture-pane", "-p", "-e"); colour.MatchString(screen) {
		t.Errorf("colour despite NO_COLOR: %q", screen)
	}
	x.keys("q")
	x.until("status 0")

	x.types("clear; unset NO_COLOR")
	x.top("")
	x.until("1 late")
	if screen := x.tmux("capture-pane", "-p", "-e"); !colour.MatchString(screen) {
		t.Errorf("no colour at all: %q", screen)
	}
	x.keys("q")
	x.until("status 0")

	x.types("clear; TERM=dumb " + mpitrace + " top --once; echo status $?")
	// not the status of the one before, which is there until the screen is cleared
	if screen := x.until("(?s)MPI_Allreduce steps.c:.*status 0"); strings.Contains(screen, "q quit") {
		t.Errorf("%s", screen)
	}
	x.types("clear; " + mpitrace + " top --once | cat; echo status $?")
	x.until("(?s)MPI_Allreduce steps.c:.*status 0")
	touch(t, control, "stop")
}

// TestPanic: the terminal is restored when the program panics while it reads.
func TestPanic(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	x := newTerminal(t, t.TempDir())
	before := x.state()
	// bubbletea writes what it caught, and the stack, while its Run returns: in any order
	x.types("clear; TERMINAL_TEST_PANIC=1 " + self + " 2>&1 >/dev/tty | grep -o 'it was panicking.*'; echo ''status $?")
	x.until("0 jobs running")
	x.keys("J")
	x.until("it was panicking: top: ")
	if after := x.state(); after != before {
		t.Errorf("the terminal was\n%s\nand is\n%s", before, after)
	}
}

// panicky is a Source that panics when it reads for the second time.
type panicky struct {
	*top.Segments
	read int
}

func (p *panicky) Jobs() ([]top.Found, []string) {
	if p.read++; p.read > 3 {
		panic("as the test wants")
	}
	return p.Segments.Jobs()
}

// panicking is the test binary as a program that panics in its terminal.
func panicking() {
	_, _, err := top.Run(&panicky{Segments: top.NewSegments(nil)}, top.Options{Interval: time.Second}, top.Terminal{In: os.Stdin, Out: os.Stdout, Env: os.Environ()})
	fmt.Fprintln(os.Stderr, "it was panicking:", err)
}
