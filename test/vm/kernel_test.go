package vm

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"strings"
	"testing"
)

// bootable is an image with this payload, as a kernel's build makes it.
func bootable(payload []byte) []byte {
	b := make([]byte, 1024)
	b[0x1f1] = 1
	copy(b[0x202:], "HdrS")
	binary.LittleEndian.PutUint16(b[0x206:], 0x20f)
	binary.LittleEndian.PutUint32(b[0x248:], 8)
	binary.LittleEndian.PutUint32(b[0x24c:], uint32(len(payload))+4)
	return append(append(append(b, make([]byte, 8)...), payload...), 1, 2, 3, 4)
}

var packed = []byte("\xfd7zXZ\x00 and so on")

func TestPayload(t *testing.T) {
	whole := bootable(packed)
	if got, err := payloadOf(whole); err != nil || !bytes.Equal(got, packed) {
		t.Errorf("%q, %v", got, err)
	}
	for want, b := range map[string][]byte{
		"boot protocol": whole[:0x24e],
		"outside":       whole[:len(whole)-6],
		"xz":            bootable([]byte("\x1f\x8b and so on")),
	} {
		if _, err := payloadOf(b); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func FuzzPayload(f *testing.F) {
	f.Add(bootable(packed))
	f.Add(bootable(packed)[:0x250])
	f.Fuzz(func(t *testing.T, b []byte) {
		if got, err := payloadOf(b); err == nil && len(got) > len(b) {
			t.Errorf("%d bytes of %d", len(got), len(b))
		}
	})
}

// TestArchive checks the format by hand: 110 bytes of header, names and contents
// that begin at multiples of four.
func TestArchive(t *testing.T) {
	var out bytes.Buffer
	a := &archive{w: bufio.NewWriter(&out)}
	a.add("ab", plain, []byte("12345"))
	a.add("TRAILER!!!", 0, nil)
	if a.err != nil || a.w.Flush() != nil {
		t.Fatal(a.err)
	}
	want := "070701" + "00000001" + "000081a4" + strings.Repeat("00000000", 2) + "00000001" + "00000000" + "00000005" +
		strings.Repeat("00000000", 4) + "00000003" + "00000000" + "ab\x00" + "\x00\x00\x00" + "12345" + "\x00\x00\x00"
	if !strings.HasPrefix(out.String(), want) {
		t.Errorf("%q\nwant %q", out.String(), want)
	}
	if out.Len()%4 != 0 {
		t.Errorf("%d bytes", out.Len())
	}
}
