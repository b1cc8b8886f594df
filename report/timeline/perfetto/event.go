package perfetto

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/mpitrace/mpitrace/report/timeline"
	"github.com/mpitrace/mpitrace/segment"
)

// event is a TrackEvent before its texts are interned.
type event struct {
	typ            uint64
	track          uint64
	name, category string
	place          *timeline.Place
	value          float64 // of a counter
	flows, ends    []uint64
	annotations    []annotation
}

// annotation is a named value, or several under one name: a dictionary if they
// have names, else an array.
type annotation struct {
	name  string
	field protowire.Number
	value uint64
	text  string
	parts []annotation
}

func (e *event) uint(name string, v uint64) {
	e.annotations = append(e.annotations, annotation{name: name, field: annotationUint, value: v})
}

func (e *event) int(name string, v int64) {
	e.annotations = append(e.annotations, annotation{name: name, field: annotationInt, value: uint64(v)})
}

func (e *event) text(name, v string) {
	if v != "" {
		e.annotations = append(e.annotations, annotation{name: name, field: annotationTextIID, text: v})
	}
}

func (e *event) flag(name string, v bool) {
	if v {
		e.annotations = append(e.annotations, annotation{name: name, field: annotationBool, value: 1})
	}
}

func (e *event) comm(c *timeline.Comm) {
	if c != nil {
		e.text("communicator", c.Name)
	}
}

// peer writes a world rank, or what is known of it.
func (e *event) peer(name string, rank int32) {
	switch {
	case rank >= 0:
		e.int(name, int64(rank))
	case rank == segment.PeerForeign:
		e.text(name, "outside MPI_COMM_WORLD")
	}
}

// messagesShown is how many messages of a call are annotated one by one.
const messagesShown = 16

// call tells of a call and of the messages that it sent or completed. Flows
// are written of all of them.
func (e *event) call(c *timeline.Call) {
	e.flag("in_progress_when_last_seen", c.Open)
	e.flag("known_by_its_message_alone", c.Implied)
	for i := range c.Ends {
		end := &c.Ends[i]
		switch {
		case end.Flow == 0:
		case end.Receive:
			e.ends = append(e.ends, end.Flow)
		default:
			e.flows = append(e.flows, end.Flow)
		}
	}
	if c.Place != nil {
		e.text("place", c.Place.Location)
	}
	if len(c.Ends) == 0 {
		e.comm(c.Comm)
		if c.Root >= 0 {
			e.int("root", int64(c.Root))
		} else {
			e.peer("peer", c.Peer)
		}
		if c.Tag >= 0 && c.Comm != nil {
			e.int("tag", int64(c.Tag))
		}
		if c.Bytes > 0 {
			e.uint("bytes", c.Bytes)
		}
		return
	}
	if len(c.Ends) == 1 {
		e.end(&c.Ends[0])
		return
	}
	e.uint("messages", uint64(len(c.Ends)))
	list := annotation{name: "message", field: annotationArray}
	for i := range c.Ends[:min(len(c.Ends), messagesShown)] {
		var one event
		one.end(&c.Ends[i])
		list.parts = append(list.parts, annotation{field: annotationDict, parts: one.annotations})
	}
	e.annotations = append(e.annotations, list)
}

// end tells of one message.
func (e *event) end(m *timeline.End) {
	name := "to_rank"
	if m.Receive {
		name = "from_rank"
	}
	e.peer(name, m.Peer)
	e.int("tag", int64(m.Tag))
	e.uint("bytes", m.Bytes)
	e.comm(m.Comm)
	e.flag("any_source", m.AnySource)
	e.flag("any_tag", m.AnyTag)
	e.flag("completion_not_seen", m.Estimated)
	e.flag("not_matched", m.Flow == 0)
}

// message is an annotation with its texts interned.
func (a *annotation) message(q *sequence) message {
	var v message
	if a.name != "" {
		v.uint(annotationNameIID, q.intern(internedAnnotations, a.name))
	}
	switch a.field {
	case annotationDict, annotationArray:
		for i := range a.parts {
			v.message(a.field, a.parts[i].message(q))
		}
	case annotationTextIID:
		v.uint(a.field, q.intern(internedTexts, a.text))
	default:
		v.uint(a.field, a.value)
	}
	return v
}

// write writes an event.
func (w *Writer) write(q *sequence, ns int64, e *event) {
	var m message
	m.uint(eventType, e.typ)
	m.uint(eventTrack, e.track)
	if e.category != "" {
		m.uint(eventCategoryIID, q.intern(internedCategories, e.category))
	}
	if e.name != "" {
		m.uint(eventNameIID, q.intern(internedNames, e.name))
	}
	if e.place != nil {
		m.uint(eventLocationIID, q.location(e.place))
	}
	if e.typ == typeCounter {
		m.double(eventDouble, e.value)
	}
	for i := range e.annotations {
		m.message(eventAnnotation, e.annotations[i].message(q))
	}
	for _, id := range e.flows {
		m.fixed(eventFlow, id)
	}
	for _, id := range e.ends {
		m.fixed(eventFlowEnd, id)
	}
	w.packet(q, ns, packetTrackEvent, m)
}
