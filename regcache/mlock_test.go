package regcache

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mpitrace/mpitrace/test/mpijob"
)

// locked reads how many bytes of this process are locked.
func locked(t *testing.T) uint64 {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`VmLck:\s*(\d+) kB`).FindSubmatch(text)
	if m == nil {
		t.Fatal("no VmLck in /proc/self/status")
	}
	kib, _ := strconv.ParseUint(string(m[1]), 10, 64)
	return kib << 10
}

func mapped(t *testing.T, length int) []byte {
	t.Helper()
	b, err := unix.Mmap(-1, 0, length, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(b) })
	return b
}

// TestMlock: what two registrations have in common stays locked until both are
// gone.
func TestMlock(t *testing.T) {
	size := uint64(os.Getpagesize())
	b := mapped(t, int(8*size))
	at := Address(b)
	m := NewMlock()
	before := locked(t)
	expect := func(what string, pages uint64) {
		t.Helper()
		if got := locked(t) - before; got != pages*size {
			t.Errorf("%s: %d pages are locked, want %d", what, got/size, pages)
		}
	}
	register := func(first, n uint64) Handle {
		t.Helper()
		h, err := m.Register(at+first*size, n*size)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	left := register(0, 4)
	right := register(3, 4)
	expect("two", 7)
	m.Deregister(left)
	expect("the right one", 4)
	inner := register(4, 1)
	m.Deregister(right)
	expect("the inner one", 1)
	m.Deregister(inner)
	m.Deregister(inner)
	expect("none", 0)
}

// TestMemlockLimit meets the limit of the operating system, without the
// privilege to ignore it: room is made, and what can never fit is refused.
func TestMemlockLimit(t *testing.T) {
	runtime.LockOSThread() // and never unlocked: the thread ends with the test
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	if err := unix.Capget(&header, &caps[0]); err != nil {
		t.Fatal(err)
	}
	caps[0].Effective &^= 1 << unix.CAP_IPC_LOCK
	if err := unix.Capset(&header, &caps[0]); err != nil {
		t.Fatal(err)
	}
	const limit = 64 << 10
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &old); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: limit, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Setrlimit(unix.RLIMIT_MEMLOCK, &old) }()
	for chosen, want := range map[uint64]uint64{1 << 30: limit / 2, 4096: 4096} {
		if got, err := Bounded(chosen); err != nil || got != want {
			t.Errorf("of %d bytes that were chosen: %d, want %d (%v)", chosen, got, want, err)
		}
	}

	var watched Generations
	c, err := NewCore(Options{Registrar: NewMlock(), MaxBytes: 1 << 30, Generations: func() *Generations { return &watched }})
	if err != nil {
		t.Fatal(err)
	}
	b := mapped(t, 8*limit)
	for i := range uint64(8) {
		r, err := c.Acquire(Address(b)+i*limit, limit/2)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Release(r); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Acquire(Address(b), 2*limit); !refusedFor(err, Memlock) {
		t.Errorf("twice the limit: %v", err)
	}
	if s := c.Stats(); s.Evictions == 0 || s.PinnedBytes > limit {
		t.Errorf("beyond the limit: %+v", s)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// TestBoundedRootless: in a user namespace of its own a process has CAP_IPC_LOCK and
// is bounded all the same, and so is what it is told that it may pin.
func TestBoundedRootless(t *testing.T) {
	const limit = 64 << 10
	if os.Getenv("ROOTLESS") == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestBoundedRootless$", "-test.v")
		cmd.Env = append(os.Environ(), "ROOTLESS=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
		}
		out, err := cmd.CombinedOutput()
		if errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EINVAL) {
			mpijob.Need(t, mpijob.Missing("user namespaces", "sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone"))
		}
		if err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mlock(mapped(t, 2*limit)); err == nil {
		t.Fatal("twice the limit was locked: the test shows nothing")
	}
	if got, err := Bounded(1 << 30); err != nil || got != limit/2 {
		t.Errorf("%d bytes, want %d (%v)", got, limit/2, err)
	}
}
