package segment

import (
	"encoding/json"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unsafe"
)

// actSegment is a segment of a process that acts; the rows follow the directory.
func actSegment(t *testing.T, act RawAct, counts []RawActCount, decisions []RawActDecision) []byte {
	t.Helper()
	var body []byte
	var sections []RawSection
	add := func(kind uint32, n int, rows []byte) {
		if n > 0 {
			sections = append(sections, RawSection{Kind: kind, Offset: uint64(SectionsOffset+3*int(unsafe.Sizeof(RawSection{}))) + uint64(len(body)), EntryBytes: uint32(len(rows) / n), Capacity: uint32(n), Used: uint32(n)})
			body = append(body, rows...)
		}
	}
	add(SectionKindAct, 1, Encode(act))
	add(SectionKindActCounts, len(counts), Encode(counts...))
	add(SectionKindActDecisions, len(decisions), Encode(decisions...))
	h := RawHeader{VersionMajor: VersionMajor, VersionMinor: VersionMinor, LayoutHash: LayoutHash, HeaderBytes: uint32(unsafe.Sizeof(RawHeader{})), SectionEntryBytes: uint32(unsafe.Sizeof(RawSection{})), SectionCount: uint32(len(sections)), TicksPerNS: 1}
	copy(h.Magic[:], magicSegment)
	data := append(Encode(h), Encode(sections...)...)
	data = append(data, make([]byte, SectionsOffset+3*int(unsafe.Sizeof(RawSection{}))-len(data))...)
	return append(data, body...)
}

func countRow(name string, value uint64) RawActCount {
	row := RawActCount{Value: value}
	copy(row.Name[:], name)
	return row
}

func text(into []byte, text string) { copy(into, text) }

func TestAct(t *testing.T) {
	act := RawAct{State: ActStateActs, Sequence: 6}
	text(act.Policy[:], "3ed3")
	decision := RawActDecision{From: 65536, Messages: 7}
	text(decision.Communicator[:], "MPI_COMM_WORLD")
	data := actSegment(t, act, []RawActCount{countRow("eager_messages", 5), countRow("of_the_future", 9), countRow("intercommunicators", 2)}, []RawActDecision{decision})
	s, err := Parse("x", data)
	if err != nil {
		t.Fatal(err)
	}
	a := s.Act()
	if a == nil || a.State != ActStateActs || a.Policy != "3ed3" || a.Torn || !a.Counted || a.Counts[ActEagerMessages] != 5 || len(a.Decisions) != 1 || a.Decisions[0].Messages != 7 {
		t.Errorf("%+v", a)
	}
	var left []string
	a.Counts.EachLeft(func(reason string, n uint64) { left = append(left, reason) })
	if len(left) != 1 || !strings.HasPrefix(left[0], "intercommunicators") {
		t.Errorf("left %q", left)
	}
	again, err := Parse("compact", s.Compact())
	if err != nil || again.Act() == nil || again.Act().Counts != a.Counts || again.Act().Decisions[0] != a.Decisions[0] {
		t.Errorf("a compacted segment has lost something: %v", err)
	}
	path := filepath.Join(t.TempDir(), "1-2.seg")
	if err := os.WriteFile(path, append(slices.Clone(data), make([]byte, 64<<10)...), 0o600); err != nil {
		t.Fatal(err)
	}
	part, err := ReadFile(path, SectionKindActCounts, SectionKindAct)
	if err != nil || part.Act().Torn || part.Act().Counts != a.Counts || part.Act().Decisions != nil {
		t.Errorf("counts alone: %v, %+v", err, part.Act())
	}
	if s, err = Parse("no room", actSegment(t, act, nil, nil)); err != nil || s.Act().Counted {
		t.Errorf("without figures: %v", err)
	}
	act.Sequence = 7
	if s, err = Parse("torn", actSegment(t, act, []RawActCount{countRow("eager_messages", 5)}, []RawActDecision{decision})); err != nil {
		t.Fatal(err)
	}
	if a = s.Act(); !a.Torn || a.Decisions != nil || a.Counts[ActEagerMessages] != 5 {
		t.Errorf("torn: %+v", a)
	}
	old := decode[RawHeader](nil, data, int(unsafe.Sizeof(RawHeader{})), 1)[0]
	old.VersionMinor, old.SectionCount = 0, 0 // version 4.0 has no such sections
	if s, err = Parse("old", Encode(old)); err != nil || s.Act() != nil {
		t.Errorf("a segment of version 4.0: %v", err)
	}
}

// writer is a file whose figures change at each reading until it rests: a count
// that has the value of another sequence is a mixture.
type writer struct {
	data      []byte
	sequence  uint32 // at rest even
	readings  int
	restAfter int
}

func (w *writer) ReadAt(into []byte, at int64) (int, error) {
	w.readings++
	if w.readings <= w.restAfter {
		w.sequence++
		act := decode[RawAct](nil, w.data[SectionsOffset+3*64:], int(unsafe.Sizeof(RawAct{})), 1)[0]
		act.Sequence = w.sequence
		copy(w.data[SectionsOffset+3*64:], Encode(act))
		copy(w.data[SectionsOffset+3*64+int(unsafe.Sizeof(act)):], Encode(countRow("eager_messages", uint64(w.sequence))))
	}
	if at >= int64(len(w.data)) {
		return 0, io.EOF
	}
	return copy(into, w.data[at:]), nil
}

// TestSettleAct: figures that change while they are read are read again, and are
// torn if they never rest, or belong to a process that died while it wrote.
func TestSettleAct(t *testing.T) {
	for _, c := range []struct {
		restAfter int
		torn      bool
	}{{0, false}, {2, false}, {4, false}, {5, true}, {1 << 30, true}} {
		data := actSegment(t, RawAct{State: ActStateActs}, []RawActCount{countRow("eager_messages", 0)}, nil)
		s, err := Parse("x", data)
		if err != nil {
			t.Fatal(err)
		}
		w := &writer{data: append([]byte{}, data...), restAfter: c.restAfter}
		s.settleAct(w, nil)
		a := s.Act()
		if a.Torn != c.torn || !a.Torn && a.Counts[ActEagerMessages] != uint64(w.sequence) {
			t.Errorf("at rest after %d: torn %v, count %d at sequence %d", c.restAfter, a.Torn, a.Counts[ActEagerMessages], w.sequence)
		}
		if w.readings > 3*settleTries {
			t.Errorf("%d readings", w.readings)
		}
	}
	s, _ := Parse("x", actSegment(t, RawAct{}, nil, nil))
	s.settleAct(failing{}, nil)
	if !s.Act().Torn {
		t.Error("figures that cannot be read again are whole")
	}
}

// TestActCounts: counts as JSON come back, unknown names are passed over, and a
// sum does not wrap around.
func TestActCounts(t *testing.T) {
	var c, back ActCounts
	c[ActEagerMessages], c[ActMessagesByArguments] = 3, math.MaxUint64
	out, err := json.Marshal(c)
	if err == nil {
		err = json.Unmarshal(out, &back)
	}
	if err != nil || back != c {
		t.Errorf("%s: %v", out, err)
	}
	if err := json.Unmarshal([]byte(`{"eager_messages": 1, "of_the_future": 2}`), &back); err != nil || back[ActEagerMessages] != 1 || back[ActMessagesByArguments] != 0 {
		t.Errorf("%v, %v", back, err)
	}
	c.Add(&ActCounts{ActEagerMessages: 4, ActMessagesByArguments: 1})
	if c[ActEagerMessages] != 7 || c[ActMessagesByArguments] != math.MaxUint64 {
		t.Errorf("sum %v", c)
	}
}
