package vm

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mpitrace/mpitrace/test/mpijob"
)

// buildCache compiles the program of test/stale that sends from the registration
// cache, and the helper that watches its memory.
func buildCache(t *testing.T, cc string, more ...string) (program, mpitrace string) {
	t.Helper()
	dir := t.TempDir()
	archive, err := mpijob.BuildService(dir)
	if err == nil {
		mpitrace, err = mpijob.BuildCommand(dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	flags := append([]string{"-O2", "-D_GNU_SOURCE", "-Wl,--wrap=mt_fabric_mr_register,--wrap=mt_fabric_mr_destroy"}, more...)
	for _, pattern := range []string{"test/stale/programs/ways_*.c", "c/regservice/*.c", "c/regcache/*.c", "c/memhook/*.c"} {
		files, err := filepath.Glob(filepath.Join(top, pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("no sources %s (%v)", pattern, err)
		}
		flags = append(flags, files...)
	}
	return compileBeside(t, cc, "cache", "test/stale/programs/cache.c", append(flags, archive)...)(t), mpitrace
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
	t.Parallel()
	program, mpitrace := buildCache(t, "gcc")
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
			expectSent(t, cacheCounts(t, way, out, 1), cycles)
		})
	}
	// with generations that never change: the check of the check
	out := g.Run(t, limitOf(15), "env", "MONITOR=blind", program, "rxe0", "munmap", "60")
	if s := cacheCounts(t, "munmap", out, 1)[0]; s.stale < 20 || s.wrong < 20 {
		t.Errorf("%+v: stale registrations do no harm here, so that nothing is proved", s)
	}
}

// overVerbs has Open MPI use the device, and nothing else: UCX 1.13 finds no peer by
// the GID of IPv4.
var overVerbs = []string{"OMPI_MCA_pml=ucx", "OMPI_MCA_pml_ucx_tls=any", "OMPI_MCA_pml_ucx_devices=any",
	"UCX_TLS=rc_verbs,ud_verbs,self", "UCX_NET_DEVICES=rxe0:1", "UCX_IB_GID_INDEX=0"}

// TestCacheMPI: ranks whose MPI registers the same memory with the same device as
// the cache does, and follows it by itself: its messages have no other way.
func TestCacheMPI(t *testing.T) {
	if !*long {
		return // asked for by make test-vm
	}
	const cycles = 100
	openmpi := mpijob.All[0]
	mpijob.Need(t, openmpi.Missing())
	program, mpitrace := buildCache(t, openmpi.CC, "-DSTALE_MPI=1")
	g := Boot(t, Options{CPUs: 1}) // as in TestCache
	for _, c := range []struct{ way, monitor string }{
		{"munmap", "ebpf"}, {"malloc", "ebpf"}, {"realloc", "ebpf"}, {"dontneed", "ebpf"}, {"raw-munmap", "ebpf"},
		{"munmap", "ucm"}, {"malloc", "ucm"}, {"munmap", "blind"},
	} {
		t.Run(c.way+", "+c.monitor, func(t *testing.T) {
			job := mpijob.Job{MPI: openmpi, Ranks: 2, Env: append(slices.Clone(overVerbs), "MONITOR="+c.monitor),
				Argv: []string{program, "rxe0", c.way, fmt.Sprint(cycles)}}
			out := g.Run(t, limitOf(15), append([]string{"sh", "-c", besideHelper, mpitrace}, job.Command()...)...)
			all := cacheCounts(t, c.way, out, job.Ranks)
			if c.monitor != "blind" {
				expectSent(t, all, cycles)
				return
			}
			for _, s := range all { // the check of the check
				if s.stale < 20 || s.wrong < 20 {
					t.Errorf("%+v: stale registrations do no harm here, so that nothing is proved", s)
				}
			}
		})
	}
}

// expectSent demands that nothing was stale, and that most messages went out of kept
// registrations.
func expectSent(t *testing.T, all []cacheCount, cycles int) {
	t.Helper()
	for _, s := range all {
		if s.stale != 0 || s.wrong != 0 || s.missed != 0 || s.hits < cycles*3/4 {
			t.Errorf("%+v of %d cycles: want none stale, wrong or missed, and most found", s, cycles)
		}
		t.Logf("%+v of %d cycles", s, cycles)
	}
}

type cacheCount struct{ hits, missed, stale, wrong int }

// cacheCounts is what each rank counted.
func cacheCounts(t *testing.T, way string, out mpijob.Outcome, ranks int) (all []cacheCount) {
	t.Helper()
	for line := range strings.Lines(string(out.Stdout)) {
		var cycles int
		var c cacheCount
		_, counts, _ := strings.Cut(line, way+": ") // how far another rank is may stand before it
		if n, _ := fmt.Sscanf(counts, "cycles %d hits %d missed %d stale %d wrong %d", &cycles, &c.hits, &c.missed, &c.stale, &c.wrong); n == 5 {
			all = append(all, c)
		}
	}
	if out.Status != 0 || len(all) != ranks {
		t.Fatalf("%s: status %d, %d of %d ranks told of it\n%s%s", way, out.Status, len(all), ranks, out.Stdout, out.Stderr)
	}
	return all
}
