package doctor

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestExamine: every check has a name, a grade and a finding, and says how to
// mend what is not ok.
func TestExamine(t *testing.T) {
	checks := Examine(Options{ShimError: errors.New("libmpishim.so not found"), Bases: []string{t.TempDir()}, Devices: func() ([]string, error) { return nil, nil }})
	names := map[string]bool{}
	for _, c := range checks {
		if names[c.Name] || c.Name == "" || c.Found == "" || !slices.Contains([]string{OK, Warn, Fail}, c.Grade) {
			t.Errorf("check %+v", c)
		}
		if (c.Grade == OK) != (c.Mend == "") {
			t.Errorf("check %+v: what is not ok, and only that, says how to mend it", c)
		}
		names[c.Name] = true
	}
	for _, name := range []string{"Open MPI", "MPICH family", "shim", "time source", "clock", "shared memory", "address space", "locked memory", "act mode", "act devices", "act copies"} {
		if !names[name] {
			t.Errorf("no check of %s", name)
		}
	}
	if !Failed(checks) {
		t.Error("a missing shim is no failure")
	}
}

func TestShim(t *testing.T) {
	dir := t.TempDir()
	build := func(name, source string, flags ...string) string {
		file, path := filepath.Join(dir, name+".c"), filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(source), 0o644); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("cc", append([]string{"-shared", "-fPIC", "-o", path, file}, flags...)...).CombinedOutput(); err != nil {
			t.Fatalf("cc: %v\n%s", err, out)
		}
		return path
	}
	if c := shim(Options{Shim: build("good.so", "int x;")}); c.Grade != OK {
		t.Errorf("%+v", c)
	}
	undefined := build("undefined.so", "int PMPI_Init(void); int f(void) { return PMPI_Init(); }")
	if c := shim(Options{Shim: undefined}); c.Grade != Fail || !strings.Contains(c.Found, "does not load") {
		t.Errorf("undefined symbol: %+v", c)
	}
	if c := shim(Options{Shim: filepath.Join(dir, "none.so")}); c.Grade != Fail {
		t.Errorf("missing: %+v", c)
	}
}

func TestActing(t *testing.T) {
	dir := t.TempDir()
	devices := func() ([]string, error) { return []string{"shm", "mlx5_0"}, nil }
	o := Options{Shim: filepath.Join(dir, "libmpishim.so"), Devices: devices}
	if c := actRuntime(o); c.Grade != Warn || !strings.Contains(c.Found, runtimeName+" is missing") {
		t.Errorf("%+v", c)
	}
	if err := os.WriteFile(filepath.Join(dir, runtimeName), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if c := actRuntime(o); c.Grade != OK {
		t.Errorf("%+v", c)
	}
	if c := actDevices(o); c.Grade != OK || c.Found != "shm, mlx5_0" {
		t.Errorf("%+v", c)
	}
	o.Devices = func() ([]string, error) { return nil, errors.New("is not installed") }
	if c := actDevices(o); c.Grade != Warn || c.Found != "is not installed" {
		t.Errorf("%+v", c)
	}
	scoped := Warn
	if os.Geteuid() == 0 {
		scoped = OK // the capability is above the scope
	}
	for _, c := range []struct {
		scope  string
		itself error
		want   string
	}{{"", nil, OK}, {"0\n", nil, OK}, {"1\n", nil, scoped}, {"0\n", errors.New("operation not permitted"), Warn}} {
		if got := actCopies(c.scope, c.itself); got.Grade != c.want {
			t.Errorf("scope %q, %v: %+v", c.scope, c.itself, got)
		}
	}
}

func TestInvariantTSC(t *testing.T) {
	for text, want := range map[string]bool{
		"processor : 0\nflags\t\t: fpu tsc constant_tsc nonstop_tsc\n": true,
		"flags : fpu tsc constant_tsc\n":                               false,
		"flags : fpu not_constant_tsc nonstop_tsc_x\n":                 false,
		"": false,
	} {
		if got := invariantTSC(text); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestSharedMemory(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	open := filepath.Join(dir, "open")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Mkdir(open, 0o755)); err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		bases []string
		grade string
		found string
	}{
		{[]string{filepath.Join(dir, "new")}, OK, "MiB free"},
		{[]string{file}, Fail, "not a directory of mode 0700"},
		{[]string{open}, Fail, "not a directory of mode 0700"},
		{[]string{file, filepath.Join(dir, "new")}, Warn, "new"},
		{[]string{filepath.Join(dir, "none", "new")}, Fail, "cannot be written"},
		{nil, Fail, "no base directory"},
	}
	for _, c := range cases {
		got := sharedMemory(c.bases)
		// A small disk under the test directory is worth a warning.
		if got.Grade != c.grade && !(c.grade == OK && got.Grade == Warn) || !strings.Contains(got.Found, c.found) {
			t.Errorf("%v: %+v, want %s with %q", c.bases, got, c.grade, c.found)
		}
	}
}

func TestNumber(t *testing.T) {
	for text, want := range map[string]string{
		"mpirun (Open MPI) 5.0.3\n\nReport bugs":      "5.0.3",
		"mpirun.openmpi (OpenRTE) 4.1.4":              "4.1.4",
		"HYDRA build details:\n    Version:    4.0.2": "4.0.2",
		"": "(version unknown)",
	} {
		if got := number(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestWriteText(t *testing.T) {
	var b strings.Builder
	if err := WriteText(&b, []Check{{"shim", OK, "loads", ""}, {"clock", Warn, "slow", "use another"}}); err != nil {
		t.Fatal(err)
	}
	want := "ok    shim   loads\nwarn  clock  slow\n             -> use another\n"
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
}
