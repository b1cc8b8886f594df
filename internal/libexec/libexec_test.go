package libexec_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/mpitrace/mpitrace/internal/libexec"
)

// Example finds the helper beside the program.
func Example() {
	dir, err := os.MkdirTemp("", "libexec")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "mpitrace-helper"), nil, 0o755); err != nil {
		panic(err)
	}
	path, found := libexec.Find(filepath.Join(dir, "mpitrace"), "mpitrace-helper")
	fmt.Println(filepath.Base(path), found)
	// Output: mpitrace-helper true
}

// TestFind: where, in which order, and what is not a program.
func TestFind(t *testing.T) {
	top := t.TempDir()
	write := func(name string, mode os.FileMode) string {
		path := filepath.Join(top, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	want := func(step, path string) {
		t.Helper()
		got, found := libexec.Find(filepath.Join(top, "link"), "helper")
		if found != (path != "") || found && filepath.Clean(got) != path {
			t.Errorf("%s: %q, %v; want %q", step, got, found, path)
		}
	}
	self := write("bin/mpitrace", 0o755)
	if err := os.Symlink(self, filepath.Join(top, "link")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", filepath.Join(top, "path"))
	want("nowhere", "")
	write("bin/helper", 0o644)
	want("not executable", "")
	inPath := write("path/helper", 0o755)
	want("in PATH", inPath)
	libexecPath := write("libexec/mpitrace/helper", 0o755)
	want("in libexec", libexecPath)
	if err := os.Chmod(filepath.Join(top, "bin/helper"), 0o755); err != nil {
		t.Fatal(err)
	}
	want("beside", filepath.Join(top, "bin/helper"))
}
