package launch

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestRecognise(t *testing.T) {
	dir := t.TempDir()
	for _, file := range []string{"orterun", "mpiexec.hydra", "mpirun", "app", "prterun", "srun"} {
		if err := os.WriteFile(filepath.Join(dir, file), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	links := map[string]string{"mpirun.openmpi": "orterun", "alternative": "mpirun.openmpi", "mpiexec": "alternative", "mpirun2": "mpiexec.hydra", "mympi": "mpirun"}
	for name, to := range links {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	cases := []struct {
		name, version string
		want          Kind
	}{
		{"orterun", "", OpenMPI},
		{"prterun", "", OpenMPI},
		{"mpiexec", "", OpenMPI},
		{"mpirun2", "", Hydra},
		{"srun", "", Slurm},
		{"app", "mpirun (Open MPI) 4.1.4", Direct},
		{"mpirun", "mpirun (Open MPI) 5.0.3", OpenMPI},
		{"mpirun", "mpirun.openmpi (OpenRTE) 4.1.4", OpenMPI},
		{"mpirun", "HYDRA build details:", Hydra},
		{"mpirun", "Intel(R) MPI Library for Linux* OS, Version 2021.9", Hydra},
		{"mympi", "mpiexec (OpenRTE) 4.1.4", OpenMPI},
		{"mpirun", "GNU nothing", Direct},
	}
	for _, c := range cases {
		got := Recognise(filepath.Join(dir, c.name), func(string) string { return c.version })
		if got != c.want {
			t.Errorf("%s (%q): %s, want %s", c.name, c.version, got, c.want)
		}
	}
}

func TestJoinPreload(t *testing.T) {
	for user, want := range map[string]string{
		"": "/s.so", "/a.so": "/s.so:/a.so", "/a.so /b.so": "/s.so:/a.so:/b.so",
		"/a.so:/s.so": "/s.so:/a.so", " : ": "/s.so", "/x/libmpishim-3.1.so:/a.so": "/s.so:/a.so",
		"/a.so:libasan.so.8": "libasan.so.8:/s.so:/a.so", "/x/libclang_rt.asan-x86_64.so": "/x/libclang_rt.asan-x86_64.so:/s.so",
	} {
		if got := JoinPreload("/s.so", user); got != want {
			t.Errorf("JoinPreload(%q) = %q, want %q", user, got, want)
		}
	}
	if _, err := Make(Request{Kind: Direct, Args: []string{"x"}, Preload: "/my dir/libmpishim.so"}); err == nil || !strings.Contains(err.Error(), "symbolic link") {
		t.Errorf("a preload with a blank: %v", err)
	}
}

func TestPrepareOutput(t *testing.T) {
	dir := t.TempDir()
	made, err := PrepareOutput(filepath.Join(dir, "new"))
	if !made || err != nil {
		t.Errorf("new: %v, %v", made, err)
	}
	if made, err = PrepareOutput(filepath.Join(dir, "new")); made || err != nil {
		t.Errorf("empty: %v, %v", made, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "new", "x"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "new"):      "exists and is not empty: remove it, or choose another with -o DIR",
		filepath.Join(dir, "a", "b"):   "does not exist: make it",
		filepath.Join(dir, "new", "x"): "not a directory",
		"/proc/mpitrace":               "choose a place where you may write with -o DIR",
		filepath.Join(dir, "a\nb"):     "no line breaks",
	} {
		if _, err := PrepareOutput(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}

func TestNewJobID(t *testing.T) {
	id := NewJobID(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	if !strings.HasPrefix(id, "20260102-030405-") || len(id) > 63 {
		t.Errorf("job id %q", id)
	}
	for host, want := range map[string]string{
		"n17.cluster.org":                          "n17",
		"node,3 of 4":                              "node_3_of_4",
		"21-characters-are-all":                    "21-characters-are-all",
		"a-long-training-run-worker-0":             "a-long-train-98c9afd6",
		"a-long-training-run-worker-1.example.org": "a-long-train-99c9b169",
	} {
		if got := hostWord(host); got != want || len(got) > hostMost {
			t.Errorf("host %s: %q, want %q", host, got, want)
		}
	}
}

// build compiles a C program, with the test's own stub of an MPI library.
func build(t *testing.T, dir, output, source string, flags ...string) string {
	t.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Fatal("a C compiler is needed to make programs to look at: apt-get install gcc")
	}
	file := filepath.Join(dir, output+".c")
	if err := os.WriteFile(file, []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, output)
	args := append([]string{"-o", path, file}, flags...)
	if out, err := exec.Command(cc, args...).CombinedOutput(); err != nil {
		t.Fatalf("cc %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return path
}

func TestInspect(t *testing.T) {
	dir := t.TempDir()
	build(t, dir, "libmpi.so.40", "int MPI_Init(void){return 0;}", "-shared", "-fPIC", "-Wl,-soname,libmpi.so.40")
	build(t, dir, "libsolver.so", "int MPI_Init(void);int solve(void){return MPI_Init();}", "-shared", "-fPIC",
		filepath.Join(dir, "libmpi.so.40"), "-Wl,-rpath,$ORIGIN")
	solve := "int solve(void);int main(void){return solve();}"
	empty := "int main(void){return 0;}"
	undefined := "-Wl,--allow-shlib-undefined"
	script := filepath.Join(dir, "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		program string
		want    Visibility
		why     string
	}{
		{build(t, dir, "plain", empty), NotLinked, "is not linked with a shared MPI library"},
		{build(t, dir, "direct", "int MPI_Init(void);int main(void){return MPI_Init();}", filepath.Join(dir, "libmpi.so.40")), Linked, ""},
		{build(t, dir, "indirect", solve, "-L"+dir, "-lsolver", undefined, "-Wl,-rpath,$ORIGIN"), Linked, ""},
		{build(t, dir, "oldrpath", solve, "-L"+dir, "-lsolver", undefined, "-Wl,--disable-new-dtags,-rpath,"+dir), Linked, ""},
		{build(t, dir, "static", empty, "-static"), Unreachable, "is statically linked"},
		{build(t, dir, "staticpie", empty, "-static-pie"), Unreachable, "is statically linked"},
		{script, Unknown, ""},
		{filepath.Join(dir, "missing"), Unknown, ""},
	}
	for _, c := range cases {
		got, why := Inspect(c.program)
		if got != c.want || why != strings.TrimSpace(c.program+" "+c.why) && c.why != "" || c.why == "" && why != "" {
			t.Errorf("%s: %v %q, want %v %q", c.program, got, why, c.want, c.why)
		}
	}
}

func TestInspectSetID(t *testing.T) {
	dir := t.TempDir()
	program := build(t, dir, "app", "int main(void){return 0;}")
	if os.Geteuid() == 0 {
		if err := os.Chown(program, 65534, 65534); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(program, 0o755|os.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	want := Unreachable
	if os.Geteuid() != 0 {
		want = NotLinked // set-user-id to oneself changes nothing
	}
	if got, why := Inspect(program); got != want {
		t.Errorf("%v %q, want %v", got, why, want)
	}
}

func TestFindShim(t *testing.T) {
	dir := t.TempDir()
	for _, sub := range []string{"bin", "lib", "other"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	self := filepath.Join(dir, "bin", "mpitrace")
	_, err := FindShim("", self)
	if err == nil || !strings.Contains(err.Error(), "--shim PATH") {
		t.Errorf("missing: %v", err)
	}
	installed := build(t, filepath.Join(dir, "lib"), ShimName, "int x;", "-shared", "-fPIC")
	if got, err := FindShim("", self); got != installed || err != nil {
		t.Errorf("installed: %s, %v", got, err)
	}
	beside := build(t, filepath.Join(dir, "bin"), ShimName, "int x;", "-shared", "-fPIC")
	if got, err := FindShim("", self); got != beside || err != nil {
		t.Errorf("beside: %s, %v", got, err)
	}
	link := filepath.Join(dir, "other", "mpitrace")
	if err := errors.Join(os.WriteFile(self, nil, 0o755), os.Symlink(self, link)); err != nil {
		t.Fatal(err)
	}
	if got, err := FindShim("", link); got != beside || err != nil {
		t.Errorf("through a link: %s, %v", got, err)
	}
	for given, want := range map[string]string{
		filepath.Join(dir, "nothing"): "no such file",
		self:                          "not a shared library",
	} {
		if _, err := FindShim(given, self); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("--shim %s: %v, want %q", given, err, want)
		}
	}
}

func TestRunStatus(t *testing.T) {
	signals := Catch()
	defer signals.Stop()
	cases := []struct {
		script string
		want   int
	}{{"exit 0", 0}, {"exit 3", 3}, {"exit 200", 200}, {"kill -TERM $$", 143}, {"kill -KILL $$", 137}}
	for _, c := range cases {
		ended, err := Run([]string{"/bin/sh", "-c", c.script}, os.Environ(), signals)
		if err != nil || ended.Status() != c.want {
			t.Errorf("%s: %d, %v, want %d", c.script, ended.Status(), err, c.want)
		}
	}
	if ended, err := Run([]string{"/nonexistent/app"}, nil, signals); err == nil || ended.Status() != 127 {
		t.Errorf("missing: %d, %v", ended.Status(), err)
	}
	if _, ok := machines[runtime.GOARCH]; !ok {
		t.Errorf("no ELF machine for %s", runtime.GOARCH)
	}
}

// TestNodes: what srun's prolog notes becomes the command that reaches the
// nodes again.
func TestNodes(t *testing.T) {
	dir := t.TempDir()
	env := []string{"SLURM_NODELIST=n[1-3]", "SLURM_JOB_NUM_NODES=3", "SLURM_JOB_PARTITION=short"}
	p, err := Make(Request{Kind: Slurm, Args: []string{"srun", "-A", "physics", "-n", "8", "./app"}, Preload: "/s.so", Self: "/opt/mpitrace"})
	if err != nil {
		t.Fatal(err)
	}
	p.RecallNodes(dir)
	if got := p.Sweep("x"); got != nil {
		t.Errorf("without a note: %v", got)
	}
	if err := NoteNodes(dir, env); err != nil {
		t.Fatal(err)
	}
	p.RecallNodes(dir)
	want := "srun --ntasks-per-node=1 --mpi=none --export=ALL --quiet --immediate=30 -A physics --nodelist=n[1-3] --nodes=3 --ntasks=3 --partition=short x"
	if got := strings.Join(p.Sweep("x"), " "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("%v, %v: the note is left", entries, err)
	}
	if err := os.WriteFile(filepath.Join(dir, nodesFile), []byte("\n\n\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	q := &Plan{again: []string{"srun"}}
	if q.RecallNodes(dir); q.Sweep() != nil {
		t.Error("an empty note gives a command")
	}
}
