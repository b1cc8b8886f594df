package microbench

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mpitrace/mpitrace/internal/launch"
)

func TestSplitWords(t *testing.T) {
	for text, want := range map[string][]string{
		"":                                nil,
		"  mpirun   --bind-to none ":      {"mpirun", "--bind-to", "none"},
		`mpirun -x 'A=b c' "d \" e" f\ g`: {"mpirun", "-x", "A=b c", `d " e`, "f g"},
		`mpirun '' x`:                     {"mpirun", "", "x"},
		`a'b'"c"`:                         {"abc"},
	} {
		if got, err := splitWords(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
	}
	for _, text := range []string{`a 'b`, `a "b`, `a\`} {
		if got, err := splitWords(text); err == nil {
			t.Errorf("%q was taken as %q", text, got)
		}
	}
}

// programs puts empty executables into a directory that is all of PATH.
func programs(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir)
	return dir
}

func TestFindLauncher(t *testing.T) {
	programs(t, "mpirun.openmpi", "mpirun.mpich", "other", "sbatch")
	l, err := findLauncher("mpirun.openmpi --bind-to core")
	if err != nil || l.kind != launch.OpenMPI || !l.given {
		t.Errorf("%+v, %v", l, err)
	}
	if l, err = findLauncher(""); err != nil || l.words[0] != "mpirun.openmpi" || l.given {
		t.Errorf("%+v, %v", l, err)
	}
	for text, why := range map[string]string{
		"mpirun.mpich -n 4": "--ranks", "mpirun.openmpi -np 2": "--ranks", "missing": "not found",
		"other": "not a launcher", "sbatch": "queues", "mpirun.mpich 'x": "quote",
	} {
		if _, err := findLauncher(text); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: %v, want it to say %q", text, err, why)
		}
	}
	programs(t)
	if _, err := findLauncher(""); err == nil {
		t.Error("a launcher was found where there is none")
	}
}

func TestCompiler(t *testing.T) {
	dir := programs(t, "mpirun.openmpi", "mpirun.mpich", "mpiexec.hydra", "mpicc", "mpicc.mpich", "gcc")
	for launcher, want := range map[string]string{
		"mpirun.mpich": "mpicc.mpich", "mpiexec.hydra": "mpicc.mpich", "mpirun.openmpi": "mpicc",
	} {
		l, err := findLauncher(launcher)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := l.compiler(""); err != nil || got != filepath.Join(dir, want) {
			t.Errorf("compiler of %s: %s, %v, want %s", launcher, got, err, want)
		}
	}
	l := launcher{path: filepath.Join(dir, "mpirun.mpich")}
	if got, err := l.compiler("gcc"); err != nil || filepath.Base(got) != "gcc" {
		t.Errorf("--cc gcc: %s, %v", got, err)
	}
	if _, err := l.compiler("icc"); err == nil {
		t.Error("a missing compiler was taken")
	}
}

func TestCommand(t *testing.T) {
	own := launcher{words: []string{"mpirun"}, kind: launch.OpenMPI}
	if got := strings.Join(own.command(cores()+1, "p", []string{"--x", "1"}), " "); !strings.Contains(got, "--oversubscribe") {
		t.Errorf("more ranks than cores without --oversubscribe: %s", got)
	}
	given := launcher{words: []string{"mpirun", "-H", "a"}, kind: launch.OpenMPI, given: true}
	if got := strings.Join(given.command(2, "p", []string{"--x", "1"}), " "); got != "mpirun -H a -n 2 p --x 1" {
		t.Error(got)
	}
	if own.crowded(cores()) != "" || !strings.Contains(launcher{kind: launch.Hydra}.crowded(cores()+1), "never yields") {
		t.Error("a warning belongs to more ranks than cores, and only there")
	}
}

func TestComplaint(t *testing.T) {
	noise := "-----\nmpirun noticed\n[host:1] bench reuse: rank 1: wrong data: x\nmore"
	if got := complaint(noise, ""); got != "bench reuse: rank 1: wrong data: x" {
		t.Error(got)
	}
	if got := complaint("", "-----\n first \nsecond"); got != "first" {
		t.Error(got)
	}
}
