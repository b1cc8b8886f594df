package packagetest

import (
	"bytes"
	"debug/elf"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/mpitrace/mpitrace/internal/version"
	"github.com/mpitrace/mpitrace/test/mpijob"
)

var glibcVersion = regexp.MustCompile(`GLIBC_2\.(\d+)\b`)

// newestGlibc is n of the newest GLIBC_2.n in a text.
func newestGlibc(t *testing.T, text string) int {
	t.Helper()
	newest := 0
	for _, m := range glibcVersion.FindAllStringSubmatch(text, -1) {
		n, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		newest = max(newest, n)
	}
	if newest == 0 {
		t.Fatalf("no version of glibc in %q", text)
	}
	return newest
}

// debFile is the built package, by its full path.
func debFile(t *testing.T) string { return packageFile(t, runtime.GOARCH+".deb") }

// TestDeb looks into the Debian package without installing it.
func TestDeb(t *testing.T) {
	mpijob.Need(t, mpijob.Tools("dpkg binutils", "dpkg-deb", "objdump"))
	makeTarget(t, "deb")
	deb := debFile(t)
	library := must(t, "", nil, "objdump", "-T", top+"/build/libmpishim.so")
	for field, want := range map[string]string{
		"Package": "mpitrace", "Version": version.Number, "Depends": "libc6 (>= 2." + strconv.Itoa(newestGlibc(t, library)) + ")",
	} {
		if got := strings.TrimSpace(must(t, "", nil, "dpkg-deb", "-f", deb, field)); got != want {
			t.Errorf("%s: %q, want %q", field, got, want)
		}
	}
	control := t.TempDir()
	must(t, "", nil, "dpkg-deb", "--control", deb, control)
	if got := files(t, control); !slices.Equal(got, []string{"control", "md5sums"}) {
		t.Errorf("control files %q, want no conffiles and no scripts", got)
	}
	root := t.TempDir()
	must(t, "", nil, "dpkg-deb", "--extract", deb, root)
	must(t, root, nil, "md5sum", "--check", "--quiet", control+"/md5sums")
	got := files(t, root)
	for _, file := range files(t, install(t)) {
		if optional(file) {
			continue
		}
		if strings.HasPrefix(file, "share/man/") {
			file += ".gz"
		}
		file = strings.Replace(file, "zsh/site-functions", "zsh/vendor-completions", 1)
		if file == "share/doc/mpitrace/LICENSE" {
			file = "share/doc/mpitrace/copyright"
		}
		if !slices.Contains(got, "usr/"+file) {
			t.Errorf("/usr/%s is not in the package", file)
		}
	}
	if i := slices.IndexFunc(got, func(file string) bool { return optional(strings.TrimPrefix(file, "usr/")) }); i >= 0 {
		t.Errorf("/%s is in the package, which would need more than the package says", got[i])
	}
	for _, line := range strings.Split(strings.TrimSpace(must(t, "", nil, "dpkg-deb", "--contents", deb)), "\n") {
		if mode := line[:10]; !strings.Contains(line, " root/root ") || mode[5] == 'w' || mode[8] == 'w' || mode[7] != 'r' {
			t.Errorf("owner or mode: %s", line)
		}
	}
	copyright, err := os.ReadFile(root + "/usr/share/doc/mpitrace/copyright")
	if err != nil || !strings.Contains(string(copyright), "\n 3. Neither the name") {
		t.Errorf("copyright: %v\n%s", err, copyright)
	}
}

// TestLintian: the checks of Debian find no error and nothing to warn of.
func TestLintian(t *testing.T) {
	needLong(t)
	deb := debFile(t)
	out := outcome(t, limit, "", nil, "lintian", "--allow-root", "--fail-on", "error,warning", "--display-info", "--pedantic", deb)
	t.Logf("lintian:\n%s", out.Stdout)
	if out.Status != 0 {
		t.Errorf("lintian: status %d, %s", out.Status, out.Stderr)
	}
}

// TestReproducible: two builds of the commit in different directories, with
// different habits of whoever builds, give the same packages.
func TestReproducible(t *testing.T) {
	needLong(t)
	archive := t.TempDir() + "/source.tar"
	must(t, top, nil, "git", "archive", "--output", archive, "HEAD")
	build := func(name, mask string, env ...string) map[string][]byte {
		dir := filepath.Join(t.TempDir(), name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		must(t, dir, nil, "tar", "-xf", archive)
		// the date comes from the files of the commit, as for a released archive
		mustWithin(t, buildLimit, dir, append(env, "MAKEFLAGS=", "MAKELEVEL="),
			"sh", "-c", "umask "+mask+"; unset SOURCE_DATE_EPOCH; exec make -j2 deb rpm")
		packages, err := filepath.Glob(dir + "/build/*.[dr][ep][bm]")
		if err != nil {
			t.Fatal(err)
		}
		out := map[string][]byte{}
		for _, path := range append(packages, dir+"/build/mpitrace", dir+"/build/libmpishim.so") {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Contains(text, []byte(dir)) {
				t.Errorf("%s holds the name of the directory it was built in", path)
			}
			out[filepath.Base(path)] = text
		}
		return out
	}
	first := build("a", "022", "TZ=UTC", "LC_ALL=C")
	second := build("another", "077", "TZ=Pacific/Auckland", "LC_ALL=C.UTF-8")
	for file, text := range first {
		if !bytes.Equal(text, second[file]) {
			t.Errorf("%s differs", file)
		}
	}
	if len(first) != 4 || len(second) != 4 {
		t.Errorf("built %d and %d files", len(first), len(second))
	}
}

// TestForArm64: packages for the other processor, by a cross compiler.
func TestForArm64(t *testing.T) {
	needLong(t)
	const build = "build/arm64"
	makeTarget(t, "deb", "rpm", "BUILD="+build, "GOARCH=arm64", "CC=aarch64-linux-gnu-gcc")
	base := top + "/" + build + "/mpitrace_" + version.Number
	if got := must(t, "", nil, "dpkg-deb", "-f", base+"_arm64.deb", "Architecture"); got != "arm64\n" {
		t.Errorf("the deb is for %s", got)
	}
	if got := must(t, "", nil, "rpm", "-qp", "--queryformat", "%{ARCH}", base+"_aarch64.rpm"); got != "aarch64" {
		t.Errorf("the rpm is for %s", got)
	}
	if got := must(t, "", nil, "rpm", "-qp", "--requires", base+"_aarch64.rpm"); newestGlibc(t, got) != 28 || !strings.Contains(got, "ld-linux-aarch64.so.1") {
		t.Errorf("the rpm needs %s", got)
	}
	root := t.TempDir()
	must(t, "", nil, "dpkg-deb", "--extract", base+"_arm64.deb", root)
	for _, file := range []string{"/usr/bin/mpitrace", "/usr/lib/mpitrace/libmpishim.so"} {
		f, err := elf.Open(root + file)
		if err != nil {
			t.Fatal(err)
		}
		if f.Machine != elf.EM_AARCH64 {
			t.Errorf("%s is for %v", file, f.Machine)
		}
		f.Close()
	}
}
