package packagetest

import (
	"debug/elf"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mpitrace/mpitrace/internal/version"
	"github.com/mpitrace/mpitrace/test/mpijob"
)

func TestInstalledFiles(t *testing.T) {
	copied := install(t)
	got := files(t, copied)
	want := []string{
		"bin/mpitrace", "lib/mpitrace/libmpishim.so", "lib/mpitrace/libmpishim-3.1.so", "lib/mpitrace/libmpishim-4.0.so",
		"share/bash-completion/completions/mpitrace", "share/zsh/site-functions/_mpitrace",
		"share/fish/vendor_completions.d/mpitrace.fish",
		"share/doc/mpitrace/LICENSE", "share/doc/mpitrace/README.md", "share/doc/mpitrace/docs/install.md",
		"share/doc/mpitrace/third-party-licenses.txt", "share/doc/mpitrace/examples/heat.c",
		"share/mpitrace/modulefiles/mpitrace/" + version.Number,
		"share/mpitrace/modulefiles/mpitrace/" + version.Number + ".lua",
		"share/man/man1/mpitrace.1",
	}
	for _, command := range subcommands(t, copied+"/bin/mpitrace") {
		want = append(want, "share/man/man1/mpitrace-"+command+".1")
	}
	for _, file := range want {
		if !slices.Contains(got, file) {
			t.Errorf("%s is not installed", file)
		}
	}
	for _, file := range got {
		info, err := os.Stat(filepath.Join(copied, file))
		if err != nil {
			t.Fatal(err)
		}
		mode := os.FileMode(0o644)
		if strings.HasPrefix(file, "bin/") || strings.HasPrefix(file, "lib/mpitrace/") || optional(file) {
			mode = 0o755
		}
		if info.Mode() != mode || info.Size() == 0 {
			t.Errorf("%s: mode %v, %d bytes, want mode %v", file, info.Mode(), info.Size(), mode)
		}
	}
	unit, err := os.ReadFile(filepath.Join(copied, "lib/systemd/system/mpitrace-agent.service"))
	if err != nil || !strings.Contains(string(unit), "ExecStart="+prefix+"/bin/mpitrace agent ") {
		t.Errorf("the unit does not start the installed program (%v):\n%s", err, unit)
	}
	if got := must(t, "", nil, copied+"/bin/mpitrace", "--version"); got != "mpitrace version "+version.Number+"\n" {
		t.Errorf("--version: %q", got)
	}
}

// TestStripped: the installed library is the built one without its debug
// information; the build id, by which a debugger finds that, and the tables
// that exceptions are unwound by stay.
func TestStripped(t *testing.T) {
	sections := func(path string) map[string][]byte {
		f, err := elf.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		out := map[string][]byte{}
		for _, s := range f.Sections {
			if s.Type != elf.SHT_NOBITS {
				if out[s.Name], err = s.Data(); err != nil {
					t.Fatal(err)
				}
			}
		}
		return out
	}
	installed, built := sections(install(t)+"/lib/mpitrace/libmpishim.so"), sections(top+"/build/libmpishim.so")
	for _, name := range []string{".text", ".eh_frame", ".dynsym", ".note.gnu.build-id"} {
		if len(built[name]) == 0 || string(installed[name]) != string(built[name]) {
			t.Errorf("%s: %d bytes installed, %d built", name, len(installed[name]), len(built[name]))
		}
	}
	for _, name := range []string{".debug_info", ".symtab", ".comment"} {
		if len(installed[name]) > 0 || len(built[name]) == 0 {
			t.Errorf("%s: %d bytes installed, %d built", name, len(installed[name]), len(built[name]))
		}
	}
}

