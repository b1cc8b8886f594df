package perfetto

import (
	"bufio"
	"io"
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/mpitrace/mpitrace/report/timeline"
)

// message is the bytes of one message of the format.
type message []byte

func (m *message) uint(field protowire.Number, v uint64) {
	*m = protowire.AppendVarint(protowire.AppendTag(*m, field, protowire.VarintType), v)
}

func (m *message) int(field protowire.Number, v int64) { m.uint(field, uint64(v)) }

func (m *message) fixed(field protowire.Number, v uint64) {
	*m = protowire.AppendFixed64(protowire.AppendTag(*m, field, protowire.Fixed64Type), v)
}

func (m *message) double(field protowire.Number, v float64) { m.fixed(field, math.Float64bits(v)) }

func (m *message) text(field protowire.Number, v string) {
	*m = protowire.AppendString(protowire.AppendTag(*m, field, protowire.BytesType), v)
}

func (m *message) message(field protowire.Number, v message) {
	*m = protowire.AppendBytes(protowire.AppendTag(*m, field, protowire.BytesType), v)
}

// sequence is one packet sequence with what it has interned. Each track has
// one, so that its timestamps never decrease.
type sequence struct {
	id       uint64
	begun    bool
	interned map[internKey]uint64
	pending  message // InternedData that the next packet brings
}

type internKey struct {
	field protowire.Number
	text  string
	place *timeline.Place
}

// intern is the number of a text within the sequence.
func (s *sequence) intern(field protowire.Number, text string) uint64 {
	key := internKey{field: field, text: text}
	iid, ok := s.interned[key]
	if !ok {
		iid = s.number(key)
		var entry message
		entry.uint(internedIID, iid)
		entry.text(internedText, text)
		s.pending.message(field, entry)
	}
	return iid
}

// location is the number of a source location within the sequence.
func (s *sequence) location(p *timeline.Place) uint64 {
	key := internKey{field: internedLocations, place: p}
	iid, ok := s.interned[key]
	if !ok {
		iid = s.number(key)
		var entry message
		entry.uint(internedIID, iid)
		file := p.Site.File
		if file == "" {
			file = p.Location
		}
		entry.text(internedText, file)
		if p.Site.Symbol != "" {
			entry.text(locationFunction, p.Site.Symbol)
		}
		if p.Site.Line > 0 {
			entry.uint(locationLine, uint64(p.Site.Line))
		}
		s.pending.message(internedLocations, entry)
	}
	return iid
}

func (s *sequence) number(key internKey) uint64 {
	if s.interned == nil {
		s.interned = map[internKey]uint64{}
	}
	iid := uint64(len(s.interned) + 1)
	s.interned[key] = iid
	return iid
}

// stream writes packets.
type stream struct {
	out  *bufio.Writer
	next uint64 // packet sequence
	err  error
}

func newStream(w io.Writer) *stream { return &stream{out: bufio.NewWriterSize(w, 1<<18)} }

func (s *stream) sequence() *sequence {
	s.next++
	return &sequence{id: s.next}
}

// packet writes a TracePacket with one field of content.
func (s *stream) packet(q *sequence, ns int64, field protowire.Number, content message) {
	var p message
	if field == packetTrackEvent {
		p.uint(packetTimestamp, uint64(ns))
	}
	p.uint(packetSequence, q.id)
	flags := uint64(flagNeeds)
	if !q.begun {
		flags |= flagCleared
		q.begun = true
	}
	p.uint(packetFlags, flags)
	if len(q.pending) > 0 {
		p.message(packetInterned, q.pending)
		q.pending = q.pending[:0]
	}
	p.message(field, content)
	var out message
	out.message(tracePacket, p)
	if s.err == nil {
		_, s.err = s.out.Write(out)
	}
}
