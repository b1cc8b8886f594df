package segment_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/mpitrace/mpitrace/internal/synth"
	"github.com/mpitrace/mpitrace/segment"
)

// job is a small job that most tests here use.
func job() synth.Job { return synth.Job{ID: "test-1", Ranks: 6, RanksPerNode: 4} }

func mustParse(t *testing.T, data []byte) *segment.Segment {
	t.Helper()
	s, err := segment.Parse("test", data)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestParse reads back what synth wrote.
func TestParse(t *testing.T) {
	wrote := job().Segment(3)
	s := mustParse(t, wrote.Bytes())
	if s.Header.WorldRank != 3 || s.Header.JobID() != "test-1" || s.Header.NodeName() != "node000" {
		t.Errorf("header: rank %d, job %q, node %q", s.Header.WorldRank, s.Header.JobID(), s.Header.NodeName())
	}
	if got := s.Sites(); len(got) != len(wrote.Sites) || got[4] != wrote.Sites[4] {
		t.Errorf("sites differ: %d read, %d written", len(got), len(wrote.Sites))
	}
	if got := s.Functions(); len(got) != len(wrote.Functions) || got[2] != wrote.Functions[2] {
		t.Errorf("functions differ")
	}
	if got := s.Threads(); len(got) != 1 || got[0].RawThread != wrote.Threads[0] || got[0].Torn {
		t.Errorf("threads differ: %+v", got)
	}
	if got := s.Modules(); len(got) != 2 || segment.Text(got[0].Path[:]) != synth.ProgramPath {
		t.Errorf("modules differ")
	}
	if len(s.Warnings) != 0 {
		t.Errorf("warnings: %q", s.Warnings)
	}
}

// TestHalfPair: a pair of clocks that was never finished is not used.
func TestHalfPair(t *testing.T) {
	wrote := job().Segment(3)
	wrote.Header.ClockSequence |= 1
	h := &mustParse(t, wrote.Bytes()).Header
	if h.FirstTicks == 0 || h.LastTicks != h.FirstTicks || h.LastMonotonicNS != h.FirstMonotonicNS {
		t.Errorf("first pair %d %d, last %d %d", h.FirstTicks, h.FirstMonotonicNS, h.LastTicks, h.LastMonotonicNS)
	}
}

// TestShards joins what several shards and grown sections hold.
func TestShards(t *testing.T) {
	w := job().Segment(0)
	w.CommTotals = []segment.RawTotal{{Calls: 1}, {Calls: 2}}
	w.Extra = []synth.Section{
		synth.NewSection(segment.SectionKindCommTotals, 1, segment.RawTotal{Calls: 10}),
		synth.NewSection(segment.SectionKindCommTotals, 1, segment.RawTotal{Calls: 20}, segment.RawTotal{Calls: 30}),
		synth.NewSection(segment.SectionKindSites, 1, segment.RawSite{Call: 1, Calls: 5}),
		synth.NewSection(99, 0, uint64(4711)), // of a newer minor version
	}
	w.Extra[2].Dropped = 7
	for name, s := range map[string]*segment.Segment{
		"as written": mustParse(t, w.Bytes()),
		"compacted":  mustParse(t, mustParse(t, w.Bytes()).Compact()),
	} {
		totals := s.CommTotals()
		if len(totals) != 3 || totals[0].Calls != 11 || totals[1].Calls != 22 || totals[2].Calls != 30 {
			t.Errorf("%s: communicator totals %+v", name, totals)
		}
		sites := s.Sites()
		if len(sites) != len(w.Sites)+1 || sites[len(sites)-1].Calls != 5 {
			t.Errorf("%s: %d sites", name, len(sites))
		}
		if s.Dropped(segment.SectionKindSites) != 7 {
			t.Errorf("%s: dropped %d, want 7", name, s.Dropped(segment.SectionKindSites))
		}
	}
}

// TestCompact drops the unused entries and nothing else.
func TestCompact(t *testing.T) {
	data := job().Segment(1).Bytes()
	full := mustParse(t, data)
	small := full.Compact()
	if len(small) >= len(data) || uint64(len(small)) > full.UsedBytes()+64*8 {
		t.Errorf("%d bytes became %d, %d are used", len(data), len(small), full.UsedBytes())
	}
	if again := mustParse(t, small).Compact(); !bytes.Equal(again, small) {
		t.Error("compacting twice changes the bytes")
	}
}

// TestRefuse lists what Parse says to damaged and foreign bytes.
func TestRefuse(t *testing.T) {
	good := job().Segment(1).Bytes()
	put := binary.LittleEndian.PutUint32
	directory := segment.SectionsOffset
	for _, test := range []struct {
		name  string
		spoil func(b []byte) []byte
		want  error
		text  string
	}{
		{"empty", func(b []byte) []byte { return nil }, segment.ErrNotSegment, "MPITRSEG"},
		{"foreign", func(b []byte) []byte { return []byte("\x7fELF and so on") }, segment.ErrNotSegment, "MPITRSEG"},
		{"unfinished", func(b []byte) []byte { clear(b[:8]); return b }, segment.ErrNotSegment, "MPITRSEG"},
		{"magic only", func(b []byte) []byte { return b[:8] }, segment.ErrTruncated, "its header alone"},
		{"half header", func(b []byte) []byte { return b[:2000] }, segment.ErrTruncated, "its header alone"},
		{"newer", func(b []byte) []byte { put(b[8:], segment.VersionMajor+1); return b }, segment.ErrVersion,
			fmt.Sprintf("written by a newer mpitrace (segment version %d, this one reads %d): install", segment.VersionMajor+1, segment.VersionMajor)},
		{"newer, short header", func(b []byte) []byte { put(b[8:], segment.VersionMajor+1); return b[:64] }, segment.ErrVersion, "newer mpitrace"},
		{"older", func(b []byte) []byte { put(b[8:], 0); return b }, segment.ErrVersion, "older mpitrace"},
		{"header size", func(b []byte) []byte { put(b[24:], 12); return b }, segment.ErrCorrupt, "header of 12 bytes"},
		{"too many sections", func(b []byte) []byte { put(b[32:], 257); return b }, segment.ErrCorrupt, "257 sections"},
		{"no directory", func(b []byte) []byte { return b[:directory+100] }, segment.ErrTruncated, "directory"},
		{"short", func(b []byte) []byte { return b[:len(b)-3000] }, segment.ErrTruncated, "there are"},
		{"entry size", func(b []byte) []byte { put(b[directory+16:], 3); return b }, segment.ErrCorrupt, "entries of 3 bytes"},
		{"used above capacity", func(b []byte) []byte { put(b[directory+24:], 1e6); return b }, segment.ErrCorrupt, "1000000 of"},
		{"offset in directory", func(b []byte) []byte { put(b[directory+8:], 64); return b }, segment.ErrCorrupt, "inside the directory"},
		{"offset overflows", func(b []byte) []byte {
			binary.LittleEndian.PutUint64(b[directory+8:], math.MaxUint64-8)
			return b
		}, segment.ErrTruncated, "needs"},
		{"overlap", func(b []byte) []byte {
			entry := b[directory : directory+64]
			put(entry[16:], 100_000) // entry bytes
			put(entry[24:], 1)
			copy(b[directory+64:], entry)
			copy(b[directory+128:], entry)
			return append(b, make([]byte, 150_000)...)
		}, segment.ErrCorrupt, "overlap"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := segment.Parse("some.seg", test.spoil(bytes.Clone(good)))
			if !errors.Is(err, test.want) {
				t.Fatalf("error %v, want %v", err, test.want)
			}
			if !strings.Contains(err.Error(), test.text) || !strings.Contains(err.Error(), "some.seg") {
				t.Errorf("message %q names not %q and the file", err, test.text)
			}
		})
	}
}

