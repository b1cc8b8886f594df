package extsort

import (
	"cmp"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

type record struct {
	key  uint32
	body [3]uint32
}

func byKey(a, b *record) int { return cmp.Compare(a.key, b.key) }

// TestSort compares with sorting in memory, from nothing to so many runs that
// they are merged more than once.
func TestSort(t *testing.T) {
	dir := t.TempDir()
	for _, n := range []int{0, 1, 7, 8, 9, 1000, 20_000} {
		random := rand.New(rand.NewPCG(1, uint64(n)))
		s := New(byKey, Options{Bytes: 8 * 16, Dir: dir})
		var want []record
		for range n {
			r := record{key: random.Uint32N(1 << 20)}
			r.body[2] = ^r.key
			want = append(want, r)
			if err := s.Add(r); err != nil {
				t.Fatal(err)
			}
		}
		slices.SortFunc(want, func(a, b record) int { return byKey(&a, &b) })
		sorted, err := s.Sort()
		if err != nil {
			t.Fatal(err)
		}
		check(t, sorted, want)
		check(t, sorted.View(), want)
		if n > 0 {
			back, err := sorted.At(0)
			if err != nil || *back != want[0] {
				t.Errorf("again the first of %d: %v, %v", n, back, err)
			}
		}
		sorted.Close()
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%d files are left, %v", len(left), err)
	}
}

func check(t *testing.T, sorted *Sorted[record], want []record) {
	t.Helper()
	if sorted.Len() != len(want) {
		t.Fatalf("%d of %d records", sorted.Len(), len(want))
	}
	for i := range want {
		got, err := sorted.At(i)
		if err != nil || got.key != want[i].key || got.body[2] != ^got.key {
			t.Fatalf("record %d is %v, want %v: %v", i, got, want[i], err)
		}
	}
}

// TestMemory holds at most what was allowed.
func TestMemory(t *testing.T) {
	s := New(byKey, Options{Bytes: 16 * 100, Dir: t.TempDir()})
	for i := range 1000 {
		if err := s.Add(record{key: uint32(i)}); err != nil {
			t.Fatal(err)
		}
		if cap(s.buffer) > 125 { // the allocator rounds up
			t.Fatalf("%d records in memory after %d", cap(s.buffer), i+1)
		}
	}
	s.Close()
}

// TestNoDirectory says what is missing.
func TestNoDirectory(t *testing.T) {
	s := New(byKey, Options{Bytes: 2 * 16, Dir: filepath.Join(t.TempDir(), "none")})
	var err error
	for range 3 {
		err = errors.Join(err, s.Add(record{}))
	}
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
}
