package reusetrack

import (
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"testing"

	"github.com/mpitrace/mpitrace/segment"
)

// dumb is the usage table as slowly and plainly as it can be said.
type dumb struct {
	rows    []segment.RawBuffer
	at      map[[2]uint64]int
	seen    uint32
	room    int
	max     int
	stopped uint32
	reuse   [segment.PathPaths]segment.RawReuse
}

func (d *dumb) access(a Access) {
	if a.Path >= segment.PathPaths {
		return
	}
	d.seen++
	r := &d.reuse[a.Path]
	r.Accesses[min(bits.Len64(a.Bytes), 39)]++
	key := [2]uint64{a.Address, uint64(a.Path)}
	if i, ok := d.at[key]; ok {
		b := &d.rows[i]
		r.Reused[min(bits.Len64(a.Bytes), 39)]++
		r.Distances[min(bits.Len32(d.seen-b.Last), 31)]++
		if b.Bytes != a.Bytes {
			b.Resized = uint16(min(int(b.Resized)+1, 65535))
		}
		b.Accesses, b.Last, b.Bytes = b.Accesses+1, d.seen, a.Bytes
		return
	}
	if a.Address == 0 || !d.takes() {
		r.Untracked++
		return
	}
	d.at[key] = len(d.rows)
	d.rows = append(d.rows, segment.RawBuffer{Address: a.Address, Bytes: a.Bytes, Accesses: 1, Last: d.seen, Path: uint16(a.Path)})
}

func (d *dumb) takes() bool {
	if len(d.rows) < d.room {
		return true
	}
	frequent := 0
	for _, b := range d.rows {
		if b.Accesses >= 16 {
			frequent++
		}
	}
	if d.stopped == 1 || 2*d.room > d.max || float64(frequent) < 0.2*float64(len(d.rows)) {
		d.stopped = 1
		return false
	}
	d.room = max(512, 2*d.room)
	return true
}

func (d *dumb) totals() []segment.RawReuse {
	for path := range d.reuse {
		d.reuse[path].Path, d.reuse[path].Stopped = uint32(path), d.stopped
	}
	return d.reuse[:]
}

// agree replays a log on both tables.
func agree(t *testing.T, log []Access) *Table {
	t.Helper()
	table, plain := &Table{}, &dumb{at: map[[2]uint64]int{}, max: TableRows}
	for _, a := range log {
		table.Access(a)
		plain.access(a)
	}
	if !reflect.DeepEqual(table.Rows(), plain.rows) {
		t.Fatalf("%d rows, the plain table has %d or others", len(table.Rows()), len(plain.rows))
	}
	if !reflect.DeepEqual(table.Reuse(), plain.totals()) {
		t.Fatalf("totals differ:\n%+v\n%+v", table.Reuse(), plain.totals())
	}
	return table
}

// randomLog uses buffers of which some are much hotter than others, on all
// paths, with sizes that sometimes change.
func randomLog(r *rand.Rand, n, buffers int) []Access {
	log := make([]Access, n)
	for i := range log {
		b := uint64(r.IntN(buffers))
		if r.IntN(2) == 0 {
			b = uint64(r.IntN(1 + buffers/8))
		}
		log[i] = Access{Address: b * 48, Path: uint32(r.IntN(3)), Bytes: 1 << (b % 20)}
		if r.IntN(10) == 0 {
			log[i].Bytes += uint64(r.IntN(3))
		}
	}
	return log
}

func TestTableAgainstPlainOne(t *testing.T) {
	stopped := 0
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 1))
		log := randomLog(r, 1000<<(seed%6), 1+r.IntN(20<<(seed%11)))
		if agree(t, log).Stopped() {
			stopped++
		}
	}
	if stopped == 0 || stopped == 40 {
		t.Errorf("%d of 40 tables stopped: the logs exercise one case only", stopped)
	}
}

func FuzzTable(f *testing.F) {
	f.Add([]byte("a buffer, a path, a size; and again, and again"))
	f.Add(make([]byte, 4096))
	f.Fuzz(func(t *testing.T, data []byte) {
		var log []Access
		for ; len(data) >= 4; data = data[4:] {
			address := uint64(binary.LittleEndian.Uint16(data))
			log = append(log, Access{Address: address << (data[3] % 48), Path: uint32(data[2] % 5), Bytes: 1<<(data[2]/4) - 1})
		}
		agree(t, log)
	})
}

func TestSameAddressOtherLength(t *testing.T) {
	table := agree(t, []Access{{0x1000, 0, 800}, {0x1000, 0, 800}, {0x1000, 0, 3000}, {0x1000, 1, 800}, {0x1000, 0, 800}})
	rows, send := table.Rows(), table.Reuse()[segment.PathSend]
	if len(rows) != 2 || rows[0].Accesses != 4 || rows[0].Resized != 2 || rows[0].Bytes != 800 || rows[1].Accesses != 1 {
		t.Errorf("rows %+v: one buffer on each path, resized twice, were expected", rows)
	}
	if send.Reused[10] != 2 || send.Reused[12] != 1 || send.Distances[1] != 2 || send.Distances[2] != 1 {
		t.Errorf("reused %v, distances %v: uses count at the payload that they had", send.Reused, send.Distances)
	}
}

