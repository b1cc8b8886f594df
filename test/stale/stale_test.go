package stale

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mpitrace/mpitrace/test/mpijob"
)

// notByKernel are ways that the kernel monitor does not see: what another
// process does with a shared file, and 32-bit calls, of which tracepoints of
// single system calls do not tell.
var notByKernel = []string{"file-punch-elsewhere", "raw-int80"}

func TestKernelMonitor(t *testing.T) {
	t.Parallel()
	socket, exe := helper(t), build(t, "gcc")
	for _, way := range without(ways(t, exe), notByKernel...) {
		t.Run(way, func(t *testing.T) { expectFresh(t, single(t, exe, way, 1, "SOCKET="+socket)) })
	}
	for _, way := range notByKernel {
		t.Run(way, func(t *testing.T) {
			if !slices.Contains(ways(t, exe), way) {
				if way != "raw-int80" {
					t.Fatalf("the program has no way %s", way)
				}
				t.Skip(mpijob.Missing("int 0x80", "x86, a kernel with IA32_EMULATION, and a hypervisor that passes it on"))
			}
			expectStale(t, single(t, exe, way, 1, "SOCKET="+socket))
		})
	}
}

// TestControl: with generations that never change each way leaves stale
// registrations, so that a test that finds none proves something.
func TestControl(t *testing.T) {
	t.Parallel()
	exe := build(t, "gcc")
	for _, way := range ways(t, exe) {
		t.Run(way, func(t *testing.T) {
			n := min(*cycles, 1000)
			expectStale(t, run(t, []string{"MONITOR=blind"}, exe, way, fmt.Sprint(n))[0])
		})
	}
}

// byLibucm are the ways that libucm sees: functions of libc.
var byLibucm = []string{"munmap", "huge", "dontneed", "free-advice", "malloc", "aligned", "realloc", "trim", "shmdt", "shm-remap", "file-remove", "fork", "vfork", "thread"}

// brokenByLibucm are ways that libucm (1.13) does not see, and that cannot be gone with
// it: it loses the address that mremap is to move memory to.
var brokenByLibucm = []string{"mremap-over"}

func TestLibucm(t *testing.T) {
	t.Parallel()
	exe := build(t, "gcc")
	need(t, libucs())
	for _, way := range byLibucm {
		t.Run(way, func(t *testing.T) { expectFresh(t, single(t, exe, way, 1, "MONITOR=ucm")) })
	}
	for _, way := range without(ways(t, exe), append(brokenByLibucm, byLibucm...)...) {
		t.Run(way, func(t *testing.T) {
			n := min(*cycles, 1000)
			expectStale(t, run(t, []string{"MONITOR=ucm"}, exe, way, fmt.Sprint(n))[0])
		})
	}
}

func libucs() error { return library("libucs.so.0", "libucx0") }

// library is the error that a library is not installed.
func library(name, packages string) error {
	out, err := exec.Command("/sbin/ldconfig", "-p").Output()
	if err == nil && !strings.Contains(string(out), "\t"+name+" ") {
		err = mpijob.Missing(name, "apt-get install -y "+packages)
	}
	return err
}

// TestThreads: several threads lose memory at once, with glibc from heaps of
// their own.
func TestThreads(t *testing.T) {
	t.Parallel()
	socket, exe := helper(t), build(t, "gcc")
	for _, way := range []string{"munmap", "malloc", "realloc", "trim", "dontneed", "thread", "fork", "raw-munmap", "raw-fixed"} {
		t.Run(way, func(t *testing.T) {
			c := single(t, exe, way, 4, "SOCKET="+socket)
			if c.stale != 0 || c.hits < c.cycles/2 || c.reused < c.cycles/2 {
				t.Errorf("%+v: want none stale, most reused and found", c)
			}
		})
	}
}

// allocator is one that gives memory back at once, as it does otherwise after a
// while. It copies each buffer that realloc makes larger, and does not move its
// pages as glibc's does: so many cycles are enough to have some addresses again.
type allocator struct {
	library, packages, setting string
	realloc                    int
	refusals                   map[string]string // of libucm, under an MPI or none
}

var allocators = []allocator{
	{"libjemalloc.so.2", "libjemalloc2", "MALLOC_CONF=dirty_decay_ms:0,muzzy_decay_ms:0", 1000, nil},
	// has a munmap beside libc's, of which libucm patches one, and Open MPI the other
	{"libtcmalloc_minimal.so.4", "libtcmalloc-minimal4", "TCMALLOC_AGGRESSIVE_DECOMMIT=1", 50,
		map[string]string{"": "libucm refuses to tell of events", "mpich": "libucm does not tell of every munmap"}},
}

