package segment_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mpitrace/mpitrace/internal/synth"
	"github.com/mpitrace/mpitrace/segment"
)

func ranks(r *segment.Result) []int32 {
	var out []int32
	for _, s := range r.Segments {
		out = append(out, s.Header.WorldRank)
	}
	return out
}

// TestReadResult joins node files; ranks come in order.
func TestReadResult(t *testing.T) {
	dir := t.TempDir()
	if err := job().Write(dir); err != nil {
		t.Fatal(err)
	}
	r, err := segment.ReadResult(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Segments) != 6 || len(r.Problems) != 0 || r.Live || r.Symbols == nil || r.Job != nil {
		t.Errorf("%d segments, problems %q, live %v", len(r.Segments), r.Problems, r.Live)
	}
	for i, rank := range ranks(r) {
		if int(rank) != i {
			t.Errorf("segment %d is of rank %d", i, rank)
		}
	}
}

// TestTwoCopies keeps the later copy of a process, and falls back to the
// earlier one if the later is damaged.
func TestTwoCopies(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, lastTicks uint64, number uint64) string {
		w := job().Segment(0)
		w.Header.LastTicks = lastTicks
		w.Threads[0].GuardRepairs = number
		path := filepath.Join(dir, name)
		err := segment.WriteNodeFile(path, "node000", "j", "t", []segment.Record{{Kind: segment.RecordSegment, Data: mustParse(t, w.Bytes()).Compact()}})
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("a.0.mtn", 100, 1)
	late := write("a.1.mtn", 200, 2)
	write("a.2.mtn", 150, 3)
	kept := func() uint64 {
		r, err := segment.ReadResult(dir)
		if err != nil || len(r.Segments) != 1 {
			t.Fatalf("%v, %v", r, err)
		}
		return r.Segments[0].Threads()[0].GuardRepairs
	}
	if got := kept(); got != 2 {
		t.Errorf("copy %d was kept, want 2", got)
	}
	data, err := os.ReadFile(late)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)-100] ^= 0xff
	if err := os.WriteFile(late, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := kept(); got != 3 {
		t.Errorf("with the best copy damaged, copy %d was kept, want 3", got)
	}
	// Of a killed process all copies have the same ticks: the name says nothing.
	write("z.0.mtn", 300, 4)
	write("b.10.mtn", 300, 5)
	write("b.2.mtn", 300, 6)
	write("c.0.mtn", 300, 7)
	if got := kept(); got != 7 {
		t.Errorf("of equal ones copy %d was kept, want 7, written last", got)
	}
}

// TestExec: of a process that MPI was initialised in before and after exec the last
// program is read, and it is said that there was another one.
func TestExec(t *testing.T) {
	dir := t.TempDir()
	for i, ticks := range []uint64{100, 300} {
		w := job().Segment(0)
		w.Header.InitEnterTicks, w.Header.LastTicks = ticks, ticks+50
		path := filepath.Join(dir, fmt.Sprintf("a.%d.mtn", i))
		err := segment.WriteNodeFile(path, "node000", "j", "t", []segment.Record{{Kind: segment.RecordSegment, Data: mustParse(t, w.Bytes()).Compact()}})
		if err != nil {
			t.Fatal(err)
		}
	}
	r, err := segment.ReadResult(dir)
	if err != nil || len(r.Segments) != 1 || r.Segments[0].Header.InitEnterTicks != 300 {
		t.Fatalf("%v, %v", r, err)
	}
	if len(r.Problems) != 1 || !strings.Contains(r.Problems[0], "exec") {
		t.Errorf("problems %q", r.Problems)
	}
}

// TestHostileResults: whatever lies in a directory, what can be read is read
// and the rest is named.
func TestHostileResults(t *testing.T) {
	dir := t.TempDir()
	if err := job().Write(dir); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]string{
		"newer.0.mtn": "MPITRNOD" + string(rune(segment.VersionMajor+1)) + "\x00\x00\x00\x00\x00\x00\x00", "empty.0.mtn": "", "job.json": "{broken", ".hidden.mtn": "x", "notes.txt": "x",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("node000.0.mtn", filepath.Join(dir, "link.0.mtn")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "dir.0.mtn"), 0o700); err != nil {
		t.Fatal(err)
	}
	r, err := segment.ReadResult(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Segments) != 6 || r.Job != nil {
		t.Errorf("%d segments, want 6", len(r.Segments))
	}
	all := strings.Join(r.Problems, "\n")
	for _, want := range []string{"newer mpitrace", "empty.0.mtn", "job.json", "symbolic link", "not a regular file"} {
		if !strings.Contains(all, want) {
			t.Errorf("no problem speaks of %q:\n%s", want, all)
		}
	}
	if len(r.Problems) != 5 {
		t.Errorf("%d problems, want 5:\n%s", len(r.Problems), all)
	}
}

// TestNothingToRead gives one error that says what is wrong.
func TestNothingToRead(t *testing.T) {
	dir := t.TempDir()
	broken := filepath.Join(dir, "x.mtn")
	if err := os.WriteFile(broken, []byte("MPITRNOD\x05\x00\x00\x00\x00\x00\x00\x00"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{
		t.TempDir():                   "not a result of mpitrace",
		dir:                           "newer mpitrace",
		broken:                        "newer mpitrace",
		filepath.Join(dir, "nothing"): "no such file",
	} {
		if _, err := segment.ReadResult(path); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: error %v, want %q", path, err, text)
		}
	}
}

// TestPackedAndLive reads a packed file and a job directory in shared memory.
func TestPackedAndLive(t *testing.T) {
	j := job()
	dir, err := j.WriteSegments(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	live, err := segment.ReadResult(dir)
	if err != nil || !live.Live || len(live.Segments) != 6 {
		t.Fatalf("live: %v, %v", live, err)
	}
	records := []segment.Record{{Kind: segment.RecordJSON, Data: []byte(`{"name":"job.json","content":{"command":"x"}}`)}}
	for _, s := range live.Segments {
		records = append(records, segment.Record{Kind: segment.RecordSegment, Data: s.Compact()})
	}
	packed := filepath.Join(t.TempDir(), "all.mtn")
	if err := segment.WriteNodeFile(packed, "pack", j.ID, "test", records); err != nil {
		t.Fatal(err)
	}
	r, err := segment.ReadResult(packed)
	if err != nil || r.Live || len(r.Segments) != 6 || string(r.Job) != `{"command":"x"}` {
		t.Errorf("packed: %v, %v", r, err)
	}
}

// TestWalkAllocatesLittle: reading a rank costs a handful of allocations, so
// that jobs of many ranks stay cheap.
func TestWalkAllocatesLittle(t *testing.T) {
	dir := t.TempDir()
	j := synth.Scale(256)
	if err := j.Write(dir); err != nil {
		t.Fatal(err)
	}
	n := 0
	got := testing.AllocsPerRun(1, func() {
		n = 0
		if _, err := segment.WalkResult(dir, func(s *segment.Segment) error { n++; return nil }); err != nil {
			t.Error(err)
		}
	})
	if n != 256 {
		t.Errorf("%d segments visited, want 256", n)
	}
	if perRank := got / 256; perRank > 40 {
		t.Errorf("%.0f allocations per rank, at most 40 are expected", perRank)
	}
}
