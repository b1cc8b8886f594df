package stale

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mpitrace/mpitrace/test/mpijob"
)

// devices of the fabric that are on every machine.
var devices = []string{"shm", "iwarp:lo"}

// buildCache compiles programs/cache.c with the whole registration cache, Go
// included, and the fabric.
func buildCache(t *testing.T, cc string, flags ...string) string {
	t.Helper()
	need(t, mpijob.Tools("gcc libopenmpi-dev libmpich-dev", cc))
	dir := t.TempDir()
	exe := filepath.Join(dir, "cache")
	archive, err := mpijob.BuildService(dir)
	if err != nil {
		t.Fatal(err)
	}
	args := append(flags, "-Wl,--wrap=mt_fabric_mr_register,--wrap=mt_fabric_mr_destroy", "programs/cache.c")
	for _, pattern := range []string{"programs/ways_*.c", "../../c/regservice/*.c", "../../c/regcache/*.c", "../../c/fabric/*.c", "../../c/fabric/[^t]*/*.c"} {
		files, err := filepath.Glob(pattern) // c/fabric/tool is a program of its own
		if err != nil || len(files) == 0 {
			t.Fatalf("no sources %s (%v)", pattern, err)
		}
		args = append(args, files...)
	}
	compile(t, cc, exe, append(args, archive)...)
	return exe
}

// sent is what a way of losing memory did to messages.
type sent struct {
	cycles, hits, missed, stale, wrong int
	most, refused                      int // bytes registered at once, requests
	noiseHits, noiseStale              int
	monitor                            string // who watched
}

// send goes a way; n is less than of the ways alone, for each cycle waits for
// another thread, and for a message.
func send(t *testing.T, exe, device, way string, n int, env ...string) sent {
	t.Helper()
	return sending(t, device, way, n, mpijob.Environ(env...), exe, device, way, fmt.Sprint(n))[0]
}

// sending runs a command that goes a way, in one process or in ranks, and logs
// what it did.
func sending(t *testing.T, device, way string, n int, env []string, argv ...string) (all []sent) {
	t.Helper()
	p, err := mpijob.StartTelling(limit, env, argv)
	if err != nil {
		t.Fatal(err)
	}
	o, err := p.Wait()
	if err != nil {
		t.Fatal(err)
	}
	if o.Status == unsupported {
		need(t, mpijob.Missing("a call of the kernel", string(o.Stderr)))
	}
	if o.Status != 0 || o.TimedOut {
		t.Fatalf("%q: status %d, timed out %v\n%s%s", argv, o.Status, o.TimedOut, o.Stdout, o.Stderr)
	}
	for line := range strings.Lines(string(o.Stdout)) {
		var s sent
		_, counts, found := strings.Cut(line, way+": ")
		if !found {
			continue // how far it is; of two ranks such lines may come mixed
		}
		if got, _ := fmt.Sscanf(counts, "cycles %d hits %d missed %d stale %d wrong %d most %d refused %d noise %d noise-stale %d monitor %s",
			&s.cycles, &s.hits, &s.missed, &s.stale, &s.wrong, &s.most, &s.refused, &s.noiseHits, &s.noiseStale, &s.monitor); got != 10 || s.cycles != n {
			t.Fatalf("%q", line)
		}
		t.Logf("%s: %s over %s: %+v", t.Name(), way, device, s)
		all = append(all, s)
	}
	if len(all) == 0 {
		t.Fatalf("%q printed nothing", argv)
	}
	return all
}

// cacheCycles is how often each way is gone with messages.
func cacheCycles() int { return max(*cycles/100, 50) }

// expectSent demands that nothing was stale, and that most messages went out of
// kept registrations: seven of eight cycles wait for one.
func expectSent(t *testing.T, s sent) {
	t.Helper()
	if s.stale != 0 || s.noiseStale != 0 || s.wrong != 0 {
		t.Errorf("stale or wrong: %+v", s)
	}
	if s.hits < s.cycles*3/4 || s.missed > 0 {
		t.Errorf("proves nothing: %+v", s)
	}
}

// TestCache: messages from registrations of the whole cache, over each device,
// while memory is lost in every way that the kernel monitor sees.
func TestCache(t *testing.T) {
	t.Parallel()
	socket, exe := helper(t), buildCache(t, "gcc")
	noise := 0
	for _, device := range devices {
		for _, way := range without(ways(t, exe), notByKernel...) {
			t.Run(device+" "+way, func(t *testing.T) {
				s := send(t, exe, device, way, cacheCycles(), "SOCKET="+socket)
				expectSent(t, s)
				noise += s.noiseHits
			})
		}
	}
	if noise == 0 {
		t.Error("the second thread found nothing registered")
	}
}

