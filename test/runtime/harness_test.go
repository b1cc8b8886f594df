// Package runtime_test checks when the runtime of act mode is loaded, whose calls
// it is given, what a job does whose ranks cannot all act, and what is seen of it
// while it runs. What the messages then do is tested in test/act.
package runtime_test

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mpitrace/mpitrace/internal/presence"
	"github.com/mpitrace/mpitrace/test/mpijob"
)

// limit bounds one run; it only serves to end a test that hangs.
const limit = 5 * time.Minute

// scratch holds what is tested: mpitrace, and copies of the libraries that make
// build left; made by TestMain.
var scratch string

func at(name string) string { return filepath.Join(scratch, name) }

func TestMain(m *testing.M) { os.Exit(mpijob.Main(m, prepare)) }

func prepare(dir string) (err error) {
	scratch = dir
	_, err = mpijob.BuildCommand(dir)
	for _, name := range libraries {
		if err == nil {
			_, err = mpijob.CopyBuilt(dir, name)
		}
	}
	return err
}

var libraries = []string{"libmpishim.so", "libmpishim-rt.so", "libmpishim-go.so"}

// need ends a test for which something is missing.
func need(t *testing.T, m mpijob.MPI) {
	t.Helper()
	mpijob.Need(t, m.Missing())
	for _, name := range libraries {
		if _, err := os.Stat(at(name)); err != nil {
			mpijob.Need(t, mpijob.Missing("build/"+name, "make build"))
		}
	}
}

// made compiles a file of testdata once for each MPI: a program, or with more
// flags what they make of it.
func made(t *testing.T, m mpijob.MPI, name string, flags ...string) string {
	t.Helper()
	need(t, m)
	path := at(name + "." + m.Name)
	if _, err := os.Stat(path); err == nil {
		return path
	}
	args := append([]string{"-g", "-O1", "-Wall", "testdata/" + name + ".c"}, flags...)
	if err := mpijob.Compile(m.CC, path, append(args, "-lpthread")...); err != nil {
		t.Fatal(err)
	}
	return path
}

// counter is the runtime that counts.
func counter(t *testing.T, m mpijob.MPI) string {
	return made(t, m, "count", "-fPIC", "-shared")
}

// outcome is what a job printed and how it ended.
type outcome struct {
	status      int
	out         []string // lines, sorted, for ranks print when they like
	ours        []string // lines of stderr that mpitrace wrote
	err         string
	act         []presence.Verdict
	observation bool // there is a result
	result      string
}

// job is how a test starts one.
type job struct {
	m       mpijob.MPI
	options []string // of mpitrace run; nil: without it
	env     []string
	rank1   string // shell commands before the program, on rank 1 only
	preload []string
	ranks   int // 2 if not given
	program []string
}

func (j job) run(t *testing.T) outcome {
	t.Helper()
	dir := t.TempDir()
	if j.ranks == 0 {
		j.ranks = 2
	}
	argv := j.program
	if j.rank1 != "" {
		script := `if [ "${OMPI_COMM_WORLD_RANK-$PMI_RANK}" = 1 ]; then ` + j.rank1 + `; fi; exec "$@"`
		argv = append([]string{"/bin/sh", "-c", script, "sh"}, argv...)
	}
	command := mpijob.Job{MPI: j.m, Ranks: j.ranks, Argv: argv, Preload: j.preload}.Command()
	result := filepath.Join(dir, "out")
	if j.options != nil {
		run := append([]string{at("mpitrace"), "run", "--shim", at("libmpishim.so"), "-o", result}, j.options...)
		command = append(append(run, "--"), command...)
	}
	return end(t, dir, result, mpijob.Environ(append([]string{"UCX_DEBUG_SIGNO=0"}, j.env...)...), command)
}

func end(t *testing.T, dir, result string, env, command []string) outcome {
	t.Helper()
	p, err := mpijob.Start(limit, dir, env, command, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Kill()
	got, err := p.Wait()
	if err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		t.Fatal(err)
	}
	if got.TimedOut {
		t.Errorf("%q was still running after %v", command, limit)
	}
	o := outcome{status: got.Status, result: result, err: string(got.Stderr), out: strings.Split(strings.TrimSpace(string(got.Stdout)), "\n")}
	slices.Sort(o.out)
	for _, line := range strings.Split(o.err, "\n") {
		if text, ok := strings.CutPrefix(line, "mpitrace: "); ok && !strings.HasPrefix(text, "result in ") {
			o.ours = append(o.ours, text)
		}
	}
	slices.Sort(o.ours)
	var file struct{ Act []presence.Verdict }
	if text, err := os.ReadFile(filepath.Join(result, "job.json")); err == nil {
		o.observation = true
		if err := json.Unmarshal(text, &file); err != nil {
			t.Error(err)
		}
	}
	o.act = file.Act
	return o
}

// each runs a test for each MPI.
func each(t *testing.T, f func(t *testing.T, m mpijob.MPI)) {
	for _, m := range mpijob.All {
		t.Run(m.Name, func(t *testing.T) {
			need(t, m)
			f(t, m)
		})
	}
}

// without leaves a copy of the libraries in a directory of its own, without one
// of them, and returns the path of libmpishim.so.
func without(t *testing.T, missing string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range libraries {
		if name == missing {
			continue
		}
		if err := os.Link(at(name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "libmpishim.so")
}
