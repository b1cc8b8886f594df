package memmon

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/cilium/ebpf"
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
	p, err := loadWith(4, false)
	needMonitor(t, err)
	defer p.close()
	if err := p.attach(); err != nil {
		t.Fatal(err)
	}
	if n := len(p.attached); n < 2*10 || n%2 != 0 {
		t.Errorf("attached to %d tracepoints, not to the begin and the end of each call", n)
	}
}
