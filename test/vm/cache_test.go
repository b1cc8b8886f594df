package vm

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mpitrace/mpitrace/test/mpijob"
)

// buildCache compiles the program of test/stale that sends from the registration
// cache, and the helper that watches its memory.
func buildCache(t *testing.T) (program, mpitrace string) {
	t.Helper()
	dir := t.TempDir()
	archive := filepath.Join(dir, "service.a")
	if out, err := exec.Command("go", "build", "-buildmode=c-archive", "-o", archive, top+"/shim/regservice/archive").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	mpitrace, err := mpijob.BuildCommand(dir)
	if err != nil {
		t.Fatal(err)
	}
	flags := []string{"-O2", "-D_GNU_SOURCE", "-Wl,--wrap=mt_fabric_mr_register,--wrap=mt_fabric_mr_destroy"}
	for _, pattern := range []string{"test/stale/programs/ways_*.c", "c/regservice/*.c", "c/regcache/*.c", "c/memhook/*.c"} {
		files, err := filepath.Glob(filepath.Join(top, pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("no sources %s (%v)", pattern, err)
		}
		flags = append(flags, files...)
	}
	return compile(t, "cache", "test/stale/programs/cache.c", append(flags, archive)...), mpitrace
}

// besideHelper runs a command while a helper watches memory, and tells it where.
// The helper's first word is that it does.
const besideHelper = `export SOCKET=/run/memmon.sock
rm -f /run/said && mkfifo /run/said || exit
"$0" memmon --socket $SOCKET >/run/said & helper=$!
read -r word </run/said || exit
"$@"; status=$?; kill $helper; wait $helper; exit $status`

// TestCache: messages from the registration cache over a device that pins memory:
// what is stale there is data that nobody sent.
func TestCache(t *testing.T) {
	program, mpitrace := buildCache(t)
	// One processor: with two, emulated, the kernel of the guest has locked up while
	// the helper started or ended, on both; why is not known.
	g := Boot(t, Options{CPUs: 1})
	cycles, ways := 60, []string{"malloc", "dontneed", "raw-munmap"}
	if *long {
		cycles, ways = 2000, []string{"munmap", "malloc", "realloc", "trim", "dontneed", "thread", "fork", "raw-munmap", "raw-mremap"}
	}
	for _, way := range ways {
		t.Run(way, func(t *testing.T) {
			out := g.Run(t, limitOf(15), "sh", "-c", besideHelper, mpitrace, program, "rxe0", way, fmt.Sprint(cycles))
			s := cacheCounts(t, way, out)
			if s.stale != 0 || s.wrong != 0 || s.missed != 0 || s.hits < cycles*3/4 {
				t.Errorf("%+v of %d cycles: want none stale, wrong or missed, and most found", s, cycles)
			}
			t.Logf("%+v of %d cycles", s, cycles)
		})
	}
	// with generations that never change: the check of the check
	out := g.Run(t, limitOf(15), "env", "MONITOR=blind", program, "rxe0", "munmap", "60")
	if s := cacheCounts(t, "munmap", out); s.stale < 20 || s.wrong < 20 {
		t.Errorf("%+v: stale registrations do no harm here, so that nothing is proved", s)
	}
}

type cacheCount struct{ hits, missed, stale, wrong int }

func cacheCounts(t *testing.T, way string, out mpijob.Outcome) (c cacheCount) {
	t.Helper()
	for line := range strings.Lines(string(out.Stdout)) {
		var cycles int
		if n, _ := fmt.Sscanf(line, way+": cycles %d hits %d missed %d stale %d wrong %d", &cycles, &c.hits, &c.missed, &c.stale, &c.wrong); n == 5 && out.Status == 0 {
			return c
		}
	}
	t.Fatalf("%s: status %d\n%s%s", way, out.Status, out.Stdout, out.Stderr)
	return c
}
