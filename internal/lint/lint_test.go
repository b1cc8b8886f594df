// Package lint holds the rules of the tree that a compiler does not know:
// which folder may use which, and what must not be written. It has no code,
// only tests; each rule says why.
package lint

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/mpitrace/mpitrace/"

// goArrows lists imports that must never be: package, what it must not reach,
// and why.
var goArrows = []struct{ from, to, why string }{
	{"segment", "arrival", "measurement reads the format, not the other way round"},
	{"segment", "reusetrack", "measurement reads the format, not the other way round"},
	{"segment", "report", "the format of a segment does not depend on how it is shown"},
	{"segment", "internal/launch", "reading results needs no launcher"},
	{"report", "internal/launch", "reporting works where nothing can be launched"},
	{"report", "report/page", "the model knows nothing of the page that is made from it"},
	{"report", "cmd", "commands use packages, never the other way round"},
	{"report", "report/timeline", "a report is complete without its exports"},
	{"report/timeline", "report/timeline/export", "the timeline knows no format"},
	{"report/timeline/tables", "report/timeline/perfetto", "formats do not know each other"},
	{"internal/extsort", "segment", "sorting knows nothing of what is sorted"},
	{"arrival", "report", "measurement knows nothing of how it is shown"},
	{"arrival", "reusetrack", "siblings do not know each other"},
	{"reusetrack", "arrival", "siblings do not know each other"},
	{"reusetrack", "report", "measurement knows nothing of how it is shown"},
	{"regcache", "segment", "the cache knows addresses, not what was measured"},
	{"regcache", "arrival", "siblings do not know each other"},
	{"regcache", "reusetrack", "siblings do not know each other"},
	{"regcache", "report", "a cache knows nothing of how it is shown"},
	{"regcache", "internal", "what registers and who watches are handed in"},
	{"policy", "segment", "a policy is what is asked for, not what was measured"},
	{"policy", "report", "a policy must be there before anything can be reported"},
	{"policy", "internal/launch", "a policy knows no launcher"},
	{"policy", "policy/explain", "what is asked for does not depend on what it costs"},
	{"policy/proof", "policy/explain", "what was measured does not depend on what was predicted"},
	{"policy/proof", "segment", "a trial knows times, not where they were stored"},
	{"policy/explain", "report", "costs are made of figures, not of tables"},
	{"policy", "cmd", "commands use packages, never the other way round"},
	{"exporter", "report", "metrics are made of figures, not of tables"},
	{"exporter", "internal/launch", "showing figures needs no launcher"},
	{"internal/agent", "report", "the agent hands out raw counters"},
	{"arrival", "exporter", "measurement knows nothing of how it is shown"},
	{"internal/advise", "report", "advice is made of figures, not of tables"},
	{"internal/presence", "internal/launch", "ranks report, whoever started them"},
	{"internal/presence", "policy", "ranks compare hashes, not policies"},
	{"internal/launch", "report", "a job must start and end without its report"},
	{"internal/top", "internal/launch", "watching a job needs no launcher"},
	{"report", "internal/top", "a report is made where there is no terminal"},
	{"internal/symbols", "segment", "symbols know modules and addresses, not where they were stored"},
	{"internal/libexec", "report", "finding a program knows nothing of what it does"},
	{"internal/memmon", "segment", "the monitor knows address spaces, nothing of MPI"},
	{"internal/memmon", "internal/launch", "who starts the helper is not its business"},
	{"internal/memmon", "report", "the monitor knows address spaces, nothing of MPI"},
	{"shim/regservice", "internal", "in a rank there is the cache and nothing else"},
	{"shim/regservice", "segment", "in a rank there is the cache and nothing else"},
	{"shim/regservice", "report", "in a rank there is the cache and nothing else"},
	{"internal/gen", "segment", "the generator writes the package: it cannot need it"},
}

func TestGoArrows(t *testing.T) {
	deps := map[string]string{}
	for _, a := range goArrows {
		if _, ok := deps[a.from]; !ok {
			out, err := exec.Command("go", "list", "-deps", module+a.from).CombinedOutput()
			if err != nil {
				t.Fatalf("go list -deps %s: %v\n%s", a.from, err, out)
			}
			deps[a.from] = "\n" + string(out)
		}
		if strings.Contains(deps[a.from], "\n"+module+a.to+"\n") || strings.Contains(deps[a.from], "\n"+module+a.to+"/") {
			t.Errorf("%s must not import %s: %s", a.from, a.to, a.why)
		}
	}
}

