package memmon

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// TestObjectsAreFresh compiles the program again, as go generate does, and
// compares what the kernel would be given with the committed objects.
func TestObjectsAreFresh(t *testing.T) {
	for _, arch := range []string{"x86", "arm64"} {
		dir := t.TempDir()
		object := filepath.Join(dir, "memmon.o")
		args := []string{
			"-target", "bpf", "-D__TARGET_ARCH_" + arch, "-O2", "-g", "-std=gnu11", "-ffreestanding", "-mcpu=v3",
			"-Wall", "-Wextra", "-Werror", "-I../../c/include", "-c", "bpf/memmon.bpf.c", "-o", object,
		}
		if out, err := exec.Command("clang", args...).CombinedOutput(); err != nil {
			t.Fatalf("clang: %v\n%s", err, out)
		}
		fresh, committed := describe(t, object), describe(t, "kernel_"+arch+"_bpfel_gen.o")
		if fresh != committed {
			t.Errorf("%s: the committed object is not what clang makes of bpf/: run go generate ./internal/memmon\n%s", arch, firstDifference(committed, fresh))
		}
	}
}

// describe is the text of all programs and maps of an object.
func describe(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	for _, name := range append([]string{kernelProgCallBegins, kernelProgCallEnds}, ringPrograms...) {
		p := spec.Programs[name]
		fmt.Fprintf(&b, "%s %v %v %s %s\n", name, p.Type, p.AttachType, p.AttachTo, p.License)
		for i := range p.Instructions {
			fmt.Fprintf(&b, "%v\n", p.Instructions[i])
		}
	}
	for _, name := range []string{kernelMapOwners, kernelMapPending, kernelMapSlots, kernelMapWatched} {
		m := spec.Maps[name]
		fmt.Fprintf(&b, "%s %v %d %d %d %d\n", name, m.Type, m.KeySize, m.ValueSize, m.MaxEntries, m.Flags)
		if m.InnerMap != nil {
			fmt.Fprintf(&b, "of %v %d %d %d %d\n", m.InnerMap.Type, m.InnerMap.KeySize, m.InnerMap.ValueSize, m.InnerMap.MaxEntries, m.InnerMap.Flags)
		}
	}
	return b.String()
}

func firstDifference(committed, fresh string) string {
	a, b := bytes.Split([]byte(committed), []byte("\n")), bytes.Split([]byte(fresh), []byte("\n"))
	for i := range min(len(a), len(b)) {
		if !bytes.Equal(a[i], b[i]) {
			return fmt.Sprintf("line %d: committed %q, now %q", i, a[i], b[i])
		}
	}
	return fmt.Sprintf("%d lines, now %d", len(a), len(b))
}

// TestWithoutRing: on kernels without the tracepoint of io_uring the program is
// loaded without it.
func TestWithoutRing(t *testing.T) {
	needMonitor(t, mountTracefs())
	p, err := loadWith(4, false, false)
	needMonitor(t, err)
	defer p.close()
	if err := p.attach(); err != nil {
		t.Fatal(err)
	}
	if n := len(p.attached); n < 2*10 || n%2 != 0 {
		t.Errorf("attached to %d tracepoints, not to the begin and the end of each call", n)
	}
}

// TestCopiesPinned: kernels that copy a page that was protected although it is pinned
// have the program attached to mprotect, which changes the generation of its range.
func TestCopiesPinned(t *testing.T) {
	for release, want := range map[string]bool{
		"5.15.0-204-generic": true, "5.18.19": true, "5.14.0-503.el9.x86_64": true, "4.18.0": true, "": true, "strange": true,
		"5.19.0": false, "6.1.0-56-amd64": false, "7.0-rc1": false,
	} {
		if got := copiesPinned(release); got != want {
			t.Errorf("%q: %v, want %v", release, got, want)
		}
	}
	needMonitor(t, mountTracefs())
	attachedTo := func(copies bool) (*program, int) {
		p, err := loadWith(4, false, copies)
		needMonitor(t, err)
		t.Cleanup(p.close)
		if err := p.attach(); err != nil {
			t.Fatal(err)
		}
		return p, len(p.attached)
	}
	_, without := attachedTo(false)
	p, with := attachedTo(true)
	if with < without+2 {
		t.Fatalf("attached to %d tracepoints, and to %d where mprotect matters", without, with)
	}
	const token, slot = 4242, 0
	m, err := p.open(slot, token)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	g := client{token: token, fds: []int{m.FD()}}.attach(t)
	defer func() { _ = p.release(slot, token) }()
	page, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(page) }()
	bucket := uintptr(unsafe.Pointer(&page[0])) >> shift % buckets
	before := g[bucket]
	if err := unix.Mprotect(page, unix.PROT_READ); err != nil {
		t.Fatal(err)
	}
	if g[bucket] == before {
		t.Error("a page was protected and its generation did not change")
	}
}
