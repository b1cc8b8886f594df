package segment_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mpitrace/mpitrace/internal/synth"
	"github.com/mpitrace/mpitrace/segment"
)

const (
	traceHead  = 256
	traceEvent = 64
)

// trace is a trace file of the process of a header with events numbered from
// first on.
func trace(h *segment.RawHeader, first, n int) []byte {
	f := segment.RawTraceFile{VersionMajor: segment.VersionMajor, VersionMinor: segment.VersionMinor, LayoutHash: segment.LayoutHash,
		PID: h.PID, PIDStart: h.PIDStart, BootID: h.BootID, Node: h.Node, Job: h.Job, EventBytes: traceEvent}
	copy(f.Magic[:], "MPITRTRC")
	return append(segment.Encode(f), segment.Encode(numbered(first, n)...)...)
}

// numbered is n events with serial numbers from first on.
func numbered(first, n int) (out []segment.RawEvent) {
	for i := range n {
		at := uint64(1000 * (first + i))
		out = append(out, segment.RawEvent{Kind: segment.EventKindSend, Serial: uint32(first + i), PostTicks: at, EnterTicks: at, ExitTicks: at + 9})
	}
	return out
}

// traceName is what the shim calls the trace file of a process.
func traceName(h *segment.RawHeader) string {
	return fmt.Sprintf("%s.%d.%d.mtt", h.NodeName(), h.PID, h.PIDStart)
}

