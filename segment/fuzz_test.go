package segment_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/mpitrace/mpitrace/internal/synth"
	"github.com/mpitrace/mpitrace/segment"
)

// small is the smallest job whose segments use every kind of section.
func small() *synth.Segment {
	s := synth.Job{ID: "f", Ranks: 2}.Segment(0)
	s.Functions, s.Sites = s.Functions[:2], s.Sites[:3]
	s.Stacks = []segment.RawStack{{Depth: 2, Frames: [16]uint64{1, 2}}}
	s.Extra = synth.Act(segment.Act{Counted: true, Decisions: []segment.RawActDecision{synth.Decision(65536, 8, 1<<20, true)}})
	return s
}

// touch calls every accessor.
func touch(s *segment.Segment) {
	s.Threads()
	s.Sites()
	s.Functions()
	s.Peers()
	s.Comms()
	s.CommTotals()
	s.Types()
	s.TypeTotals()
	s.Modules()
	s.Stacks()
	s.Phases()
	s.Act()
	s.Header.RealtimeNS(s.Header.LastTicks)
}

func FuzzParse(f *testing.F) {
	parsed, err := segment.Parse("seed", small().Bytes())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(parsed.Compact())
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := segment.Parse("fuzz", data)
		if err != nil {
			return
		}
		touch(s)
		again, err := segment.Parse("compacted", s.Compact())
		if err != nil {
			t.Fatalf("a segment that was read does not survive compaction: %v", err)
		}
		touch(again)
	})
}

// chosen is the kinds of sections that the tests read by themselves.
var chosen = []uint32{segment.SectionKindComms, segment.SectionKindThread, segment.SectionKindSites}

// FuzzReadFile: what is read of some sections only is what is read of all.
func FuzzReadFile(f *testing.F) {
	good := small().Bytes()
	f.Add(good)
	f.Add(good[:len(good)-100])
	f.Add(good[:segment.SectionsOffset+100])
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "1-2.seg")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		all, err := segment.ReadFile(path)
		part, partErr := segment.ReadFile(path, chosen...)
		if err != nil {
			return // a part may be sound in a damaged file
		}
		if errors.Is(partErr, segment.ErrCorrupt) {
			return // overlapping sections are not always noticed when all are read
		}
		if partErr != nil {
			t.Fatalf("a part cannot be read, all can: %v", partErr)
		}
		touch(part)
		if !reflect.DeepEqual(all.Threads(), part.Threads()) || !reflect.DeepEqual(all.Sites(), part.Sites()) || !reflect.DeepEqual(all.Comms(), part.Comms()) {
			t.Error("a part differs from the whole")
		}
	})
}

func FuzzReadNodeFile(f *testing.F) {
	dir := f.TempDir()
	parsed, err := segment.Parse("seed", small().Bytes())
	if err != nil {
		f.Fatal(err)
	}
	seed := filepath.Join(dir, "seed.mtn")
	err = segment.WriteNodeFile(seed, "n", "j", "w", []segment.Record{
		{Kind: segment.RecordJSON, Data: []byte(`{"name":"job.json","content":{"command":"x"}}`)},
		{Kind: segment.RecordSegment, Data: parsed.Compact()},
	})
	if err != nil {
		f.Fatal(err)
	}
	data, err := os.ReadFile(seed)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "f.mtn")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		_, records, err := segment.ReadNodeFile(path)
		for _, r := range records {
			if s, err := segment.Parse("record", r.Data); err == nil {
				touch(s)
			}
		}
		result, walkErr := segment.ReadResult(path)
		if err == nil && len(records) > 0 && walkErr == nil && len(result.Segments) > len(records) {
			t.Errorf("%d segments from %d records", len(result.Segments), len(records))
		}
	})
}

func FuzzWalkTrace(f *testing.F) {
	h := small().Header
	good := trace(&h, 1, 3)
	f.Add(good)
	f.Add(good[:len(good)-5])
	f.Add(append(good[:len(good):len(good)], make([]byte, 80)...))
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, traceName(&h)), data, 0o600); err != nil {
			t.Fatal(err)
		}
		n := 0
		problems, err := segment.WalkTrace(dir, func(head segment.RawTraceFile, events []segment.RawEvent) error {
			if head.EventBytes < traceEvent || len(events) == 0 {
				t.Errorf("%d events of %d bytes", len(events), head.EventBytes)
			}
			n += len(events)
			return nil
		})
		if err != nil || len(problems) > 1 {
			t.Errorf("problems %q, error %v", problems, err)
		}
		if n > 0 && traceHead+n*traceEvent > len(data) {
			t.Errorf("%d events out of %d bytes", n, len(data))
		}
		w := small()
		w.Extra = append(w.Extra, synth.NewSection(segment.SectionKindEvents, 0, numbered(2, 4)...))
		s := mustParse(t, w.Bytes()).BeyondTrace(dir)
		if left := len(s.Events()); left > 4 || len(s.Events())+n < 4 {
			t.Errorf("%d events of 4 are left beside %d in the file", left, n)
		}
	})
}