// TestUninstall: nothing of ours is left, and nothing of others is touched.
func TestUninstall(t *testing.T) {
	root := filepath.Join(t.TempDir(), "a root")
	others := []string{"bin/other", "share/doc/mpitrace/notes-of-the-site", "share/man/man1/other.1"}
	for _, file := range others {
		path := filepath.Join(root, "usr/local", file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // over itself
		makeTarget(t, "install", "DESTDIR="+root)
	}
	if n := len(files(t, root)); n < 20 {
		t.Fatalf("%d files are installed", n)
	}
	for range 2 { // what is gone stays gone
		makeTarget(t, "uninstall", "DESTDIR="+root)
	}
	if got := files(t, root+"/usr/local"); !slices.Equal(got, others) {
		t.Errorf("left: %q", got)
	}
	for _, dir := range []string{"lib/mpitrace", "share/mpitrace", "share/doc/mpitrace/examples"} {
		if _, err := os.Stat(filepath.Join(root, "usr/local", dir)); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", dir, err)
		}
	}
}

// heat compiles the installed example, as the documentation says.
func heat(t *testing.T, copied string) string {
	t.Helper()
	mpi := mpijob.All[0]
	mpijob.Need(t, mpi.Missing())
	program := filepath.Join(t.TempDir(), "heat")
	if err := mpijob.Compile(mpi.CC, program, "-O2", "-g", copied+"/share/doc/mpitrace/examples/heat.c", "-lm"); err != nil {
		t.Fatal(err)
	}
	return program
}

// runAndReport runs a job of two ranks with a copy of mpitrace, and requires
// its report.
func runAndReport(t *testing.T, mpitrace, program string, options ...string) {
	t.Helper()
	result := filepath.Join(t.TempDir(), "result")
	argv := append([]string{mpitrace, "run", "-o", result}, options...)
	argv = append(argv, "--", mpijob.All[0].Launcher, "--oversubscribe", "--mca", "mpi_yield_when_idle", "1", "-n", "2", program, "-n", "64", "-s", "5")
	must(t, "", nil, argv...)
	if text := must(t, "", nil, mpitrace, "report", result); !strings.Contains(text, "2 ranks on 1 node") || !strings.Contains(text, "heat.c:") {
		t.Errorf("%s: the report is\n%s", mpitrace, text)
	}
}

// TestMoved: a copy works where it was installed, where it was moved to, and
// by symbolic links as alternatives, modulefiles and views make them.
func TestMoved(t *testing.T) {
	program := heat(t, install(t))
	dir := t.TempDir()
	first, moved := filepath.Join(dir, "first"), filepath.Join(dir, "deeper", "moved")
	makeTarget(t, "install", "PREFIX="+first)
	runAndReport(t, first+"/bin/mpitrace", program)

	view := filepath.Join(dir, "view")
	for _, d := range []string{filepath.Dir(moved), view + "/bin", view + "/alternatives"} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Rename(first, moved); err != nil {
		t.Fatal(err)
	}
	links := [][2]string{
		{moved + "/bin/mpitrace", view + "/alternatives/mpitrace"},
		{"../alternatives/mpitrace", view + "/bin/mpitrace"}, // relative, and a link to a link
		{moved, dir + "/default"},                            // the whole prefix
	}
	for _, link := range links {
		if err := os.Symlink(link[0], link[1]); err != nil {
			t.Fatal(err)
		}
	}
	for _, mpitrace := range []string{moved + "/bin/mpitrace", view + "/bin/mpitrace", dir + "/default/bin/mpitrace"} {
		runAndReport(t, mpitrace, program)
	}
}

// TestBlanks: LD_PRELOAD cannot name a path with a blank; everything else works
// there, and the message says how to mend it.
func TestBlanks(t *testing.T) {
	program := heat(t, install(t))
	dir := t.TempDir()
	copied := filepath.Join(dir, "with a blank")
	makeTarget(t, "install", "PREFIX="+copied)
	mpitrace := copied + "/bin/mpitrace"
	out := outcome(t, limit, "", nil, mpitrace, "run", "--", program)
	if out.Status != 2 || !strings.Contains(string(out.Stderr), "make a symbolic link and use --shim") {
		t.Errorf("status %d, %s", out.Status, out.Stderr)
	}
	link := filepath.Join(dir, "libmpishim.so")
	if err := os.Symlink(copied+"/lib/mpitrace/libmpishim.so", link); err != nil {
		t.Fatal(err)
	}
	runAndReport(t, mpitrace, program, "--shim", link)
}