// cMay lists for each C folder the folders it may include from.
var cMay = map[string][]string{
	"include":  {"include"},
	"abi":      {"abi"},
	"probe":    {"include", "probe"},
	"gen":      {"include", "gen", "pmpi"},
	"pmpi":     {"include", "probe", "abi", "gen", "pmpi"},
	"otf2":     {"otf2"},
	"regcache": {"include", "regcache"},
	// "fabric" is what stands in c/fabric itself: provider.h and what all share
	"fabric":       {"include", "fabric", "fault"},
	"fabric/iwarp": {"include", "fabric", "soft", "iwarp"},
	"fabric/paths": {"include", "paths"},
	"fabric/soft":  {"include", "fabric", "soft"},
	"fabric/shm":   {"include", "fabric", "soft", "shm"},
	"fabric/verbs": {"include", "fabric", "verbs"},
	"fabric/fault": {"include", "fabric", "fault"},
	"fabric/tool":  {"include", "paths", "tool"},
	"memhook":      {"include", "memhook"},
	"regservice":   {"include", "regcache", "regservice"},
	// where the Go half is a library that a rank loads
	"regservice/loaded": {"regservice", "loaded"},
	"engine":            {"include", "paths", "engine"},
	"act":               {"include", "abi", "gen", "regservice", "act"},
}

var include = regexp.MustCompile(`(?m)^\s*#\s*include\s+"([^"]+)"`)

// TestCArrows follows every include of our own: lower layers reach up only
// through function pointers handed down (struct mt_ops).
func TestCArrows(t *testing.T) {
	seen := 0
	for folder, may := range cMay {
		files, err := filepath.Glob("../../c/" + folder + "/*.[ch]")
		if err != nil || len(files) == 0 {
			t.Fatalf("c/%s has no sources (%v)", folder, err)
		}
		for _, file := range files {
			text := read(t, file)
			for _, m := range include.FindAllSubmatch(text, -1) {
				seen++
				target := filepath.Base(filepath.Dir(filepath.Join(filepath.Dir(file), string(m[1]))))
				if !contains(may, target) {
					t.Errorf("%s includes %s: c/%s may use only %v", file, m[1], folder, may)
				}
			}
		}
	}
	if seen < 20 {
		t.Errorf("only %d includes seen: the pattern is wrong", seen)
	}
}

func contains(list []string, s string) bool {
	for _, l := range list {
		if l == s {
			return true
		}
	}
	return false
}

// banned patterns by the kind of file they must not stand in.
var banned = []struct {
	files   *regexp.Regexp
	pattern *regexp.Regexp
	why     string
}{
	{regexp.MustCompile(`^c/probe/.*\.[ch]$`), regexp.MustCompile(`\b(malloc|calloc|free|mmap|open|read|write|printf|pthread_\w+)\s*\(`), "the hot path neither allocates nor enters the kernel"},
	{regexp.MustCompile(`^c/(probe|include)/.*\.[ch]$`), regexp.MustCompile(`\bMPI_(Comm|Datatype|Request)\b\s+\w+[;,)]`), "MPI handles are known in pmpi/, gen/ and abi/ only"},
	{regexp.MustCompile(`^c/regcache/.*\.[ch]$`), regexp.MustCompile(`\b(malloc|calloc|free|mmap|open|read|write|printf|pthread_\w+)\s*\(`), "the table is used in signal handlers and children of fork"},
	{regexp.MustCompile(`^c/fabric/verbs/work\.c$`), regexp.MustCompile(`\b(malloc|calloc|realloc|free|\w*printf)\s*\(`), "posting and polling neither allocate nor log"},
	{regexp.MustCompile(`^c/.*\.[ch]$`), regexp.MustCompile(`IBV_ACCESS_RELAXED_ORDERING`), "any registered memory may be polled for a flag"},
	{regexp.MustCompile(`\.go$`), regexp.MustCompile(`(?m)^import "C"`), "CGO_ENABLED=0 go build ./... must pass"},
	{regexp.MustCompile(`^shim/.*\.go$`), regexp.MustCompile(`"os/signal"`), "the program's signals stay the program's"},
	{regexp.MustCompile(`\.(go|c|h)$`), regexp.MustCompile(`\b(TODO|FIXME|XX` + `X)\b`), "finish it, or write it down where it is tracked"},
	{regexp.MustCompile(`^(segment|report|exporter|internal/agent)/.*[^t]\.go$`), regexp.MustCompile(`syscall\.Mmap|unix\.Mmap`), "readers never map a file that somebody may truncate"},
}