// TestWarnings accepts oddities but names them.
func TestWarnings(t *testing.T) {
	w := job().Segment(0)
	w.Header.LayoutHash++
	w.Header.TicksPerNS = math.NaN()
	s := mustParse(t, w.Bytes())
	if len(s.Warnings) != 2 || !strings.Contains(s.Warnings[0], "layout") || !strings.Contains(s.Warnings[1], "clock rate") {
		t.Errorf("warnings: %q", s.Warnings)
	}
	if got := s.Header.NS(100); got != 100 {
		t.Errorf("100 ticks without a rate are %d", got)
	}
	w.Header.VersionMinor++
	w.Header.TicksPerNS = 2
	if s := mustParse(t, w.Bytes()); len(s.Warnings) != 0 {
		t.Errorf("a newer minor version warns: %q", s.Warnings)
	}
}

// TestTimes converts ticks, hostile ones too.
func TestTimes(t *testing.T) {
	h := job().Segment(0).Header
	if got := h.NS(2000); got != 1000 {
		t.Errorf("2000 ticks are %d ns, want 1000", got)
	}
	if got := h.NS(math.MaxUint64); got > math.MaxInt64 {
		t.Errorf("%d ns do not fit a duration", got)
	}
	at := h.RealtimeNS(h.FirstTicks + 2_000_000_000)
	if at != int64(h.FirstRealtimeNS)+1_000_000_000 {
		t.Errorf("one second after the first tick is %d", at)
	}
	if before := h.RealtimeNS(h.FirstTicks - 2000); before != int64(h.FirstRealtimeNS)-1000 {
		t.Errorf("one microsecond before the first tick is %d", before)
	}
	h.FirstRealtimeNS = math.MaxUint64
	if got := h.RealtimeNS(5); got != 0 {
		t.Errorf("impossible start gives %d", got)
	}
}

