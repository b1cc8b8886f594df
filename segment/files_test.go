package segment_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mpitrace/mpitrace/internal/synth"
	"github.com/mpitrace/mpitrace/segment"
)

// ownHeader makes a segment look like one of this very process.
func ownHeader(t *testing.T, h *segment.RawHeader) {
	t.Helper()
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		t.Fatal(err)
	}
	synth.SetText(h.BootID[:], strings.TrimSpace(string(boot)))
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	h.PIDStart = 0
	for _, digit := range fields[19] {
		h.PIDStart = h.PIDStart*10 + uint64(digit-'0')
	}
	h.PID = uint32(os.Getpid())
	var info unix.Stat_t
	if err := unix.Stat("/proc/self/ns/pid", &info); err != nil {
		t.Fatal(err)
	}
	h.PIDNamespace = info.Ino
}

// TestAlive knows this process, and no process that differs in one respect.
func TestAlive(t *testing.T) {
	h := job().Segment(0).Header
	ownHeader(t, &h)
	if !segment.Alive(&h) {
		t.Error("this process is not alive")
	}
	for name, spoil := range map[string]func(h *segment.RawHeader){
		"start time": func(h *segment.RawHeader) { h.PIDStart++ },
		"boot":       func(h *segment.RawHeader) { h.BootID[0]++ },
		"namespace":  func(h *segment.RawHeader) { h.PIDNamespace++ },
		"pid":        func(h *segment.RawHeader) { h.PID = 1 << 30 },
	} {
		other := h
		spoil(&other)
		if segment.Alive(&other) {
			t.Errorf("another %s is alive", name)
		}
	}
}

// TestReadFile reads a live segment and refuses what is none.
func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	w := job().Segment(2)
	ownHeader(t, &w.Header)
	good := filepath.Join(dir, "1-2.seg")
	if err := os.WriteFile(good, w.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := segment.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	if !s.Alive || s.ReadNS == 0 || s.Owner != uint32(os.Getuid()) || s.Threads()[0].Torn {
		t.Errorf("alive %v, read at %d, owner %d, torn %v", s.Alive, s.ReadNS, s.Owner, s.Threads()[0].Torn)
	}
	link := filepath.Join(dir, "link.seg")
	pipe := filepath.Join(dir, "pipe.seg")
	if err := errors.Join(os.Symlink(good, link), unix.Mkfifo(pipe, 0o600)); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{link: "symbolic link", pipe: "not a regular file", dir: "not a regular file", filepath.Join(dir, "none"): "no such file"} {
		if _, err := segment.ReadFile(path); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: error %v, want %q", path, err, text)
		}
	}
}

// TestReadOpen: a segment can be read as long as it is held open.
func TestReadOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "1-2.seg")
	w := job().Segment(2)
	if err := os.WriteFile(path, w.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	s, err := segment.ReadOpen(path, f, segment.SectionKindSites)
	if err != nil || len(s.Sites()) != len(w.Sites) || s.Owner != uint32(os.Getuid()) {
		t.Fatalf("%v, %+v", err, s)
	}
	if err := os.Truncate("/proc/self/fd/"+fmt.Sprint(f.Fd()), 5000); err != nil {
		t.Fatal(err)
	}
	if _, err := segment.ReadOpen(path, f); !errors.Is(err, segment.ErrTruncated) {
		t.Errorf("truncated: %v", err)
	}
}

// TestReadFileKinds reads the sections asked for, and refuses damage in them.
func TestReadFileKinds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "1-2.seg")
	w := job().Segment(2)
	ownHeader(t, &w.Header)
	w.Threads[0].Call, w.Threads[0].EnterTicks = 9, 77
	write := func(data []byte) {
		t.Helper()
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(w.Bytes())
	s, err := segment.ReadFile(path, segment.SectionKindSites, segment.SectionKindThread)
	if err != nil {
		t.Fatal(err)
	}
	if !s.Alive || len(s.Sites()) != len(w.Sites) || s.Sites()[3] != w.Sites[3] || s.Threads()[0].EnterTicks != 77 || s.Threads()[0].Torn {
		t.Errorf("alive %v, %d sites, thread %+v", s.Alive, len(s.Sites()), s.Threads())
	}
	if len(s.Functions())+len(s.Peers())+len(s.Comms()) > 0 {
		t.Error("sections that nobody asked for were read")
	}
	section := func(kind uint32) (directory int, entry segment.RawSection) {
		data := w.Bytes()
		for i := range int(w.Header.SectionCount) {
			at := segment.SectionsOffset + i*int(unsafe.Sizeof(entry))
			copy(unsafe.Slice((*byte)(unsafe.Pointer(&entry)), unsafe.Sizeof(entry)), data[at:])
			if entry.Kind == kind {
				return at, entry
			}
		}
		t.Fatalf("no section of kind %d", kind)
		return 0, entry
	}
	at, sites := section(segment.SectionKindSites)
	for text, spoil := range map[string]func(data []byte, sec *segment.RawSection) []byte{
		"truncated":            func(data []byte, sec *segment.RawSection) []byte { return data[:sec.Offset+9] },
		"inside the directory": func(data []byte, sec *segment.RawSection) []byte { sec.Offset = 100; return data },
		"entries used":         func(data []byte, sec *segment.RawSection) []byte { sec.Used = sec.Capacity + 1; return data },
		"should be":            func(data []byte, sec *segment.RawSection) []byte { sec.EntryBytes = 8; return data },
		"overlap": func(data []byte, sec *segment.RawSection) []byte {
			sec.Kind, sec.Offset = segment.SectionKindThread, segment.SectionsOffset+uint64(w.Header.SectionCount)*64
			sec.EntryBytes, sec.Used = 512, uint32((uint64(len(data))-sec.Offset)/512)
			sec.Capacity = sec.Used
			return data
		},
	} {
		sec := sites
		data := spoil(w.Bytes(), &sec)
		copy(data[at:], segment.Encode(sec))
		write(data)
		if _, err := segment.ReadFile(path, segment.SectionKindSites, segment.SectionKindThread); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("error %v, want %q", err, text)
		}
	}
}

