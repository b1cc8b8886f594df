package otf2

import (
	"bufio"
	"encoding/binary"
	"io"
)

// Types of records, as in c/otf2/stream.h, which says what follows each.
const (
	recEnter           = 1
	recLeave           = 2
	recSend            = 3
	recIsend           = 4
	recReceive         = 5
	recReceiveRequest  = 6
	recIreceive        = 7
	recCollectiveBegin = 8
	recCollectiveEnd   = 9
	recClose           = 10
	recClock           = 16
	recString          = 17
	recNode            = 18
	recProcess         = 19
	recLocation        = 20
	recRegion          = 21
	recGroup           = 22
	recComm            = 23
	recProperty        = 24
	recEnd             = 32
)

const (
	magic = "MPTOTF2\x01"
	none  = 1<<32 - 1
	// textMax bounds texts: longer ones are cut.
	textMax = 1 << 12
)

// stream writes records.
type stream struct {
	out     *bufio.Writer
	records uint64
	events  uint64
	body    []byte
	err     error
}

func newStream(w io.Writer) *stream {
	s := &stream{out: bufio.NewWriterSize(w, 1<<17)}
	_, s.err = s.out.WriteString(magic)
	return s
}

// record writes one record of 32- and 64-bit numbers.
func (s *stream) record(typ uint32, fields ...any) {
	s.body = s.body[:0]
	for _, f := range fields {
		switch v := f.(type) {
		case uint32:
			s.body = binary.LittleEndian.AppendUint32(s.body, v)
		case uint64:
			s.body = binary.LittleEndian.AppendUint64(s.body, v)
		case []uint64:
			for _, n := range v {
				s.body = binary.LittleEndian.AppendUint64(s.body, n)
			}
		case string:
			s.body = append(s.body, v...)
		}
	}
	if s.err != nil {
		return
	}
	var head [8]byte
	binary.LittleEndian.PutUint32(head[:], typ)
	binary.LittleEndian.PutUint32(head[4:], uint32(len(s.body)))
	if _, s.err = s.out.Write(head[:]); s.err == nil {
		_, s.err = s.out.Write(s.body)
	}
	s.records++
	if typ < recClose {
		s.events++
	}
}

func (s *stream) end() error {
	s.record(recEnd, s.records)
	if s.err == nil {
		s.err = s.out.Flush()
	}
	return s.err
}