// TestEnd: a process that died lived at least until the last entry or return of a
// call, whatever its last pair says; moments years later are damage.
func TestEnd(t *testing.T) {
	pair := synth.Ticks(50e9)
	for _, c := range []struct{ enter, exit, want uint64 }{
		{synth.Ticks(40e9), synth.Ticks(41e9), pair},
		{synth.Ticks(52e9), synth.Ticks(51e9), synth.Ticks(52e9)}, // died in a call
		{synth.Ticks(52e9), synth.Ticks(55e9), synth.Ticks(55e9)},
		{synth.Ticks(52e9), math.MaxUint64, synth.Ticks(52e9)},
		{math.MaxUint64, synth.Ticks(55e9), synth.Ticks(55e9)},
	} {
		w := job().Segment(0)
		h := &w.Header
		h.State, h.FinalizeEnterTicks, h.FinalizeExitTicks, h.ExitTicks, h.LastTicks = segment.StateRunning, 0, 0, 0, pair
		w.Threads[0].EnterTicks, w.Threads[0].ExitTicks = c.enter, c.exit
		if got := mustParse(t, w.Bytes()).EndTicks(); got != c.want {
			t.Errorf("entry %d, return %d: the end is %d, want %d", c.enter, c.exit, got, c.want)
		}
	}
}

// TestSharedShard: the shard that several threads used at a time, if there are
// others.
func TestSharedShard(t *testing.T) {
	thread := func(shard, overflow uint32, served uint64) segment.Thread {
		return segment.Thread{Shard: shard, RawThread: segment.RawThread{Overflow: overflow, ThreadsServed: served}}
	}
	own, shared := thread(0, 0, 5), thread(15, 1, 2)
	for _, c := range []struct {
		threads []segment.Thread
		want    int64
	}{{nil, -1}, {[]segment.Thread{own}, -1}, {[]segment.Thread{own, shared}, 15}, {[]segment.Thread{shared}, -1}, {[]segment.Thread{own, thread(15, 1, 1)}, -1}} {
		if got := segment.SharedShard(c.threads); got != c.want {
			t.Errorf("%+v: %d, want %d", c.threads, got, c.want)
		}
	}
}

func TestText(t *testing.T) {
	for field, want := range map[string]string{
		"plain\x00rest":        "plain",
		"":                     "",
		"escape \x1b[31m red":  "escape ?[31m red",
		"a\ttab":               "a tab",
		"bad \xff utf-8":       "bad ? utf-8",
		"Gitter für \u202eabc": "Gitter für ?abc",
	} {
		if got := segment.Text([]byte(field)); got != want {
			t.Errorf("%q became %q, want %q", field, got, want)
		}
	}
}
