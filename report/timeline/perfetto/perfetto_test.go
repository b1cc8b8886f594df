package perfetto_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"encoding/json"

	"github.com/mpitrace/mpitrace/internal/synth"
	"github.com/mpitrace/mpitrace/report/timeline"
	"github.com/mpitrace/mpitrace/report/timeline/perfetto"
	"github.com/mpitrace/mpitrace/segment"
	"github.com/mpitrace/mpitrace/test/mpijob"
)

// packet is a decoded TracePacket, as far as the test looks at it; numbers of
// 64 bits are texts in protojson.
type packet struct {
	Timestamp json.Number
	Sequence  uint32
	Flags     uint32
	Track     *struct {
		UUID    json.Number
		Name    string
		Parent  json.Number
		Rank    int
		Process *struct {
			PID  int
			Name string
		}
		Thread *struct {
			PID  int
			TID  json.Number
			Name string
		}
		Counter *struct{ UnitName string }
	}
	TrackEvent *struct {
		Type        int
		Name        json.Number
		Track       json.Number
		Location    json.Number
		Value       float64
		Flows, Ends []json.Number
	}
	Interned *struct {
		Names     []struct{ IID, Text string }
		Locations []struct {
			IID, File string
			Line      int
		}
	}
}

// decode decodes a trace with the schema of the test, by protoc and the
// reflection of the protobuf library: nothing that the writer uses.
func decode(t *testing.T, data []byte) []packet {
	t.Helper()
	mpijob.Need(t, mpijob.Tools("protobuf-compiler", "protoc"))
	set := filepath.Join(t.TempDir(), "set")
	if out, err := exec.Command("protoc", "--proto_path=testdata", "--descriptor_set_out="+set, "trace.proto").CombinedOutput(); err != nil {
		t.Fatalf("protoc: %v\n%s", err, out)
	}
	raw, err := os.ReadFile(set)
	var files descriptorpb.FileDescriptorSet
	err = errors.Join(err, proto.Unmarshal(raw, &files))
	var file protoreflect.FileDescriptor
	if err == nil {
		file, err = protodesc.NewFile(files.File[0], &protoregistry.Files{})
	}
	if err != nil {
		t.Fatal(err)
	}
	trace := dynamicpb.NewMessage(file.Messages().ByName("Trace"))
	if err := proto.Unmarshal(data, trace); err != nil {
		t.Fatal(err)
	}
	noUnknown(t, trace)
	text, err := protojson.Marshal(trace)
	if err != nil {
		t.Fatal(err)
	}
	var out struct{ Packet []packet }
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out.Packet
}

// noUnknown demands that every field is in the schema.
func noUnknown(t *testing.T, m protoreflect.Message) {
	t.Helper()
	if len(m.GetUnknown()) > 0 {
		t.Fatalf("%s has fields that are not in the schema: %x", m.Descriptor().FullName(), m.GetUnknown())
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.Message() == nil:
		case f.IsList():
			for i := range v.List().Len() {
				noUnknown(t, v.List().Get(i).Message())
			}
		default:
			noUnknown(t, v.Message())
		}
		return true
	})
}

// figures is what a decoded trace comes to.
type figures struct {
	slices  map[string]int // by kind of track
	named   map[string]int // slices by name
	open    int            // slices that do not end
	flows   map[string][2]int
	lines   int // slices with a source line
	process []string
	counter int
}

// check looks at each packet and at what must hold of all of them.
func check(t *testing.T, packets []packet) figures {
	t.Helper()
	f := figures{slices: map[string]int{}, named: map[string]int{}, flows: map[string][2]int{}}
	tracks, last, depth, seen := map[string]string{}, map[uint32]uint64{}, map[string]int{}, map[uint32]bool{}
	type key struct {
		sequence uint32
		iid      string
	}
	names, lines := map[key]string{}, map[key]int{}
	for i, p := range packets {
		if !seen[p.Sequence] && p.Flags&1 == 0 || seen[p.Sequence] && p.Flags&1 != 0 {
			t.Fatalf("packet %d: sequence %d begins anew, or does not begin", i, p.Sequence)
		}
		seen[p.Sequence] = true
		if p.Interned != nil {
			for _, n := range p.Interned.Names {
				names[key{p.Sequence, n.IID}] = n.Text
			}
			for _, l := range p.Interned.Locations {
				lines[key{p.Sequence, l.IID}] = l.Line
			}
		}
		if d := p.Track; d != nil {
			id := d.UUID.String()
			if tracks[id] != "" {
				t.Fatalf("track %s is described twice", id)
			}
			if parent := d.Parent.String(); parent != "" && tracks[parent] == "" {
				t.Fatalf("track %s comes before its parent %s", id, parent)
			}
			tracks[id] = d.Name
			switch {
			case d.Process != nil:
				tracks[id] = "process"
				f.process = append(f.process, d.Process.Name)
				if d.Process.PID != len(f.process) || d.Rank != len(f.process)-1 {
					t.Errorf("process %d is %+v", len(f.process), d)
				}
			case d.Thread != nil:
				tracks[id] = "thread"
			case id == "0":
				tracks[id] = "root"
			}
		}
		e := p.TrackEvent
		if e == nil {
			continue
		}
		id := e.Track.String()
		ns, err := p.Timestamp.Int64()
		if err != nil || uint64(ns) < last[p.Sequence] || tracks[id] == "" {
			t.Fatalf("packet %d at %s on track %q after %d: %v", i, p.Timestamp, tracks[id], last[p.Sequence], err)
		}
		last[p.Sequence] = uint64(ns)
		switch e.Type {
		case 1:
			depth[id]++
			f.slices[tracks[id]]++
			name := names[key{p.Sequence, e.Name.String()}]
			if name == "" {
				t.Fatalf("packet %d: a slice without a name", i)
			}
			f.named[name]++
			if lines[key{p.Sequence, e.Location.String()}] > 0 {
				f.lines++
			}
		case 2:
			if depth[id]--; depth[id] < 0 {
				t.Fatalf("packet %d ends a slice of track %s that did not begin", i, id)
			}
		case 4:
			f.counter++
			if e.Value < 0 || e.Value > 100 {
				t.Errorf("a share of %v %%", e.Value)
			}
		}
		for side, list := range [][]json.Number{e.Flows, e.Ends} {
			for _, id := range list {
				both := f.flows[id.String()]
				both[side]++
				f.flows[id.String()] = both
			}
		}
	}
	for _, d := range depth {
		f.open += d
	}
	for id, both := range f.flows {
		if both != [2]int{1, 1} {
			t.Fatalf("flow %s begins %d times and ends %d times", id, both[0], both[1])
		}
	}
	return f
}

