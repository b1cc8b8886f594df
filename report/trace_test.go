package report

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/mpitrace/mpitrace/internal/synth"
	"github.com/mpitrace/mpitrace/segment"
)

// writeTraced writes the traced job with all but the last events of each rank
// in trace files.
func writeTraced(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	j := traced()
	whole := j.Mutate
	j.Mutate = func(rank int, s *synth.Segment) *synth.Segment {
		s = whole(rank, s)
		h := &s.Header
		head := segment.RawTraceFile{VersionMajor: segment.VersionMajor, VersionMinor: segment.VersionMinor, LayoutHash: segment.LayoutHash,
			PID: h.PID, EventBytes: 64, PIDStart: h.PIDStart, BootID: h.BootID, Node: h.Node, Job: h.Job}
		copy(head.Magic[:], "MPITRTRC")
		data := append(segment.Encode(head), segment.Encode(s.Events[:40]...)...)
		if err := os.WriteFile(filepath.Join(dir, h.NodeName()+"."+strconv.Itoa(rank)+segment.TraceFileSuffix), data, 0o644); err != nil {
			t.Fatal(err)
		}
		s.Events = s.Events[40:]
		return s
	}
	if err := j.Write(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestTraceFiles finds the same in files and segments as in segments alone.
func TestTraceFiles(t *testing.T) {
	r, err := Load(writeTraced(t), Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := load(t, traced(), Options{})
	if len(r.Problems) > 0 || r.Trace == nil || *r.Trace != *want.Trace || r.Trace.Matched != 240 {
		t.Errorf("%+v, want %+v; problems %q", r.Trace, want.Trace, r.Problems)
	}
}

// TestTraceFull: waiting that is known of a part only is not shown as all.
func TestTraceFull(t *testing.T) {
	r := load(t, traced(), Options{})
	r.Trace.Dropped = 2784
	var out strings.Builder
	if err := r.WriteText(&out, View{Width: 200}); err != nil || !strings.Contains(out.String(), "from 240 matched messages; 2,784 events were not kept") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// TestTracePlaces keeps the places of a trace without its messages.
func TestTracePlaces(t *testing.T) {
	r, err := Load(writeTraced(t), Options{placesOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Overlap) != 2 || r.Overlap[0].Messages == nil || r.Overlap[1].Messages == nil || r.Trace.Matched == 240 {
		t.Errorf("%d places, %+v", len(r.Overlap), r.Trace)
	}
}