// expectGivenBack runs the ways through an allocator: it gives memory back, and
// the monitor sees that, or libucm refuses.
func (a allocator) expectGivenBack(t *testing.T, monitor, mpi string, goes func(way string, n int, env ...string) []counts) {
	t.Helper()
	why, refused := a.refusals[mpi]
	for way, few := range map[string]int{"aligned": 1000, "malloc": 1000, "realloc": a.realloc} {
		n := *cycles
		if way == "realloc" && mpi != "" {
			n /= copied
		}
		n = max(n, few)
		for _, c := range goes(way, few, "MONITOR=blind") {
			if c.stale == 0 {
				t.Errorf("gives nothing back: %+v", c)
			}
		}
		if refused && monitor == "ucm" {
			expectRefused(t, why, goes(way, few, "MONITOR=ucm"))
			continue
		}
		for _, c := range goes(way, n, "MONITOR="+monitor) {
			if c.monitor != monitor || c.cycles != n || c.stale != 0 || c.reused == 0 || !most(c.hits, c.cycles) {
				t.Errorf("of %d cycles %+v", n, c)
			}
		}
	}
}

// copied is how many times fewer cycles of realloc are made in MPI programs, where
// it copies: there are many of them.
const copied = 10

// TestAllocators: others than glibc's.
func TestAllocators(t *testing.T) {
	t.Parallel()
	socket, exe := helper(t), build(t, "gcc")
	eachAllocator(t, "ebpf", exe, "SOCKET="+socket)
}

// TestAllocatorsLibucm: as libucm is documented with them, and no better.
func TestAllocatorsLibucm(t *testing.T) {
	t.Parallel()
	exe := build(t, "gcc")
	need(t, libucs())
	eachAllocator(t, "ucm", exe)
}

// eachAllocator goes the ways in one process, without an MPI.
func eachAllocator(t *testing.T, monitor, exe string, always ...string) {
	t.Helper()
	for _, a := range allocators {
		t.Run(a.library, func(t *testing.T) {
			need(t, library(a.library, a.packages))
			always := append(slices.Clone(always), a.setting, "LD_PRELOAD="+a.library)
			a.expectGivenBack(t, monitor, "", func(way string, n int, env ...string) []counts {
				return run(t, append(env, always...), exe, way, fmt.Sprint(n))
			})
		})
	}
}

// TestMPI: in programs whose MPI follows memory itself: Open MPI with UCX, and
// MPICH with UCX.
func TestMPI(t *testing.T) {
	socket := helper(t)
	need(t, libucs())
	for _, mpi := range mpijob.All {
		t.Run(mpi.Name, func(t *testing.T) {
			need(t, mpi.Missing())
			exe, ranks := build(t, mpi.CC, "-DSTALE_MPI=1"), twoRanks(t, mpi)
			both := []string{"munmap", "huge", "malloc", "realloc", "trim", "dontneed", "thread"}
			kernel := append(slices.Clone(both), "aligned", "shmdt", "raw-munmap", "raw-mremap", "raw-fixed", "raw-brk", "raw-process-madvise", "raw-io-uring", "file-punch")
			for _, c := range job(t, ranks, exe, kernel, *cycles, "MONITOR=ebpf", "SOCKET="+socket) {
				expectFresh(t, c)
			}
			for _, c := range job(t, ranks, exe, both, *cycles, "MONITOR=ucm") {
				expectFresh(t, c)
			}
			for _, monitor := range []string{"ebpf", "ucm"} {
				for _, c := range job(t, ranks, exe, []string{"fork"}, *cycles, "MONITOR="+monitor, "SOCKET="+socket) {
					expectFresh(t, c)
				}
			}
			for _, c := range job(t, ranks, exe, []string{"raw-munmap"}, 1000, "MONITOR=ucm") {
				expectStale(t, c)
			}
		})
	}
}

// TestMPIAllocators: in MPI programs that have another allocator than glibc's.
func TestMPIAllocators(t *testing.T) {
	socket := helper(t)
	need(t, libucs())
	for _, mpi := range mpijob.All {
		for _, a := range allocators {
			t.Run(mpi.Name+" "+a.library, func(t *testing.T) {
				need(t, mpi.Missing())
				need(t, library(a.library, a.packages))
				exe, ranks := build(t, mpi.CC, "-DSTALE_MPI=1"), twoRanks(t, mpi)
				ranks.Preload = append(ranks.Preload, a.library)
				for _, monitor := range []string{"ebpf", "ucm"} {
					a.expectGivenBack(t, monitor, mpi.Name, func(way string, n int, env ...string) []counts {
						return job(t, ranks, exe, []string{way}, n, append(env, a.setting, "SOCKET="+socket)...)
					})
				}
			})
		}
	}
}

