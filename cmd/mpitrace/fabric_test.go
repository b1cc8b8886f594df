package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFabric: arguments, output and status are the program's.
func TestFabric(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", "/usr/bin:/bin")
	self := filepath.Join(dir, "mpitrace")
	var out, errs bytes.Buffer
	if err := runFabric(self, nil, &out, &errs); err == nil || !strings.Contains(err.Error(), "not installed") {
		t.Errorf("without the program: %v", err)
	}
	script := "#!/bin/sh\necho \"got $*\"\necho complaint >&2\n[ \"$1\" = list ] || exit 2\n"
	if err := os.WriteFile(filepath.Join(dir, fabricProgram), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := runFabric(self, []string{"list", "--json"}, &out, &errs); err != nil {
		t.Error(err)
	}
	if out.String() != "got list --json\n" || errs.String() != "complaint\n" {
		t.Errorf("%q, %q", out.String(), errs.String())
	}
	var status exitStatus
	if err := runFabric(self, []string{"nonsense"}, &out, &errs); !errors.As(err, &status) || status != 2 {
		t.Errorf("status of a wrong command line: %v", err)
	}
	out.Reset()
	if status := execute([]string{"fabric", "--help"}, &out, &errs); status != 0 || !strings.Contains(out.String(), "--device PATTERNS") {
		t.Errorf("--help: %d, %s", status, out.String())
	}
}