func export(t *testing.T, dir string) (*timeline.Summary, figures) {
	t.Helper()
	var out bytes.Buffer
	s, err := timeline.Export(context.Background(), dir, perfetto.New(&out, perfetto.Options{Version: "test"}), timeline.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s, check(t, decode(t, out.Bytes()))
}

// TestTrace: every call is a slice, every message a flow with two ends, every
// receive a slice of its own.
func TestTrace(t *testing.T) {
	dir := t.TempDir()
	if err := (synth.Job{ID: "solver", Ranks: 12, RanksPerNode: 6}).WriteTraced(dir, 20); err != nil {
		t.Fatal(err)
	}
	s, f := export(t, dir)
	if f.slices["thread"] != int(s.Calls) || f.lines < int(s.Calls) || f.open != 0 || f.slices["nonblocking receives"] != int(s.Requests) ||
		len(f.flows) != int(s.Messages.Matched) || s.Messages.Matched == 0 || f.counter == 0 || f.slices["mpitrace export"] != 1 {
		t.Errorf("%+v of %+v", f, s)
	}
	if len(f.process) != 12 || f.process[0] != "rank 0 on node000" || f.process[11] != "rank 11 on node001" {
		t.Errorf("processes %q", f.process)
	}
	if f.named["MPI_Allreduce"] != 12*20 || f.named["MPI_Irecv"] != 2*f.slices["nonblocking receives"] {
		t.Errorf("%v", f.named)
	}
}

// TestGaps: what is missing has a name, and a call in progress does not end.
func TestGaps(t *testing.T) {
	dir := t.TempDir()
	j := synth.Job{ID: "broken", Ranks: 4}
	j.Mutate = func(rank int, s *synth.Segment) *synth.Segment {
		switch rank {
		case 1:
			s.Threads[0].EventsDropped = 77
		case 2:
			return nil
		case 3:
			h := &s.Header
			h.State, h.FinalizeEnterTicks, h.FinalizeExitTicks, h.ExitTicks = segment.StateRunning, 0, 0, 0
			h.LastTicks, h.LastMonotonicNS = synth.Ticks(40_000_000), 5_040_000_000
			s.Threads[0].Call, s.Threads[0].Address, s.Threads[0].EnterTicks = synth.ID("MPI_Recv"), synth.ModuleBase+0x1240, synth.Ticks(30_000_000)
		}
		return s
	}
	if err := j.WriteTraced(dir, 20); err != nil {
		t.Fatal(err)
	}
	s, f := export(t, dir)
	names := fmt.Sprint(f.named)
	if f.slices["gaps in the trace"] != s.Gaps || s.Gaps != 3 || f.open != 1 || !strings.Contains(names, "77 events of rank 1 were not kept") ||
		!strings.Contains(names, "no data of rank 2") || !strings.Contains(names, "rank 3 died") {
		t.Errorf("%+v, %d gaps", f, s.Gaps)
	}
	if f.process[2] != "rank 2 (no data)" {
		t.Errorf("%q", f.process)
	}
}

// TestSamples: a result without a trace shows what was sampled.
func TestSamples(t *testing.T) {
	dir := t.TempDir()
	if err := (synth.Job{ID: "sampled", Ranks: 4, Sampled: true}).Write(dir); err != nil {
		t.Fatal(err)
	}
	s, f := export(t, dir)
	if s.Samples == 0 || f.slices["arrival samples"] != int(s.Samples) || f.slices["thread"] != 0 || f.open != 0 {
		t.Errorf("%+v, %d samples", f, s.Samples)
	}
}

// full is a disk without room.
type full struct{ room int }

func (f *full) Write(p []byte) (int, error) {
	if f.room -= len(p); f.room < 0 {
		return 0, errFull
	}
	return len(p), nil
}

var errFull = errors.New("no space left on device")

// TestFull reports that the disk is full.
func TestFull(t *testing.T) {
	dir := t.TempDir()
	if err := (synth.Job{ID: "solver", Ranks: 4}).WriteTraced(dir, 500); err != nil {
		t.Fatal(err)
	}
	for _, room := range []int{0, 300_000} {
		_, err := timeline.Export(context.Background(), dir, perfetto.New(&full{room}, perfetto.Options{}), timeline.Options{})
		if !errors.Is(err, errFull) {
			t.Errorf("%v", err)
		}
	}
}
