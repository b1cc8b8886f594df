package fabric

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/mpitrace/mpitrace/test/mpijob"
)

// standIns are libraries in place of those of a system with RDMA devices.
type standIns struct{ dir, system, devices string }

func makeStandIns(t *testing.T) standIns {
	t.Helper()
	if _, err := os.Stat("/usr/include/infiniband/verbs.h"); err != nil {
		mpijob.Need(t, mpijob.Missing("infiniband/verbs.h", "apt-get install -y libibverbs-dev"))
	}
	dir := t.TempDir()
	s := standIns{dir, filepath.Join(dir, "system.so"), filepath.Join(dir, "devices")}
	if err := os.MkdirAll(filepath.Join(s.devices, "made0"), 0o755); err != nil {
		t.Fatal(err)
	}
	compileStandIn(t, s.system, "standins/system.c", "-ldl")
	return s
}

func compileStandIn(t *testing.T, target, source string, more ...string) {
	t.Helper()
	args := append([]string{"-std=gnu11", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", source}, more...)
	if err := mpijob.Compile("gcc", target, args...); err != nil {
		t.Fatal(err)
	}
}

// libibverbs makes one that lacks a function, and returns the directory.
func (s standIns) libibverbs(t *testing.T, lacks string) string {
	t.Helper()
	dir := t.TempDir()
	script := filepath.Join(dir, "symbols")
	if err := os.WriteFile(script, []byte(fmt.Sprintf("{ global: *; local: %s; };\n", lacks)), 0o644); err != nil {
		t.Fatal(err)
	}
	compileStandIn(t, filepath.Join(dir, "libibverbs.so.1"), "standins/libibverbs.c", "-Wl,--version-script="+script)
	return dir
}

// run is mpitrace-fabric where the devices are those named in a directory, and
// libraries are looked for in another one first.
func (s standIns) run(t *testing.T, devices, libraries string, env []string, args ...string) outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, toolPrograms["plain"], args...)
	cmd.Env = append(os.Environ(), "LD_PRELOAD="+s.system, "STAND_IN_DEVICES="+devices, "LD_LIBRARY_PATH="+libraries)
	cmd.Env = append(cmd.Env, env...)
	return ended(t, ctx, cmd)
}

// listed demands a list without RDMA devices, and what is said beside it.
func listed(t *testing.T, o outcome, said string) {
	t.Helper()
	want := regexp.MustCompile(`^` + said + `$`)
	if o.status != 0 || !strings.Contains(o.out, "shm (shm)") || strings.Contains(o.out, "(verbs)") || !want.MatchString(o.errors) {
		t.Errorf("status %d, said %q, not %q\n%s", o.status, o.errors, said, o.out)
	}
}

var loaded = regexp.MustCompile(`(?m)^    X\((\w+)\)`)

// TestLibraryMissing: without libibverbs, with one that is too old and with one
// that has no devices there are no RDMA devices; what is missing is said in a line.
func TestLibraryMissing(t *testing.T) {
	s := makeStandIns(t)
	whole := s.libibverbs(t, "nothing")
	damaged := t.TempDir()
	if err := os.WriteFile(filepath.Join(damaged, "libibverbs.so.1"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Run("no devices, and the library is not looked for", func(t *testing.T) {
		listed(t, s.run(t, t.TempDir(), damaged, nil, "list"), "")
	})
	t.Run("absent", func(t *testing.T) {
		o := s.run(t, s.devices, whole, []string{"STAND_IN_LIBRARY=libibverbs-absent.so.1"}, "list")
		listed(t, o, `mpitrace fabric: libibverbs\.so\.1 cannot be loaded: libibverbs-absent\.so\.1: .*\n`)
	})
	t.Run("damaged", func(t *testing.T) {
		listed(t, s.run(t, s.devices, damaged, nil, "list"), `mpitrace fabric: libibverbs\.so\.1 cannot be loaded: .*\n`)
	})
	t.Run("without devices", func(t *testing.T) {
		listed(t, s.run(t, s.devices, whole, nil, "list"), "")
	})
	header, err := os.ReadFile(filepath.Join(root, "c/fabric/verbs/verbs.h"))
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"_ibv_query_gid_table"}
	for _, m := range loaded.FindAllStringSubmatch(string(header), -1) {
		names = append(names, "ibv_"+m[1])
	}
	if len(names) < 20 {
		t.Fatalf("functions that are loaded: %q", names)
	}
	for _, name := range names {
		t.Run("without "+name, func(t *testing.T) {
			old := s.libibverbs(t, name)
			missing := `libibverbs\.so\.1 has no ` + name + `: rdma-core 32 or newer is needed`
			listed(t, s.run(t, s.devices, old, nil, "list"), `mpitrace fabric: `+missing+`\n`)
			if name != names[0] {
				return
			}
			o := s.run(t, s.devices, old, nil, "pingpong", "--device", "made0")
			if o.status != 1 || !regexp.MustCompile(`named made0; there are: .*shm.*; `+missing).MatchString(o.errors) {
				t.Errorf("status %d, %q", o.status, o.errors)
			}
		})
	}
}
