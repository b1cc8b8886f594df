package timeline_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/mpitrace/mpitrace/internal/synth"
	"github.com/mpitrace/mpitrace/report/timeline"
	"github.com/mpitrace/mpitrace/segment"
)

// FuzzExport takes any bytes for the events of a rank: the promises of Writer
// hold, and no end of a message is lost.
func FuzzExport(f *testing.F) {
	j := synth.Job{ID: "fuzz", Ranks: 2}
	var whole []segment.RawEvent
	j.Trace(0, 3, func(e segment.RawEvent) { whole = append(whole, e) })
	f.Add(segment.Encode(whole...), uint64(0), uint32(1))
	f.Add(segment.Encode(whole[:5]...), uint64(7), uint32(3))
	f.Add([]byte{1, 2, 3}, uint64(0), uint32(0))
	f.Fuzz(func(t *testing.T, data []byte, dropped uint64, threads uint32) {
		if len(data) > 64<<10 {
			return // large inputs find nothing more
		}
		dir := t.TempDir()
		j.Mutate = func(rank int, s *synth.Segment) *synth.Segment {
			s.Header.ThreadsSeen = threads
			s.Threads[0].EventsDropped = dropped
			if rank == 1 {
				s.Events = whole
				return s
			}
			path := filepath.Join(dir, "node000.4000.7000"+segment.TraceFileSuffix)
			if err := os.WriteFile(path, append(segment.Encode(synth.TraceFile(&s.Header)), data...), 0o644); err != nil {
				t.Fatal(err)
			}
			return s
		}
		if err := j.Write(dir); err != nil {
			t.Fatal(err)
		}
		r := &recorder{t: t}
		s, err := timeline.Export(context.Background(), dir, r, timeline.Options{Bytes: 4 << 10, Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		if uint64(len(r.messages)) != s.Messages.Matched || uint64(len(r.calls)) != s.Calls {
			t.Errorf("%d messages and %d calls, the summary says %d and %d", len(r.messages), len(r.calls), s.Messages.Matched, s.Calls)
		}
		if s.Messages.Sends+s.Messages.Receives < 2*s.Messages.Matched+s.Messages.Duplicates {
			t.Errorf("more ends matched than there are: %+v", s.Messages)
		}
	})
}