// TestNamesOfModulefiles: what modulefiles set is no unknown setting.
func TestNamesOfModulefiles(t *testing.T) {
	copied := install(t)
	program := heat(t, copied)
	shim := copied + "/lib/mpitrace/libmpishim.so"
	env := []string{"LD_PRELOAD=" + shim, "MPITRACE_SHIM=" + shim, "MPITRACE_ROOT=" + copied, "MPITRACE_OUTPUT=" + filepath.Join(t.TempDir(), "result")}
	for _, c := range []struct {
		more string
		want bool
	}{{"MPITRACE_DIR=" + copied, false}, {"MPITRACE_DIRT=1", true}} {
		out := outcome(t, limit, "", append(env, c.more), program, "-n", "64", "-s", "2")
		if got := strings.Contains(string(out.Stderr), "unknown setting"); out.Status != 0 || got != c.want {
			t.Errorf("%s: status %d, %s", c.more, out.Status, out.Stderr)
		}
	}
}

// optional says whether a file, below the prefix, is one that was built for this
// system, and that is in no package ("optional" in packaging/files).
func optional(file string) bool {
	return strings.HasPrefix(file, "libexec/mpitrace/") || file == "lib/mpitrace/libmpishim-rt.so" || file == "lib/mpitrace/libmpishim-go.so"
}

// TestList: what packaging/files gets wrong is said, with the name.
func TestList(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(dir+"/packaging", 0o755); err != nil {
		t.Fatal(err)
	}
	stage, err := filepath.Abs(top + "/packaging/stage")
	if err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"bin program $BUILD/none":  "$BUILD/none: no such file",
		"doc data packaging/*.md":  "packaging/*.md: no such file",
		"bin tool packaging/files": "kind tool is none of program, library, data",
	} {
		if err := os.WriteFile(dir+"/packaging/files", []byte(line+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		out := outcome(t, limit, dir, []string{"BUILD=b", "VERSION=1", "STRIP=strip"}, "sh", stage, dir+"/out")
		want = strings.Replace(want, "$BUILD", "b", 1)
		if out.Status == 0 || !strings.Contains(string(out.Stderr), want) {
			t.Errorf("%s: status %d, %q, want %q", line, out.Status, out.Stderr, want)
		}
	}
	const good = "# comment\n\nshare data packaging/files:$VERSION.txt\n"
	if err := os.WriteFile(dir+"/packaging/files", []byte(good), 0o600); err != nil {
		t.Fatal(err)
	}
	must(t, dir, []string{"BUILD=b", "VERSION=1", "STRIP=strip"}, "sh", stage, dir+"/out")
	if got := files(t, dir+"/out"); !slices.Equal(got, []string{"share/1.txt"}) {
		t.Errorf("staged: %q", got)
	}
}

// TestRunningJob: a new library is a new file, so that a job which has the old one
// mapped keeps it whole.
func TestRunningJob(t *testing.T) {
	copied := filepath.Join(t.TempDir(), "copy")
	makeTarget(t, "install", "PREFIX="+copied)
	path := copied + "/lib/mpitrace/libmpishim.so"
	mapped, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer mapped.Close()
	makeTarget(t, "install", "PREFIX="+copied)
	old, err := mapped.Stat()
	if err != nil {
		t.Fatal(err)
	}
	now, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if os.SameFile(old, now) || old.Size() != now.Size() {
		t.Errorf("written over: %d bytes, now %d", old.Size(), now.Size())
	}
}

// TestSpackRecipe: the recipe is Python, and asks for the Go that go.mod does.
func TestSpackRecipe(t *testing.T) {
	mpijob.Need(t, mpijob.Tools("python3", "python3"))
	recipe := top + "/packaging/spack/package.py"
	must(t, "", nil, "python3", "-c", "import ast, sys; ast.parse(open(sys.argv[1]).read())", recipe)
	text, err := os.ReadFile(recipe)
	if err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile(top + "/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(mod)
	if m == nil || !strings.Contains(string(text), `depends_on("go@`+string(m[1])+`:", type="build")`) {
		t.Errorf("go.mod says %q, the recipe is\n%s", m, text)
	}
}
