package runtime_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mpitrace/mpitrace/internal/memmon"
	"github.com/mpitrace/mpitrace/test/mpijob"
)

// watched skips a test where nobody can watch memory, but never in CI.
func watched(t *testing.T) {
	t.Helper()
	s, err := memmon.New(memmon.Options{Socket: filepath.Join(t.TempDir(), "memmon.sock")})
	var n *memmon.NotSupportedError
	if errors.As(err, &n) {
		mpijob.Need(t, mpijob.Missing(n.What, n.Mend))
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Serve(ctx); err != nil {
		t.Fatal(err)
	}
}

// kept checks that so many ranks kept registrations.
func kept(t *testing.T, got outcome, ranks int) map[string]ledger {
	t.Helper()
	all := ledgers(t, got.result)
	if len(all) != ranks {
		t.Errorf("%d ledgers of %d ranks\n%s", len(all), ranks, got.err)
	}
	for _, l := range all {
		if l.CacheOff != "" || l.CacheWatch != "the kernel program" {
			t.Errorf("rank %d keeps no registrations, or who watches them: %q, %q\n%s", l.Rank, l.CacheOff, l.CacheWatch, got.err)
		}
	}
	return all
}

// TestCache: memory that serves for several messages is registered once for all
// of them; memory that is another one is registered anew, whatever address it
// has; and the payload is right, also of processes that fork.
func TestCache(t *testing.T) {
	watched(t)
	each(t, func(t *testing.T, m mpijob.MPI) {
		program := made(t, m, "cache")
		for name, c := range map[string]struct {
			policy, rank1     string
			hits, invalidates bool // is to be seen
			messages, most    int64
		}{
			"same":  {hits: true, messages: 120},
			"gone":  {hits: true, invalidates: true, messages: 120},
			"heap":  {hits: true, messages: 120},
			"forks": {hits: true, messages: 120},
			"many":  {policy: ",pinned=4M", messages: 128, most: 4 << 20},
			// one of two ranks shares its limit with the other
			"many, limited": {rank1: "ulimit -l 8192", messages: 128, most: 4 << 20},
		} {
			what, _, _ := strings.Cut(name, ",")
			for _, way := range []string{"", ",rndv=write", ",device=iwarp:lo"} {
				if way != "" && what != "gone" {
					continue
				}
				t.Run(name+way, func(t *testing.T) {
					got := job{m: m, options: []string{"--act=cache=on,eager-limit=16K" + c.policy + way, "--memory-monitor"}, rank1: c.rank1, program: []string{program, what}}.run(t)
					want := []string{"0: " + what + ": 0 wrong", "1: " + what + ": 0 wrong"}
					if got.status != 0 || !slices.Equal(got.out, want) || len(got.ours) > 0 {
						t.Errorf("status %d, output %q\n%s", got.status, got.out, got.err)
					}
					var sent int64
					for _, l := range kept(t, got, 2) {
						n := l.Counts
						sent += n["rendezvous_messages"]
						if n["cache_hits"]+n["cache_misses"] != c.messages || n["registrations"] != n["cache_misses"] || n["registrations_refused"] != 0 {
							t.Errorf("rank %d: %v: each message takes one that is kept or registers", l.Rank, n)
						}
						if (n["cache_regions"] == 0) != (n["cache_pinned_bytes"] == 0) || n["cache_regions"] > n["cache_registrations"] {
							t.Errorf("rank %d: %v: regions and what they pin", l.Rank, n)
						}
						if c.hits && n["cache_hits"] == 0 || c.invalidates && n["cache_invalidations"] == 0 {
							t.Errorf("rank %d: %v: the test shows nothing", l.Rank, n)
						}
						if c.most != 0 && (l.Rank == 1 || c.rank1 == "") && (n["cache_pinned_bytes"] > c.most || n["cache_evictions"] == 0) {
							t.Errorf("rank %d: %v: not within %d bytes", l.Rank, n, c.most)
						}
					}
					if sent != c.messages {
						t.Errorf("%d messages by rendezvous, not %d", sent, c.messages)
					}
				})
			}
		}
	})
}

// TestCacheOff: whatever keeps a rank from keeping registrations, that is said
// once, the ledger has it, Go is not in the process, and the job acts unharmed.
func TestCacheOff(t *testing.T) {
	watched(t)
	each(t, func(t *testing.T, m mpijob.MPI) {
		program := []string{made(t, m, "cache"), "same"}
		spy := made(t, m, "noguard", "-fPIC", "-shared", "-ldl")
		for name, c := range map[string]struct {
			policy  string
			options []string
			env     []string
			rank1   string
			preload []string
			quiet   bool   // nobody asked for it
			want    string // in ledgers; "" for rank 0 if rank1 is set
		}{
			"policy":     {policy: "cache=off", quiet: true, want: "the policy has cache=off"},
			"device":     {policy: "auto", quiet: true, want: "registering with this device costs too little"},
			"no library": {policy: "cache=on", options: []string{"--shim", without(t, "libmpishim-go.so")}, want: "libmpishim-go.so: cannot open shared object file"},
			"no filter":  {policy: "cache=on", preload: []string{spy}, want: "prctl(PR_SET_NO_NEW_PRIVS): Invalid argument"},
			"addresses":  {policy: "cache=on", rank1: "ulimit -v 3000000", want: "no 2048 MiB of address space (ulimit -v)"},
			"data":       {policy: "cache=on", rank1: "ulimit -d 260000", want: "no 256 MiB of data (ulimit -d)"},
		} {
			t.Run(name, func(t *testing.T) {
				options := append([]string{"--act=" + c.policy, "--memory-monitor"}, c.options...)
				got := job{m: m, options: options, env: c.env, rank1: c.rank1, preload: c.preload, program: program}.run(t)
				if got.status != 0 || !slices.Equal(got.out, []string{"0: same: 0 wrong", "1: same: 0 wrong"}) {
					t.Errorf("status %d, output %q\n%s", got.status, got.out, got.err)
				}
				all := ledgers(t, got.result)
				off := 0
				for _, l := range all {
					if l.Rank == 0 && c.rank1 != "" {
						continue
					}
					off++
					if !strings.Contains(l.CacheOff, c.want) || l.Counts["cache_hits"] != 0 || l.Counts["registrations"] != 120 {
						t.Errorf("rank %d: %+v", l.Rank, l)
					}
				}
				said := strings.Count(strings.Join(got.ours, "\n"), "registrations are not kept: ")
				if len(all) != 2 || off == 0 || said != 1 && !c.quiet && c.rank1 == "" || c.quiet && len(got.ours) > 0 {
					t.Errorf("%d ledgers, lines %q\n%s", len(all), got.ours, got.err)
				}
			})
		}
	})
}

// TestCacheWhileLoading: where MPI_Init is called by the constructor of a library no
// other one can be loaded meanwhile: no registrations are kept, and Go stays out.
func TestCacheWhileLoading(t *testing.T) {
	watched(t)
	each(t, func(t *testing.T, m mpijob.MPI) {
		library := made(t, m, "constructor", "-fPIC", "-shared")
		got := job{m: m, options: []string{"--act=cache=on", "--memory-monitor"}, program: []string{made(t, m, "loads", "-ldl"), library}}.run(t)
		if got.status != 0 || !slices.Equal(got.out, []string{"0: 0 wrong, Go 0", "1: 0 wrong, Go 0"}) {
			t.Errorf("status %d, output %q\n%s", got.status, got.out, got.err)
		}
		all := ledgers(t, got.result)
		for _, l := range all {
			if !strings.Contains(l.CacheOff, "no library can be loaded: one is being loaded") || l.Counts["rendezvous_messages"] == 0 {
				t.Errorf("rank %d: %+v", l.Rank, l)
			}
		}
		if len(all) != 2 {
			t.Errorf("%d ledgers\n%s", len(all), got.err)
		}
	})
}

// TestCacheUnwatched: where the kernel program was asked for and does not watch,
// libucm does, or nothing is kept; either is said once, and why.
func TestCacheUnwatched(t *testing.T) {
	each(t, func(t *testing.T, m mpijob.MPI) {
		got := job{m: m, options: []string{"--act=cache=on"}, env: []string{"MPITRACE_MEMMON_SOCKET=/nonexistent"}, program: []string{made(t, m, "cache"), "gone"}}.run(t)
		if got.status != 0 || !slices.Equal(got.out, []string{"0: gone: 0 wrong", "1: gone: 0 wrong"}) {
			t.Errorf("status %d, output %q\n%s", got.status, got.out, got.err)
		}
		for _, l := range ledgers(t, got.result) {
			off := strings.Contains(l.CacheOff, "nobody watches memory, so no registration is kept")
			ucm := strings.Contains(l.CacheWatch, "memory is watched by libucm, which does not see raw system calls (no memory monitor at /nonexistent: ")
			if off == ucm || ucm != (l.Counts["cache_hits"] > 0) || len(got.ours) != 1 {
				t.Errorf("%+v, lines %q", l, got.ours)
			}
		}
	})
}