// bridge is a file of Go that imports C: it lets tests run the table of
// c/regcache. Nothing but tests may import its package (see TestBridge).
const bridge = "c/regcache/bridge.go"

// inRank are the files of Go that C enters, in a rank. They are in archives of
// their own: no other program imports them.
var inRank = []string{"shim/regservice/regservice.go"}

func TestBannedPatterns(t *testing.T) {
	for _, file := range tracked(t) {
		if strings.Contains(file, "internal/lint/") || file == bridge || contains(inRank, file) {
			continue
		}
		var text []byte
		for _, b := range banned {
			if !b.files.MatchString(file) {
				continue
			}
			if text == nil {
				text = read(t, "../../"+file)
			}
			if m := b.pattern.Find(withoutComments(file, text)); m != nil {
				t.Errorf("%s: %q: %s", file, m, b.why)
			}
		}
	}
}

// TestVerbsHeaders: one folder knows libibverbs, so that everything else is built
// and runs where there is none.
func TestVerbsHeaders(t *testing.T) {
	header := regexp.MustCompile(`(?m)^\s*#\s*include\s+<(infiniband|rdma)/`)
	used := false
	for _, file := range tracked(t) {
		if !strings.HasSuffix(file, ".c") && !strings.HasSuffix(file, ".h") || !header.Match(read(t, "../../"+file)) {
			continue
		}
		used = true
		if filepath.Dir(file) != "c/fabric/verbs" {
			t.Errorf("%s: headers of verbs are for c/fabric/verbs only", file)
		}
	}
	if !used {
		t.Error("nobody includes infiniband/verbs.h: the pattern is wrong")
	}
}

// TestBridge: no command has C in it.
func TestBridge(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", "{{.ImportPath}} {{.Imports}}", module+"...").CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	for _, line := range strings.Split(string(out), "\n") {
		name, imports, _ := strings.Cut(line, " ")
		if strings.Contains(imports, module+filepath.Dir(bridge)) {
			t.Errorf("%s imports the test bridge", name)
		}
		for _, file := range inRank {
			if strings.Contains(imports, module+filepath.Dir(file)) && !strings.HasPrefix(name, module+"shim") {
				t.Errorf("%s imports %s, which is for ranks", name, filepath.Dir(file))
			}
		}
	}
	if !bytes.Contains(read(t, "../../"+bridge), []byte("\nimport \"C\"")) {
		t.Errorf("%s is gone: so should its exception be", bridge)
	}
}

var cComment = regexp.MustCompile(`(?s)/\*.*?\*/`)

func withoutComments(file string, text []byte) []byte {
	if strings.HasSuffix(file, ".c") || strings.HasSuffix(file, ".h") {
		return cComment.ReplaceAll(text, nil)
	}
	return text
}

// TestFileSizes keeps files readable: one thing each.
func TestFileSizes(t *testing.T) {
	const limit = 800
	generated := regexp.MustCompile(`\.gen\.|_gen\.go$|testdata/`)
	for _, file := range tracked(t) {
		if !regexp.MustCompile(`\.(go|c|h|f90)$`).MatchString(file) || generated.MatchString(file) {
			continue
		}
		if n := bytes.Count(read(t, "../../"+file), []byte("\n")); n > limit {
			t.Errorf("%s has %d lines: split it below %d", file, n, limit)
		}
	}
}

func tracked(t *testing.T) []string {
	t.Helper()
	out, err := exec.Command("git", "-C", "../..", "ls-files").Output()
	if err != nil {
		t.Fatalf("git ls-files: %v", err)
	}
	return strings.Fields(string(out))
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil // removed in the working tree
	}
	if err != nil {
		t.Fatal(err)
	}
	return text
}

var glibc = regexp.MustCompile(`GLIBC_2\.(\d+)`)

// TestShimLoadsOnOldGlibc reads the symbol versions of the built library: a
// newer one than 2.28 would stop every process of a job on an older system.
func TestShimLoadsOnOldGlibc(t *testing.T) {
	const newest = 28
	out, err := exec.Command("objdump", "-T", "../../build/libmpishim.so").Output()
	if err != nil {
		t.Fatalf("objdump -T build/libmpishim.so (make build first): %v", err)
	}
	for _, line := range strings.Split(string(out), "\n") {
		if m := glibc.FindStringSubmatch(line); m != nil {
			if n, _ := strconv.Atoi(m[1]); n > newest {
				t.Errorf("newer than GLIBC_2.%d: %s", newest, line)
			}
		}
	}
}

