package memmon

import (
	"encoding/binary"
	"fmt"
)

// The wire format: c/include/memmon.h, with which a test compares this.
const (
	magic   = 0x6d4d746d
	version = 1

	requestBytes = 16
	answerBytes  = 32

	requestWatch  = 1
	requestDetach = 2

	buckets = 1024
	shift   = 21
)

// DefaultSocket is where processes look for the helper unless told otherwise.
const DefaultSocket = "/run/mpitrace/memmon.sock"

// result is what an answer says.
type result uint16

const (
	resultOK result = iota
	resultOtherVersion
	resultMalformed
	resultRefused
	resultFull
	resultFailed
)

// parseRequest reads the type of a request. The result is not resultOK with an
// error only.
func parseRequest(b []byte) (kind uint16, r result, err error) {
	order := binary.NativeEndian
	if len(b) < 8 || order.Uint32(b) != magic {
		return 0, resultMalformed, fmt.Errorf("%d bytes that are not a request", len(b))
	}
	if v := order.Uint16(b[4:]); v != version {
		return 0, resultOtherVersion, fmt.Errorf("a request of version %d, this is version %d", v, version)
	}
	kind = order.Uint16(b[6:])
	switch {
	case len(b) != requestBytes:
		err = fmt.Errorf("a request of %d bytes, not %d", len(b), requestBytes)
	case kind != requestWatch && kind != requestDetach:
		err = fmt.Errorf("a request of type %d", kind)
	case order.Uint64(b[8:]) != 0:
		err = fmt.Errorf("a request with reserved bits")
	default:
		return kind, resultOK, nil
	}
	return 0, resultMalformed, err
}

// answer is what a process is told.
type answer struct {
	result result
	token  uint64
	files  int // descriptors that come with it
}

// encode is the answer as it is sent.
func (a answer) encode() []byte {
	order := binary.NativeEndian
	b := order.AppendUint32(make([]byte, 0, answerBytes), magic)
	b = order.AppendUint16(b, version)
	b = order.AppendUint16(b, uint16(a.result))
	b = order.AppendUint32(b, buckets)
	b = order.AppendUint32(b, shift)
	b = order.AppendUint64(b, a.token)
	b = order.AppendUint32(b, uint32(a.files))
	return order.AppendUint32(b, uint32(pageBytes(8*buckets)))
}
