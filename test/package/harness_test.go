package packagetest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mpitrace/mpitrace/internal/version"
	"github.com/mpitrace/mpitrace/test/mpijob"
)

const (
	top   = "../.."
	limit = 5 * time.Minute
	// a build, or what has to be downloaded
	buildLimit = 15 * time.Minute
	prefix     = "/opt/mpitrace" // what the copies of the quick tests are configured for
)

// must runs a command at dir within the limit and returns its standard output.
func must(t *testing.T, dir string, env []string, argv ...string) string {
	t.Helper()
	return mustWithin(t, limit, dir, env, argv...)
}

func mustWithin(t *testing.T, limit time.Duration, dir string, env []string, argv ...string) string {
	t.Helper()
	out := outcome(t, limit, dir, env, argv...)
	if out.Status != 0 {
		t.Fatalf("%s: status %d\n%s%s", strings.Join(argv, " "), out.Status, out.Stdout, out.Stderr)
	}
	return string(out.Stdout)
}

// outcome runs a command and returns what is left of it, whatever its status.
func outcome(t *testing.T, limit time.Duration, dir string, env []string, argv ...string) mpijob.Outcome {
	t.Helper()
	p, err := mpijob.Start(limit, dir, mpijob.Environ(env...), argv, nil)
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.Wait()
	if err != nil {
		t.Fatal(err)
	}
	if out.TimedOut {
		t.Fatalf("%s: not finished after %v\n%s%s", strings.Join(argv, " "), limit, out.Stdout, out.Stderr)
	}
	return out
}

// makeTarget runs make at the top of the tree. A make that runs these tests
// must not hand its own variables down.
func makeTarget(t *testing.T, args ...string) {
	t.Helper()
	mustWithin(t, buildLimit, top, []string{"MAKEFLAGS=", "MAKELEVEL="}, append([]string{"make", "--no-print-directory"}, args...)...)
}

var installed = struct {
	sync.Once
	dir string
}{}

// install makes a copy as a packager does, in a directory that stands for
// the root of a system, and returns its prefix. Tests that change it make
// their own.
func install(t *testing.T) string {
	t.Helper()
	installed.Do(func() {
		dir, err := os.MkdirTemp("", "mpitrace-package")
		if err != nil {
			t.Fatal(err)
		}
		installed.dir = dir
		makeTarget(t, "install", "DESTDIR="+dir, "PREFIX="+prefix)
	})
	return installed.dir + prefix
}

func TestMain(m *testing.M) {
	mpijob.RestoreHangup()
	status := m.Run()
	if installed.dir != "" {
		if err := os.RemoveAll(installed.dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			status = 1
		}
	}
	os.Exit(status)
}

// files lists what is below dir, in order, but directories.
func files(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			path, err = filepath.Rel(dir, path)
			out = append(out, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(out)
	return out
}

// subcommands asks a copy of mpitrace for its commands, as a shell would.
func subcommands(t *testing.T, mpitrace string) []string {
	t.Helper()
	var out []string
	for _, line := range strings.Split(must(t, "", nil, mpitrace, "__complete", ""), "\n") {
		if name, _, ok := strings.Cut(line, "\t"); ok && name != "help" {
			out = append(out, name)
		}
	}
	if len(out) < 5 {
		t.Fatalf("only %q are offered", out)
	}
	return out
}

// packageFile is the full path of a built package.
func packageFile(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(top, "build", "mpitrace_"+version.Number+"_"+pattern))
	if err != nil || len(found) != 1 {
		t.Fatalf("build/mpitrace_%s_%s: %q, %v", version.Number, pattern, found, err)
	}
	path, err := filepath.Abs(found[0])
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// needLong skips what make test-package runs.
func needLong(t *testing.T) {
	t.Helper()
	if os.Getenv("MPITRACE_TEST_PACKAGE") != "1" {
		t.Skip(mpijob.Missing("MPITRACE_TEST_PACKAGE=1", "make test-package takes minutes, root and the network"))
	}
	if os.Geteuid() != 0 {
		t.Fatal("make test-package makes a chroot: run it as root")
	}
}