// TestCacheControl: without a monitor that sees it each way leads to messages
// from stale registrations.
func TestCacheControl(t *testing.T) {
	t.Parallel()
	exe := buildCache(t, "gcc")
	for _, device := range devices {
		for _, way := range []string{"munmap", "malloc", "realloc", "dontneed", "thread", "raw-munmap"} {
			t.Run(device+" "+way, func(t *testing.T) {
				if s := send(t, exe, device, way, 100, "MONITOR=blind"); s.stale < 30 {
					t.Errorf("%+v: few are stale", s)
				}
			})
		}
	}
}

// TestCacheLibucm: as libucm is documented, and no better.
func TestCacheLibucm(t *testing.T) {
	t.Parallel()
	exe := buildCache(t, "gcc")
	need(t, libucs())
	for _, device := range devices {
		for _, way := range append(slices.Clone(byLibucm), "raw-munmap") {
			t.Run(device+" "+way, func(t *testing.T) {
				s := send(t, exe, device, way, cacheCycles(), "MONITOR=ucm")
				if !slices.Contains(byLibucm, way) {
					if s.stale == 0 {
						t.Errorf("%+v: libucm sees it after all", s)
					}
					return
				}
				expectSent(t, s)
			})
		}
	}
}

// TestCacheUnwatched: nobody watches, so nothing is handed out.
func TestCacheUnwatched(t *testing.T) {
	s := send(t, buildCache(t, "gcc"), "shm", "munmap", 10, "MONITOR=none", "PATIENCE=200")
	if s.hits != 0 || s.noiseHits != 0 || s.most != 0 || s.missed == 0 {
		t.Errorf("%+v: want no hits and nothing registered", s)
	}
}

// TestCacheMemlock: two ranks of a node may lock 64 KiB: each keeps to its half,
// what is larger is refused, and what fits is served.
func TestCacheMemlock(t *testing.T) {
	t.Parallel()
	socket, exe := helper(t), buildCache(t, "gcc")
	for _, device := range devices {
		t.Run(device, func(t *testing.T) {
			s := send(t, exe, device, "munmap", 60, "SOCKET="+socket, "MEMLOCK=65536", "RANKS=2", "PATIENCE=200")
			if s.most > 65536/2 || s.refused == 0 || s.hits < 10 || s.missed == 0 || s.stale != 0 || s.wrong != 0 {
				t.Errorf("%+v: want at most 32768 bytes registered, some requests refused and some served", s)
			}
		})
	}
}

// TestCacheMPI: in ranks of MPI jobs whose MPI registers the same memory, and
// follows it by itself: with UCX below.
func TestCacheMPI(t *testing.T) {
	socket := helper(t)
	need(t, libucs())
	for _, mpi := range mpijob.All {
		t.Run(mpi.Name, func(t *testing.T) {
			need(t, mpi.Missing())
			exe, ranks := buildCache(t, mpi.CC, "-DSTALE_MPI=1"), twoRanks(t, mpi)
			for i, way := range []string{"munmap", "malloc", "realloc", "trim", "dontneed", "thread", "raw-munmap", "raw-mremap"} {
				n := cacheCycles()
				for _, s := range cacheJob(t, ranks, exe, devices[i%2], way, n, "SOCKET="+socket) {
					expectSent(t, s)
				}
				if !slices.Contains(byLibucm, way) {
					continue
				}
				for _, s := range cacheJob(t, ranks, exe, devices[1-i%2], way, n, "MONITOR=ucm") {
					expectSent(t, s)
				}
			}
		})
	}
}

// cacheJob goes a way in two ranks.
func cacheJob(t *testing.T, j mpijob.Job, exe, device, way string, n int, env ...string) []sent {
	t.Helper()
	j.Argv = []string{exe, device, way, fmt.Sprint(n)}
	j.Env = append(slices.Clone(j.Env), env...)
	all := sending(t, device, way, n, mpijob.Environ(), j.Command()...)
	if len(all) != 2 {
		t.Errorf("%s: %d ranks told of it, not 2", way, len(all))
	}
	return all
}