// twoRanks is a job that lacks only its program: ranks that share processors,
// with UCX below the MPI.
func twoRanks(t *testing.T, mpi mpijob.MPI) mpijob.Job {
	t.Helper()
	j := mpijob.Job{MPI: mpi, Ranks: 2}
	if mpi.Name == "openmpi" { // and no other: it fails without
		j.Env = []string{"OMPI_MCA_pml=ucx", "OMPI_MCA_pml_ucx_tls=any", "OMPI_MCA_pml_ucx_devices=any"}
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir("../..")
	j.Preload, err = mpi.Helpers(t.TempDir())
	t.Chdir(here)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// job goes the ways in two ranks.
func job(t *testing.T, j mpijob.Job, exe string, ways []string, n int, env ...string) []counts {
	t.Helper()
	j.Argv = []string{exe, strings.Join(ways, ","), fmt.Sprint(n)}
	j.Env = append(slices.Clone(j.Env), env...)
	c := run(t, nil, j.Command()...)
	if len(c) != 2*len(ways) {
		t.Errorf("%v: %d counts, not %d", ways, len(c), 2*len(ways))
	}
	return c
}

// TestChildren: a child of fork is not watched until it asks.
func TestChildren(t *testing.T) {
	socket := helper(t)
	exe := filepath.Join(t.TempDir(), "child")
	compile(t, "gcc", exe, "programs/child.c")
	if out, err := exec.Command(exe, socket).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestExec: what was watched before exec does not matter to the new program.
func TestExec(t *testing.T) {
	socket, exe := helper(t), build(t, "gcc")
	for _, way := range []string{"munmap", "raw-munmap"} {
		expectFresh(t, single(t, exe, way, 1, "SOCKET="+socket, "EXEC=1"))
	}
}

// unshared are the words in front of a command that runs it in a process
// namespace of its own.
var unshared = []string{"unshare", "--pid", "--fork", "--mount-proc", "--kill-child"}

// TestNamespaces: processes are recognised wherever they, or the helper, run.
func TestNamespaces(t *testing.T) {
	need(t, mpijob.Tools("util-linux", "unshare"))
	socket, exe := helper(t), build(t, "gcc")
	expectFresh(t, run(t, []string{"SOCKET=" + socket}, append(unshared, exe, "munmap", "1000")...)[0])
	_, socket = command(t, unshared...)
	expectFresh(t, run(t, []string{"SOCKET=" + socket}, exe, "munmap", "1000")[0])
}

// command starts mpitrace memmon, with words in front of it.
func command(t *testing.T, front ...string) (server *exec.Cmd, socket string) {
	t.Helper()
	dir := t.TempDir()
	socket = filepath.Join(dir, "memmon.sock")
	mpitrace, err := mpijob.BuildCommand(dir)
	if err != nil {
		t.Fatal(err)
	}
	words := append(slices.Clone(front), mpitrace, "memmon", "--socket", socket)
	server = exec.Command(words[0], words[1:]...)
	expectLine(t, server, "mpitrace: memory monitor at "+socket)
	return server, socket
}

// TestHelperKilled: who is watched stays watched when the helper is killed.
func TestHelperKilled(t *testing.T) {
	helper(t) // skips where it cannot be; nobody asks this one
	server, socket := command(t)
	exe := build(t, "gcc")
	program := exec.Command(exe, "munmap", "1000")
	program.Env = append(os.Environ(), "SOCKET="+socket, "WAIT=1")
	in, err := program.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	rest := expectLine(t, program, "ready")
	if err := server.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = server.Wait()
	fmt.Fprintln(in)
	out, err := io.ReadAll(rest)
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	expectFresh(t, parse(t, string(out))[0])
}

// expectLine starts a command, waits for its first line, and returns the rest.
func expectLine(t *testing.T, cmd *exec.Cmd, want string) io.Reader {
	t.Helper()
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	r := bufio.NewReader(out)
	if line, err := r.ReadString('\n'); strings.TrimSpace(line) != want {
		t.Fatalf("%s: %q (%v), not %q", cmd, line, err, want)
	}
	return r
}