func writeFile(t *testing.T, dir, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// serials walks a directory: the serial numbers by process id.
func serials(t *testing.T, dir string) (map[uint32][]uint32, []string) {
	t.Helper()
	out := map[uint32][]uint32{}
	problems, err := segment.WalkTrace(dir, func(head segment.RawTraceFile, events []segment.RawEvent) error {
		if len(events) == 0 || len(events) > 1<<16 {
			t.Errorf("%d events at a time", len(events))
		}
		for i := range events {
			out[head.PID] = append(out[head.PID], events[i].Serial)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out, problems
}

// TestWalkTrace reads the files of several processes, larger than one portion,
// and leaves alone what is no trace file.
func TestWalkTrace(t *testing.T) {
	dir := t.TempDir()
	if err := job().Write(dir); err != nil {
		t.Fatal(err)
	}
	const many = 10_000
	for rank, n := range []int{many, 1, 0} {
		h := job().Segment(rank).Header
		writeFile(t, dir, traceName(&h), trace(&h, 1, n))
	}
	writeFile(t, dir, ".hidden.mtt", []byte("x"))
	got, problems := serials(t, dir)
	first, second := job().Segment(0).Header, job().Segment(1).Header
	if len(problems) != 0 || len(got) != 2 || len(got[first.PID]) != many || len(got[second.PID]) != 1 {
		t.Fatalf("problems %q, events of %d processes, %d and %d of the first two", problems, len(got), len(got[first.PID]), len(got[second.PID]))
	}
	for i, serial := range got[first.PID] {
		if int(serial) != i+1 {
			t.Fatalf("event %d has serial %d", i, serial)
		}
	}
	r, err := segment.ReadResult(dir)
	if err != nil || len(r.Segments) != 6 || len(r.Problems) != 0 {
		t.Errorf("a result with trace files: %+v, %v", r, err)
	}
	stop := errors.New("stop")
	if _, err := segment.WalkTrace(dir, func(segment.RawTraceFile, []segment.RawEvent) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("the error of visit became %v", err)
	}
	if _, err := segment.WalkTrace(filepath.Join(dir, "none"), nil); err == nil {
		t.Error("a directory that does not exist gives no error")
	}
	if problems, err := segment.WalkTrace(filepath.Join(dir, traceName(&first)), nil); problems != nil || err != nil {
		t.Errorf("a result of one file: %q, %v", problems, err)
	}
	if _, err := segment.ReadResult(filepath.Join(dir, traceName(&first))); err == nil || !strings.Contains(err.Error(), "trace file") {
		t.Errorf("a trace file as a result: %v", err)
	}
}

// TestDamagedTraces: what stands before the damage is read and the rest named.
func TestDamagedTraces(t *testing.T) {
	h := job().Segment(0).Header
	good := trace(&h, 1, 5000)
	put := binary.LittleEndian.PutUint32
	for _, test := range []struct {
		name   string
		spoil  func(b []byte) []byte
		events int
		text   string // of the problem; empty: none
	}{
		{"empty", func(b []byte) []byte { return nil }, 0, "MPITRTRC"},
		{"foreign", func(b []byte) []byte { return []byte("\x7fELF and so on") }, 0, "not written by mpitrace"},
		{"magic only", func(b []byte) []byte { return b[:8] }, 0, "only 8 bytes: truncated"},
		{"half head", func(b []byte) []byte { return b[:100] }, 0, "only 100 bytes: truncated"},
		{"head only", func(b []byte) []byte { return b[:traceHead] }, 0, ""},
		{"newer", func(b []byte) []byte { put(b[8:], segment.VersionMajor+1); return b }, 0, "written by a newer mpitrace"},
		{"newer, short head", func(b []byte) []byte { put(b[8:], segment.VersionMajor+1); return b[:32] }, 0, "written by a newer mpitrace"},
		{"older", func(b []byte) []byte { put(b[8:], 0); return b }, 0, "written by an older mpitrace"},
		{"newer minor", func(b []byte) []byte { put(b[12:], segment.VersionMinor+1); return b }, 5000, ""},
		{"event size 0", func(b []byte) []byte { put(b[28:], 0); return b }, 0, "events of 0 bytes, should be 64: damaged"},
		{"longer events", func(b []byte) []byte { put(b[28:], 128); return b }, 0, "events of 128 bytes"},
		{"longer events, newer", func(b []byte) []byte { put(b[12:], segment.VersionMinor+1); put(b[28:], 128); return b }, 2500, ""},
		{"huge events, newer", func(b []byte) []byte { put(b[12:], segment.VersionMinor+1); put(b[28:], 1<<31); return b }, 0, "events of 2147483648 bytes"},
		{"cut in an event", func(b []byte) []byte { return b[:len(b)-1] }, 4999, "ends within an event, after 4999 whole ones"},
		{"never written", func(b []byte) []byte { return append(b, make([]byte, 1<<20)...) }, 5000, "event 5000 is empty"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			writeFile(t, dir, "n.1.2.mtt", test.spoil(bytes.Clone(good)))
			got, problems := serials(t, dir)
			n := 0
			for _, s := range got {
				n += len(s)
			}
			if n != test.events {
				t.Errorf("%d events, want %d", n, test.events)
			}
			if (len(problems) == 1) != (test.text != "") || len(problems) > 1 {
				t.Fatalf("problems %q, want %q", problems, test.text)
			}
			if len(problems) == 1 && !(strings.Contains(problems[0], test.text) && strings.Contains(problems[0], "n.1.2.mtt")) {
				t.Errorf("problem %q names not %q and the file", problems[0], test.text)
			}
		})
	}
}

// TestHostileTraces: links, pipes, directories, second files of a process and
// sizes beyond all measure are named and nothing else happens.
func TestHostileTraces(t *testing.T) {
	dir := t.TempDir()
	h := job().Segment(0).Header
	writeFile(t, dir, "a.mtt", trace(&h, 1, 3))
	writeFile(t, dir, "copy.mtt", trace(&h, 1, 3))
	huge := filepath.Join(dir, "huge.mtt")
	other := job().Segment(1).Header
	writeFile(t, dir, "huge.mtt", trace(&other, 1, 3))
	err := errors.Join(os.Symlink("a.mtt", filepath.Join(dir, "link.mtt")), os.Mkdir(filepath.Join(dir, "dir.mtt"), 0o700),
		unix.Mkfifo(filepath.Join(dir, "pipe.mtt"), 0o600), os.Truncate(huge, 2<<40))
	if err != nil {
		t.Fatal(err)
	}
	got, problems := serials(t, dir)
	if len(got) != 1 || !slices.Equal(got[h.PID], []uint32{1, 2, 3}) {
		t.Errorf("events %v", got)
	}
	all := strings.Join(problems, "\n")
	for _, want := range []string{"same process as " + filepath.Join(dir, "a.mtt"), "more than any trace", "symbolic link", "dir.mtt: is not a regular", "pipe.mtt: is not a regular"} {
		if !strings.Contains(all, want) {
			t.Errorf("no problem speaks of %q:\n%s", want, all)
		}
	}
	if len(problems) != 5 {
		t.Errorf("%d problems, want 5:\n%s", len(problems), all)
	}
}

// TestBeyondTrace: what a process that died in writing has in both places
// counts once.
func TestBeyondTrace(t *testing.T) {
	const block = 512
	for _, test := range []struct {
		name   string
		file   int          // events in the file, from serial 1
		cut    int          // bytes missing at its end
		shards [][]uint32   // serials in the sections
		want   []uint32     // that are left
		spoil  func([]byte) // of the file
	}{
		{name: "orderly end", file: 512, shards: [][]uint32{span(513, 20)}, want: span(513, 20)},
		{name: "nothing written yet", file: 0, shards: [][]uint32{span(1, block)}, want: span(1, block)},
		{name: "killed before the section was emptied", file: 1024, shards: [][]uint32{span(513, block)}},
		{name: "killed in writing", file: 600, cut: 7, shards: [][]uint32{span(513, block)}, want: span(600, 425)},
		{name: "one event written", file: 513, shards: [][]uint32{span(513, block)}, want: span(514, 511)},
		{name: "other shards", file: 1024, shards: [][]uint32{span(2000, 5), span(513, block), span(3000, 4)}, want: append(span(2000, 5), span(3000, 4)...)},
		{name: "looked at before it was written", file: 5000, shards: [][]uint32{span(1025, 100)}},
		{name: "long ago in a long file", file: 60_000, shards: [][]uint32{span(59_489, block)}},
		{name: "another process", file: 1024, shards: [][]uint32{span(513, 3)}, want: span(513, 3), spoil: func(b []byte) { b[32]++ }},
		{name: "damaged", file: 1024, shards: [][]uint32{span(513, 3)}, want: span(513, 3), spoil: func(b []byte) { b[0]++ }},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			w := job().Segment(0)
			for shard, list := range test.shards {
				var events []segment.RawEvent
				for _, serial := range list {
					events = append(events, numbered(int(serial), 1)...)
				}
				w.Extra = append(w.Extra, synth.NewSection(segment.SectionKindEvents, uint32(shard), events...))
			}
			file := trace(&w.Header, 1, test.file)
			if test.spoil != nil {
				test.spoil(file)
			}
			writeFile(t, dir, traceName(&w.Header), file[:len(file)-test.cut])
			before := mustParse(t, w.Bytes())
			after := before.BeyondTrace(dir)
			var got []uint32
			for _, e := range after.Events() {
				got = append(got, e.Serial)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("%d events are left, from %v; want %d, from %v", len(got), head(got), len(test.want), head(test.want))
			}
			if n := len(before.Events()); n == 0 {
				t.Error("the segment itself was changed")
			}
			if again := mustParse(t, after.Compact()); len(again.Events()) != len(got) || len(again.Sites()) != len(before.Sites()) {
				t.Errorf("compacted: %d events, %d sites", len(again.Events()), len(again.Sites()))
			}
		})
	}
	w := job().Segment(0)
	synth.SetText(w.Header.Node[:], "../../etc")
	w.Extra = []synth.Section{synth.NewSection(segment.SectionKindEvents, 0, numbered(1, 2)...)}
	if got := mustParse(t, w.Bytes()).BeyondTrace(t.TempDir()); len(got.Events()) != 2 {
		t.Error("a node name with slashes")
	}
}

// span is n numbers from first on.
func span(first, n int) (out []uint32) {
	for i := range n {
		out = append(out, uint32(first+i))
	}
	return out
}

func head(list []uint32) []uint32 { return list[:min(3, len(list))] }