// TestScan lists jobs and refuses a base directory that others may write.
func TestScan(t *testing.T) {
	base := filepath.Join(t.TempDir(), "base")
	if found, err := segment.Scan(base); found != nil || err != nil {
		t.Errorf("no directory: %v, %v", found, err)
	}
	dir, err := job().WriteSegments(base)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Chmod(base, 0o700), os.WriteFile(filepath.Join(dir, "control"), nil, 0o600),
		os.WriteFile(filepath.Join(dir, "9-9.seg"), []byte("rubbish"), 0o600)); err != nil {
		t.Fatal(err)
	}
	found, err := segment.Scan(base)
	if err != nil || len(found) != 7 {
		t.Fatalf("%d found, want 7: %v", len(found), err)
	}
	bad := 0
	for _, f := range found {
		if f.Err != nil {
			bad++
		}
		if f.Job != "test-1" || f.Alive {
			t.Errorf("job %q, alive %v", f.Job, f.Alive)
		}
	}
	if bad != 1 {
		t.Errorf("%d bad segments, want 1", bad)
	}
	if err := os.Chmod(base, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := segment.Scan(base); err == nil || !strings.Contains(err.Error(), "may be written by others") {
		t.Errorf("a directory for all is accepted: %v", err)
	}
	link := base + "-link"
	if err := os.Symlink(base, link); err != nil {
		t.Fatal(err)
	}
	if _, err := segment.Scan(link); err == nil {
		t.Error("a symbolic link is accepted")
	}
}

func TestBaseDirs(t *testing.T) {
	t.Setenv("MPITRACE_SEGMENT_DIR", "/somewhere")
	if got := segment.BaseDirs(); len(got) != 1 || got[0] != "/somewhere" {
		t.Errorf("%q", got)
	}
	t.Setenv("MPITRACE_SEGMENT_DIR", "")
	t.Setenv("TMPDIR", "/scratch")
	got := segment.BaseDirs()
	if len(got) != 2 || !strings.HasPrefix(got[0], "/dev/shm/mpitrace-") || !strings.HasPrefix(got[1], "/scratch/mpitrace-") {
		t.Errorf("%q", got)
	}
}

// TestNodeFile writes, reads and damages a node file.
func TestNodeFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "n.0.mtn")
	records := []segment.Record{
		{Kind: segment.RecordSegment, Data: mustParse(t, job().Segment(0).Bytes()).Compact()},
		{Kind: segment.RecordJSON, Data: []byte(`{"name":"job.json","content":{}}`)},
		{Kind: segment.RecordJSON, Data: []byte(`{}`)},
	}
	if err := segment.WriteNodeFile(path, "n", "j", "test", records); err != nil {
		t.Fatal(err)
	}
	if err := segment.WriteNodeFile(path, "n", "j", "test", nil); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a file was replaced: %v", err)
	}
	if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 1 {
		t.Errorf("temporary files are left: %v", left)
	}
	file, got, err := segment.ReadNodeFile(path)
	if err != nil || len(got) != 3 || segment.Text(file.Node[:]) != "n" || segment.Text(file.Writer[:]) != "test" {
		t.Fatalf("%d records of node %q: %v", len(got), file.Node, err)
	}
	for i := range got {
		if got[i].Kind != records[i].Kind || string(got[i].Data) != string(records[i].Data) {
			t.Errorf("record %d differs", i)
		}
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name    string
		spoil   func() []byte
		want    error
		records int
	}{
		{"cut", func() []byte { return data[:len(data)-9] }, segment.ErrTruncated, 2},
		{"cut in a head", func() []byte { return data[:len(data)-30] }, segment.ErrTruncated, 2},
		{"checksum", func() []byte { b := append([]byte{}, data...); b[5000] ^= 1; return b }, segment.ErrCorrupt, 2},
		{"record magic", func() []byte { b := append([]byte{}, data...); b[256] ^= 1; return b }, segment.ErrCorrupt, 0},
		{"newer", func() []byte { b := append([]byte{}, data...); b[8] = 9; return b }, segment.ErrVersion, 0},
		{"foreign", func() []byte { return []byte("PNG") }, segment.ErrNotSegment, 0},
		{"head only", func() []byte { return data[:100] }, segment.ErrTruncated, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "bad.mtn")
			if err := os.WriteFile(path, test.spoil(), 0o600); err != nil {
				t.Fatal(err)
			}
			_, got, err := segment.ReadNodeFile(path)
			if !errors.Is(err, test.want) || len(got) != test.records {
				t.Errorf("%d records and error %v, want %d and %v", len(got), err, test.records, test.want)
			}
		})
	}
}
