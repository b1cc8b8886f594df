package memmon

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

func request(kind uint16) []byte {
	b := binary.NativeEndian.AppendUint32(nil, magic)
	b = binary.NativeEndian.AppendUint16(b, version)
	b = binary.NativeEndian.AppendUint16(b, kind)
	return binary.NativeEndian.AppendUint64(b, 0)
}

func changed(b []byte, at int) []byte {
	b[at] ^= 0xff
	return b
}

func TestParseRequest(t *testing.T) {
	for _, test := range []struct {
		name   string
		bytes  []byte
		kind   uint16
		result result
	}{
		{"watch", request(requestWatch), requestWatch, resultOK},
		{"detach", request(requestDetach), requestDetach, resultOK},
		{"nothing", nil, 0, resultMalformed},
		{"another magic", changed(request(requestWatch), 0), 0, resultMalformed},
		{"another version", changed(request(requestWatch), 4), 0, resultOtherVersion},
		{"another version, shorter", changed(request(requestWatch), 4)[:8], 0, resultOtherVersion},
		{"another type", request(7), 0, resultMalformed},
		{"reserved bits", changed(request(requestWatch), 12), 0, resultMalformed},
		{"too short", request(requestWatch)[:15], 0, resultMalformed},
		{"too long", append(request(requestWatch), 0), 0, resultMalformed},
	} {
		kind, r, err := parseRequest(test.bytes)
		if kind != test.kind || r != test.result || (err == nil) != (r == resultOK) {
			t.Errorf("%s: type %d, result %d, error %v", test.name, kind, r, err)
		}
	}
}

func FuzzParseRequest(f *testing.F) {
	f.Add(request(requestWatch))
	f.Add(request(requestDetach)[:9])
	f.Fuzz(func(t *testing.T, b []byte) {
		kind, r, err := parseRequest(b)
		if r != resultOK && (err == nil || kind != 0) || r == resultOK && (err != nil || string(b) != string(request(kind))) {
			t.Errorf("%x: type %d, result %d, error %v", b, kind, r, err)
		}
	})
}

// TestHeader compiles c/include/memmon.h and compares what it says.
func TestHeader(t *testing.T) {
	dir := t.TempDir()
	source, exe := filepath.Join(dir, "header.c"), filepath.Join(dir, "header")
	include, err := filepath.Abs("../../c/include/memmon.h")
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("#include \"%s\"\n#include <stdio.h>\n", include) + `
#define AT(field) offsetof(struct mt_memmon_answer, field)
int main(void)
{
    printf("%#x %d %d %d|%s|%d %d %d %d\n", MT_MEMMON_MAGIC, MT_MEMMON_VERSION, MT_MEMHOOK_BUCKETS, MT_MEMHOOK_SHIFT, MT_MEMMON_SOCKET,
           MT_MEMMON_WATCH, MT_MEMMON_DETACH, (int)sizeof(struct mt_memmon_request), (int)sizeof(struct mt_memmon_answer));
    printf("%d %d %d %d %d %d\n", MT_MEMMON_OK, MT_MEMMON_OTHER_VERSION, MT_MEMMON_MALFORMED, MT_MEMMON_REFUSED, MT_MEMMON_FULL, MT_MEMMON_FAILED);
    struct mt_memmon_answer a = {MT_MEMMON_MAGIC, MT_MEMMON_VERSION, MT_MEMMON_FULL, MT_MEMHOOK_BUCKETS, MT_MEMHOOK_SHIFT, 0x1122334455667788, 4, 8192};
    for (unsigned i = 0; i < sizeof a; i++) {
        printf("%02x", ((unsigned char *)&a)[i]);
    }
    return 0;
}
`
	if err := os.WriteFile(source, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("gcc", "-std=gnu11", "-o", exe, source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.Command(exe).Output()
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("%#x %d %d %d|%s|%d %d %d %d\n", magic, version, buckets, shift, DefaultSocket, requestWatch, requestDetach, requestBytes, answerBytes)
	want += fmt.Sprintf("%d %d %d %d %d %d\n", resultOK, resultOtherVersion, resultMalformed, resultRefused, resultFull, resultFailed)
	want += fmt.Sprintf("%x", answer{resultFull, 0x1122334455667788, 4}.encode())
	if string(out) != want {
		t.Errorf("the header says\n%s\nthis package\n%s", out, want)
	}
}
