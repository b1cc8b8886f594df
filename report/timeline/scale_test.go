package timeline_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/mpitrace/mpitrace/internal/synth"
	"github.com/mpitrace/mpitrace/report/timeline"
)

// counter takes an export and keeps nothing.
type counter struct {
	timeline.Writer
	messages, calls uint64
}

func (c *counter) Begin(*timeline.Job) error       { return nil }
func (c *counter) Message(*timeline.Message) error { c.messages++; return nil }
func (c *counter) Sample(*timeline.Sample) error   { return nil }
func (c *counter) BeginRank(*timeline.Rank) error  { return nil }
func (c *counter) Enter(*timeline.Call) error      { c.calls++; return nil }
func (c *counter) Leave(*timeline.Call) error      { return nil }
func (c *counter) EndRank(*timeline.Rank) error    { return nil }
func (c *counter) End(*timeline.Summary) error     { return nil }

// exportIn names the result that this process is to export, and no more.
const exportIn = "MPITRACE_TEST_EXPORT"

// TestMemory exports two traces, one eight times as large as the other, with
// small sort buffers, each in a process of its own: the larger one needs no
// more memory than the smaller, and both far less than the large trace has.
func TestMemory(t *testing.T) {
	if dir := os.Getenv(exportIn); dir != "" {
		exportHere(t, dir)
		return
	}
	peak := func(steps int) (bytes, trace int64) {
		dir := writeTraced(t, synth.Job{ID: "large", Ranks: 4}, steps)
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if info, err := e.Info(); err == nil {
				trace += info.Size()
			}
		}
		cmd := exec.Command(os.Args[0], "-test.run=^TestMemory$", "-test.v")
		cmd.Env = append(os.Environ(), exportIn+"="+dir, "TMPDIR="+t.TempDir(), "GOMEMLIMIT=40MiB")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		_, text, _ := strings.Cut(string(out), "peak ")
		text, _, _ = strings.Cut(text, " KiB")
		kib, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return kib << 10, trace
	}
	small, _ := peak(4_000)
	large, trace := peak(32_000)
	t.Logf("%d MiB of trace: %d MiB, an eighth of it: %d MiB", trace>>20, large>>20, small>>20)
	if trace < 70<<20 || large > 64<<20 || large > small+16<<20 {
		t.Errorf("a trace of %d MiB needs %d MiB, one of an eighth %d MiB", trace>>20, large>>20, small>>20)
	}
}

func exportHere(t *testing.T, dir string) {
	c := &counter{}
	s, err := timeline.Export(context.Background(), dir, c, timeline.Options{Bytes: 4 << 20})
	if err != nil || c.messages != s.Messages.Matched || c.calls != s.Calls || s.Unmatched() != 0 {
		t.Fatalf("%+v, %v", s, err)
	}
	// not the peak of getrusage, which counts the parent until exec as well
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(status), "VmHWM:")
	var kib int64
	if _, err := fmt.Sscan(text, &kib); err != nil {
		t.Fatal(err)
	}
	t.Logf("peak %d KiB", kib)
}
