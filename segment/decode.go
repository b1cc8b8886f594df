package segment

import (
	"encoding/binary"
	"unsafe"
)

// littleEndian tells whether this machine stores numbers as segments do.
var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// decode copies count entries that lie stride bytes apart at the start of
// data. The caller has checked that data is long enough and that stride is at
// least the size of T. T holds only fixed-size numbers and arrays of them,
// without hidden padding (asserted by TestLayout), so its bytes are its value.
func decode[T any](into []T, data []byte, stride, count int) []T {
	size := int(unsafe.Sizeof(*new(T)))
	start := len(into)
	into = append(into, make([]T, count)...)
	if count == 0 {
		return into
	}
	if !littleEndian {
		for i := range count {
			// The sizes agree, so Decode has no error to give.
			_, _ = binary.Decode(data[i*stride:i*stride+size], binary.LittleEndian, &into[start+i])
		}
		return into
	}
	raw := unsafe.Slice((*byte)(unsafe.Pointer(&into[start])), count*size)
	if stride == size {
		copy(raw, data)
		return into
	}
	for i := range count {
		copy(raw[i*size:(i+1)*size], data[i*stride:])
	}
	return into
}

// Encode is the bytes of entries as they lie in a segment or node file.
func Encode[T any](entries ...T) []byte {
	if len(entries) == 0 {
		return nil
	}
	if !littleEndian {
		out, err := binary.Append(nil, binary.LittleEndian, entries)
		if err != nil {
			return nil // not reached: entries are fixed-size
		}
		return out
	}
	size := int(unsafe.Sizeof(entries[0]))
	out := make([]byte, size*len(entries))
	copy(out, unsafe.Slice((*byte)(unsafe.Pointer(&entries[0])), len(out)))
	return out
}
