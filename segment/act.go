package segment

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"math"
	"strconv"
	"time"
	"unsafe"
)

// Act is what a process of a job in act mode carries itself, as its segment has
// it: up to a tenth of a second old while it runs.
type Act struct {
	State  uint32 // ActState*
	Policy string // hash
	Reason string // of observing, where the process knows it
	// Counted tells that there are figures: a process that acts has none if its
	// segment had no room for them.
	Counted   bool
	Counts    ActCounts
	Decisions []RawActDecision // nil if Torn
	// Torn tells that the figures were not to be read in one piece: the process
	// died while it wrote them. Each count is good by itself.
	Torn bool
}

// Act is nil of a process that was not to act.
func (s *Segment) Act() *Act {
	raw := rows[RawAct](s, SectionKindAct)
	if len(raw) == 0 {
		return nil
	}
	a := &Act{State: raw[0].State, Policy: Text(raw[0].Policy[:]), Reason: Text(raw[0].Reason[:]), Torn: raw[0].Sequence%2 != 0}
	for _, c := range rows[RawActCount](s, SectionKindActCounts) {
		a.Counted = true
		if i, ok := actIndex[Text(c.Name[:])]; ok {
			a.Counts[i] = c.Value
		}
	}
	if !a.Torn {
		a.Decisions = rows[RawActDecision](s, SectionKindActDecisions)
	}
	return a
}

// ActCounts is what a rank in act mode has counted, or a sum over ranks, by Act*.
// As JSON it is an object with the names of docs/act-counts.md; names that this
// version does not know are passed over.
type ActCounts [len(actCounts)]uint64

// actIndex finds a count by its name.
var actIndex = func() map[string]int {
	index := map[string]int{}
	for i := range actCounts {
		index[actCounts[i].name] = i
	}
	return index
}()

// Add adds other; a sum stays at the largest number rather than wrap around.
func (c *ActCounts) Add(other *ActCounts) {
	for i, n := range other {
		c[i] += min(n, math.MaxUint64-c[i])
	}
}

// Rows are the counts as a segment has them.
func (c *ActCounts) Rows() []RawActCount {
	out := make([]RawActCount, len(c))
	for i := range c {
		copy(out[i].Name[:], actCounts[i].name)
		out[i].Value = c[i]
	}
	return out
}

// EachLeft calls f with what was left to the MPI library, by reason.
func (c *ActCounts) EachLeft(f func(reason string, n uint64)) {
	for i := actGroups["left"][0]; i < actGroups["left"][1]; i++ {
		if c[i] > 0 {
			f(actCounts[i].text, c[i])
		}
	}
}

// MarshalJSON implements json.Marshaler.
func (c ActCounts) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	for i, n := range c {
		b.WriteString(`,"` + actCounts[i].name + `":` + strconv.FormatUint(n, 10))
	}
	out := append(b.Bytes(), '}')
	out[0] = '{'
	return out, nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *ActCounts) UnmarshalJSON(text []byte) error {
	var named map[string]uint64
	if err := json.Unmarshal(text, &named); err != nil {
		return err
	}
	*c = ActCounts{}
	for name, n := range named {
		if i, ok := actIndex[name]; ok {
			c[i] = n
		}
	}
	return nil
}

// actLimit bounds what settleAct reads: more than any process writes there.
const actLimit = 64 << 10

// settleAct reads the figures of act mode again until they belong together, and
// marks them as torn if they do not after a few tries. origin is as of settle.
func (s *Segment) settleAct(f io.ReaderAt, origin []uint64) {
	type part struct {
		data []byte
		at   int64 // in the file
	}
	var act part
	var figures []part
	size := 0
	for i := range s.sections {
		sec := &s.sections[i]
		if sec.Used == 0 {
			continue
		}
		p := part{s.data[sec.Offset : sec.Offset+uint64(sec.Used)*uint64(sec.EntryBytes)], int64(sec.Offset)}
		if origin != nil {
			p.at = int64(origin[i])
		}
		switch sec.Kind {
		case SectionKindAct:
			act = p
			size += len(p.data)
		case SectionKindActCounts, SectionKindActDecisions:
			figures = append(figures, p)
			size += len(p.data)
		}
	}
	if act.data == nil {
		return
	}
	again := func(p part) bool {
		n, _ := f.ReadAt(p.data, p.at)
		return n == len(p.data)
	}
	sequence := act.data[unsafe.Offsetof(RawAct{}.Sequence):][:4]
	for try := 0; try < settleTries && size <= actLimit; try++ {
		whole := again(act)
		before := binary.LittleEndian.Uint32(sequence)
		for _, p := range figures {
			whole = again(p) && whole
		}
		whole = again(act) && whole
		if after := binary.LittleEndian.Uint32(sequence); whole && before == after && after%2 == 0 {
			return
		}
		time.Sleep(10 * time.Microsecond << try)
	}
	sequence[0] |= 1
}