// TestShimContents: what only a runtime beside the shim needs is not in what
// every process loads.
func TestShimContents(t *testing.T) {
	out, err := exec.Command("nm", "../../build/libmpishim.so").Output()
	if err != nil {
		t.Fatalf("nm build/libmpishim.so (make build first): %v", err)
	}
	if !strings.Contains(string(out), " mt_attach\n") {
		t.Error("no mt_attach among the symbols: the library is stripped, this test sees nothing")
	}
	if m := regexp.MustCompile(`\bmt_regcache\w*`).Find(out); m != nil {
		t.Errorf("%s is in libmpishim.so", m)
	}
}

// TestRuntimeExports: one function leaves the runtime of act mode, it needs no
// MPI library by name, it is bound when it is loaded, not in the middle of a
// message, and there is no Go in it, whose threads take signals of the program.
func TestRuntimeExports(t *testing.T) {
	const library = "../../build/libmpishim-rt.so"
	out, err := exec.Command("nm", "-D", library).Output()
	if err != nil {
		t.Fatalf("nm %s (make build first): %v", library, err)
	}
	var defined []string
	for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		words := strings.Fields(line)
		name := words[len(words)-1]
		if len(words) == 3 {
			defined = append(defined, name)
		} else if strings.HasPrefix(name, "MPI_") || strings.HasPrefix(name, "PMPI_") {
			t.Errorf("needs %s", name)
		}
	}
	if len(defined) != 1 || defined[0] != "mt_act_start" {
		t.Errorf("exports %q, want mt_act_start", defined)
	}
	if out, err = exec.Command("readelf", "-dlSW", library).Output(); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(out), ".gopclntab") {
		t.Error("Go is in it: it is to be in build/libmpishim-go.so")
	}
	for _, want := range []string{"NOW", "NODELETE", "GNU_RELRO"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%s is missing", want)
		}
	}
}

// TestNoPath: no library names the directory that it was built in: ranks compare their
// build ids, and builds of a commit are the same wherever they are made.
func TestNoPath(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"libmpishim.so", "libmpishim-rt.so", "libmpishim-go.so", "mpitrace", "mpitrace-fabric", "mpitrace-otf2"} {
		data, err := os.ReadFile(filepath.Join(root, "build", name))
		if err != nil {
			t.Fatalf("%v (make build first)", err)
		}
		if bytes.Contains(data, []byte(root+"/")) || bytes.Contains(data, []byte(root+"\x00")) {
			t.Errorf("%s has %s in it", name, root)
		}
	}
}

// TestGoExports: what leaves the library that brings Go into a rank, and that it
// is never unloaded, for Go's threads run in it.
func TestGoExports(t *testing.T) {
	const library = "../../build/libmpishim-go.so"
	out, err := exec.Command("nm", "-D", "--defined-only", "--format=just-symbols", library).Output()
	if err != nil {
		t.Fatalf("nm %s (make build first): %v", library, err)
	}
	names := strings.Fields(string(out))
	slices.Sort(names)
	if want := "mt_regservice_core_close mt_regservice_core_open mt_regservice_core_step"; strings.Join(names, " ") != want {
		t.Errorf("exports %q, want %s", names, want)
	}
	if out, err = exec.Command("readelf", "-dlSW", library).Output(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{".gopclntab", "NOW", "NODELETE", "GNU_RELRO"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%s is missing", want)
		}
	}
}

// TestShimExports compares what the library exports with the spec: nothing of
// ours may meet a symbol of the program.
func TestShimExports(t *testing.T) {
	out, err := exec.Command("nm", "-D", "--defined-only", "../../build/libmpishim.so").Output()
	if err != nil {
		t.Fatalf("nm build/libmpishim.so (make build first): %v", err)
	}
	exported := map[string]bool{}
	for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		fields := strings.Fields(line)
		exported[fields[len(fields)-1]] = true
	}
	for name := range exported {
		if !strings.HasPrefix(name, "MPI_") && !strings.HasPrefix(name, "PMPI_") {
			t.Errorf("exports %s", name)
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^    (P?MPI_\w+);`).FindAllStringSubmatch(string(read(t, "../../c/gen/exports.map")), -1) {
		if !exported[m[1]] {
			t.Errorf("does not export %s", m[1])
		}
	}
}