// TestFreedAndReallocated: an allocator hands the same address out again. The
// table cannot tell, and says one buffer.
func TestFreedAndReallocated(t *testing.T) {
	var log []Access
	for range 100 {
		log = append(log, Access{0x7f0010, 0, 4096}) // malloc, send, free
	}
	table := agree(t, log)
	if rows := table.Rows(); len(rows) != 1 || rows[0].Accesses != 100 {
		t.Errorf("%+v", rows)
	}
}

func TestStopRule(t *testing.T) {
	fill := func(frequent, uses int) []Access { // 513 buffers, the first of them used often
		var log []Access
		for range uses - 1 {
			for b := range frequent {
				log = append(log, Access{uint64(b+1) * 64, 0, 256})
			}
		}
		for b := range 513 {
			log = append(log, Access{uint64(b+1) * 64, 0, 256})
		}
		return append(log, Access{64, 0, 256})
	}
	for _, c := range []struct {
		name           string
		frequent, uses int
		stops          bool
	}{
		{"a fifth of 512 is 102.4: 102 are too few", 102, 16, true},
		{"103 are enough", 103, 16, false},
		{"15 uses are not frequent", 512, 15, true},
		{"nothing is used again", 0, 1, true},
	} {
		table := agree(t, fill(c.frequent, c.uses))
		if table.Stopped() != c.stops {
			t.Errorf("%s: stopped %v", c.name, table.Stopped())
		}
		want := 513
		if c.stops {
			want = 512
		}
		send := table.Reuse()[segment.PathSend]
		if got := len(table.Rows()); got != want || send.Untracked != uint64(513-want) || send.Stopped != uint32(513-want) {
			t.Errorf("%s: %d rows, %d untracked, stopped %d", c.name, got, send.Untracked, send.Stopped)
		}
		if table.Rows()[0].Accesses != uint32(max(c.uses, 1)+1) {
			t.Errorf("%s: a row of a stopped table must go on counting: %d", c.name, table.Rows()[0].Accesses)
		}
	}
}

// TestFullTable: so many buffers in frequent use are all that it holds.
func TestFullTable(t *testing.T) {
	var log []Access
	for b := range TableRows + 10 {
		for range TableFrequent {
			log = append(log, Access{uint64(b+1) * 4096, 2, 512})
		}
	}
	table := agree(t, log)
	if origin := table.Reuse()[segment.PathOrigin]; len(table.Rows()) != TableRows || !table.Stopped() || origin.Untracked != 10*TableFrequent {
		t.Errorf("%d rows, %d untracked", len(table.Rows()), origin.Untracked)
	}
}

// TestRulesAreThoseOfC reads the constants of the table in C, which must not
// drift away from those of its twin.
func TestRulesAreThoseOfC(t *testing.T) {
	text, err := os.ReadFile("../c/probe/shard.h")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{"CHUNK": TableChunk, "ROWS": TableRows, "FREQUENT": TableFrequent, "SHARE": TableShare} {
		m := regexp.MustCompile(`MT_REUSE_` + name + ` = (\d+),`).FindSubmatch(text)
		if m == nil || string(m[1]) != strconv.Itoa(want) {
			t.Errorf("c/probe/shard.h has %q, this package %d", m, want)
		}
	}
}

func TestMaxRows(t *testing.T) {
	table := Table{MaxRows: 600}
	for b := range uint64(600) {
		for range TableFrequent {
			table.Access(Access{b*64 + 64, 0, 8})
		}
	}
	if len(table.Rows()) != TableChunk || !table.Stopped() {
		t.Errorf("%d rows: there is no room to double within 600", len(table.Rows()))
	}
}

func TestAccessWithoutAddress(t *testing.T) {
	table := agree(t, []Access{{0, 0, 0}, {0, 0, 8}, {8, 0, 8}, {0, 9, 8}})
	if send := table.Reuse()[segment.PathSend]; send.Untracked != 2 || send.Accesses[4] != 2 || len(table.Rows()) != 1 || table.Stopped() {
		t.Errorf("%+v", send)
	}
}

func TestAccessAllocatesNothing(t *testing.T) {
	var table Table
	table.Access(Access{64, 0, 8})
	if n := testing.AllocsPerRun(100, func() { table.Access(Access{64, 0, 8}) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkAccess(b *testing.B) {
	var table Table
	i := uint64(0)
	for b.Loop() {
		i++
		table.Access(Access{i%64*4160 + 64, 0, 8})
	}
}
