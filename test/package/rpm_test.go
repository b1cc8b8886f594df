package packagetest

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/mpitrace/mpitrace/internal/version"
)

// TestRPM installs the rpm into an empty root: what it needs, what it brings,
// that the command runs with nothing else there, and that it leaves nothing.
func TestRPM(t *testing.T) {
	needLong(t)
	dir := t.TempDir()
	older := filepath.Join(dir, "older.rpm")
	makeTarget(t, "rpm", "VERSION=0.0.9")
	must(t, top, nil, "sh", "-c", "mv build/mpitrace_0.0.9_*.rpm "+older)
	rpm := packageFile(t, map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]+".rpm")

	library := must(t, "", nil, "objdump", "-T", top+"/build/libmpishim.so")
	needs := must(t, "", nil, "rpm", "-qp", "--requires", rpm)
	if got, want := newestGlibc(t, needs), newestGlibc(t, library); got != want {
		t.Errorf("needs GLIBC_2.%d, the library does GLIBC_2.%d", got, want)
	}
	for _, need := range strings.Fields(needs) {
		if strings.Contains(need, ".so") && !strings.HasPrefix(need, "libc.so.6") && !strings.HasPrefix(need, "libdl.so.2") && !strings.HasPrefix(need, "ld-linux") {
			t.Errorf("needs %s", need)
		}
	}
	if got := must(t, "", nil, "rpm", "-qp", "--provides", rpm); strings.Contains(got, "libmpishim") {
		t.Errorf("offers its library to others: %s", got)
	}
	if got := must(t, "", nil, "rpm", "-qp", "--scripts", "--configfiles", rpm); got != "" {
		t.Errorf("has scripts or configuration: %s", got)
	}

	root := filepath.Join(dir, "root")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	inRoot := func(args ...string) []string { return append([]string{"rpm", "--root", root}, args...) }
	must(t, "", nil, inRoot("--initdb")...)
	before := outsideDatabase(files(t, root))
	if out := outcome(t, limit, "", nil, inRoot("-i", rpm)...); out.Status == 0 || !strings.Contains(string(out.Stderr), "libc.so.6(GLIBC_2.28)") {
		t.Errorf("without glibc: status %d, %s", out.Status, out.Stderr)
	}
	must(t, "", nil, inRoot("-i", "--nodeps", older)...)
	must(t, "", nil, inRoot("-U", "--nodeps", rpm)...)
	var listed []string
	for _, file := range strings.Fields(must(t, "", nil, inRoot("-ql", "mpitrace")...)) {
		if info, err := os.Stat(root + file); err != nil {
			t.Error(err)
		} else if !info.IsDir() {
			listed = append(listed, strings.TrimPrefix(file, "/"))
		}
	}
	slices.Sort(listed)
	if got := outsideDatabase(files(t, root)); !slices.Equal(got, listed) {
		t.Errorf("files after the upgrade %q, want %q", got, listed)
	}
	if want := "usr/share/mpitrace/modulefiles/mpitrace/" + version.Number; !slices.Contains(listed, want) {
		t.Errorf("no %s", want)
	}
	must(t, "", nil, inRoot("-V", "--nodeps", "mpitrace")...)
	if out, err := exec.Command("chroot", root, "/usr/bin/mpitrace", "--version").CombinedOutput(); err != nil || string(out) != "mpitrace version "+version.Number+"\n" {
		t.Errorf("in a root with nothing else: %s, %v", out, err)
	}
	must(t, "", nil, inRoot("-e", "mpitrace")...)
	if got := outsideDatabase(files(t, root)); !slices.Equal(got, before) {
		t.Errorf("left: %q", got)
	}
}

// outsideDatabase leaves out the database of rpm itself.
func outsideDatabase(list []string) []string {
	return slices.DeleteFunc(list, func(file string) bool { return strings.Contains(file, "lib/rpm/") || strings.Contains(file, ".rpmdb/") })
}
