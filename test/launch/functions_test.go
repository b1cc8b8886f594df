package launch_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mpitrace/mpitrace/test/mpijob"
)

// TestFunctionsFound: a program that looks whether a function exists finds those of its
// MPI library and no others, whether it is linked with MPI, started by a script, or
// loads MPI by a plugin; in act mode, too. Without --shim mpitrace run chooses the
// variant of the shim.
func TestFunctionsFound(t *testing.T) {
	for _, m := range mpis {
		t.Run(m.Name, m.functionsFound)
	}
}

// TestFunctionsLeftOut: a variant of the shim that leaves out what the library has says
// so in one line, and the job is not acted on.
func TestFunctionsLeftOut(t *testing.T) {
	m, dir := mpis[1], t.TempDir() // of MPI 4.0
	program := m.program(t)
	for mode, want := range map[string]string{
		"observe": "functions that this variant of the shim leaves out (MPI_",
		"act":     "of the MPI library does not come through this variant of the shim: take libmpishim.so, by --shim",
	} {
		out := filepath.Join(t.TempDir(), "out")
		args := []string{mpitrace, "run", "--mode", mode, "--shim", filepath.Join(scratch, "libmpishim-3.1.so"), "-o", out, "--"}
		got := run(t, dir, environment(), append(args, m.launch(2, program, "ok")...)...)
		if got.status != 0 || strings.Count(got.stderr, want) != 1 {
			t.Errorf("%s: status %d, want one line with %q:\n%s", mode, got.status, want, got.stderr)
		}
		const note = "functions of this MPI library are intercepted; calls of the others are not counted"
		if report := run(t, dir, nil, mpitrace, "report", out); !strings.Contains(report.stdout, note) {
			t.Errorf("%s: the report does not say %q:\n%s", mode, note, report.stdout)
		}
	}
}

func (m mpi) functionsFound(t *testing.T) {
	m.program(t) // or skips
	dir := t.TempDir()
	linked, plugin, loader, script := filepath.Join(dir, "linked"), filepath.Join(dir, "plugin.so"), filepath.Join(dir, "loader"), filepath.Join(dir, "script")
	err := errors.Join(
		mpijob.Compile(m.CC, linked, "-g", "testdata/functions.c"),
		mpijob.Compile(m.CC, plugin, "-g", "-shared", "-fPIC", "-DPLUGIN", "testdata/functions.c"),
		mpijob.Compile("gcc", loader, "-g", "-DLOADER", "testdata/functions.c", "-ldl"),
		os.WriteFile(script, []byte("#!/bin/sh\nexec "+linked+"\n"), 0o755))
	if err != nil {
		t.Fatal(err)
	}
	native := run(t, dir, environment(), m.launch(2, linked)...)
	if native.status != 0 || !strings.Contains(native.stdout, "MPI_Send_c is") {
		t.Fatalf("native: status %d\n%s%s", native.status, native.stdout, native.stderr)
	}
	for name, words := range map[string][]string{"linked": {linked}, "script": {script}, "plugin": {loader, plugin}} {
		for _, mode := range []string{"observe", "act"} {
			t.Run(name+"/"+mode, func(t *testing.T) {
				out := filepath.Join(t.TempDir(), "out")
				command := append([]string{mpitrace, "run", "--mode", mode, "-o", out, "--"}, m.launch(2, words...)...)
				got := run(t, dir, environment(), command...)
				if got.status != 0 || got.stdout != native.stdout {
					t.Errorf("status %d, functions:\n%snative:\n%s%s", got.status, got.stdout, native.stdout, got.stderr)
				}
				wantLine(t, got, "(2 ranks, 1 node)")
			})
		}
	}
}
