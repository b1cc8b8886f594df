package extsort

import (
	"cmp"
	"container/heap"
	"fmt"
	"io"
	"os"
	"slices"
	"unsafe"
)

// Options of New. The zero value is good.
type Options struct {
	Bytes int    // memory; 0: 64 MiB
	Dir   string // of temporary files; empty: that of os.TempDir
}

const (
	defaultBytes = 64 << 20
	fanIn        = 64      // runs that are merged at a time
	readAhead    = 1 << 14 // records that Sorted reads at a time
)

// Sorter takes records in any order. It is not safe for concurrent use.
type Sorter[T any] struct {
	compare func(a, b *T) int
	dir     string
	limit   int // records in memory
	buffer  []T
	runs    []*run[T]
}

// New makes a Sorter of records T, which must not hold pointers. Records that
// compare equal keep no order.
func New[T any](compare func(a, b *T) int, options Options) *Sorter[T] {
	size := int(unsafe.Sizeof(*new(T)))
	return &Sorter[T]{compare: compare, dir: options.Dir, limit: max(2, cmp.Or(options.Bytes, defaultBytes)/size)}
}

// Add takes a record. The error is about temporary files.
func (s *Sorter[T]) Add(record T) error {
	if len(s.buffer) == s.limit {
		if err := s.spill(); err != nil {
			return err
		}
	}
	if cap(s.buffer) == len(s.buffer) { // double, but never beyond the limit
		s.buffer = slices.Grow(s.buffer, min(max(1024, len(s.buffer)), s.limit-len(s.buffer)))
	}
	s.buffer = append(s.buffer, record)
	return nil
}

func (s *Sorter[T]) sortBuffer() {
	slices.SortFunc(s.buffer, func(a, b T) int { return s.compare(&a, &b) })
}

// spill writes what is in memory as a run.
func (s *Sorter[T]) spill() error {
	s.sortBuffer()
	r, err := newRun[T](s.dir)
	if err != nil {
		return err
	}
	s.runs = append(s.runs, r)
	if err := r.write(s.buffer); err != nil {
		return err
	}
	s.buffer = s.buffer[:0]
	return nil
}

// Sort ends the adding. The Sorter keeps nothing; the caller closes the result.
func (s *Sorter[T]) Sort() (*Sorted[T], error) {
	if len(s.runs) == 0 {
		s.sortBuffer()
		out := &Sorted[T]{memory: s.buffer, n: len(s.buffer)}
		s.buffer = nil
		return out, nil
	}
	if err := s.spill(); err != nil {
		return nil, err
	}
	s.buffer = nil
	for len(s.runs) > 1 {
		n := min(fanIn, len(s.runs))
		merged, err := s.merge(s.runs[:n])
		if err != nil {
			return nil, err
		}
		s.runs = append(s.runs[n:], merged)
	}
	out := &Sorted[T]{run: s.runs[0], n: s.runs[0].n, window: window[T]{run: s.runs[0], size: max(1, min(s.limit/8, readAhead))}}
	s.runs = nil
	return out, nil
}

// Close gives temporary files back; after Sort there is nothing to do.
func (s *Sorter[T]) Close() {
	for _, r := range s.runs {
		r.file.Close()
	}
	s.runs, s.buffer = nil, nil
}

// merge makes one run of several, which it closes.
func (s *Sorter[T]) merge(runs []*run[T]) (*run[T], error) {
	out, err := newRun[T](s.dir)
	if err != nil {
		return nil, err
	}
	share := max(1, s.limit/(len(runs)+1))
	h := &mergeHeap[T]{compare: s.compare}
	for _, r := range runs {
		h.heads = append(h.heads, &head[T]{window: window[T]{run: r, size: share}})
	}
	buffer := make([]T, 0, share)
	if err := h.begin(); err != nil {
		return nil, err
	}
	for len(h.heads) > 0 {
		first := h.heads[0]
		buffer = append(buffer, first.record)
		if len(buffer) == cap(buffer) {
			if err := out.write(buffer); err != nil {
				return nil, err
			}
			buffer = buffer[:0]
		}
		if err := h.advance(first); err != nil {
			return nil, err
		}
	}
	return out, out.write(buffer)
}

// head is the next record of a run.
type head[T any] struct {
	window window[T]
	record T
	next   int
}

type mergeHeap[T any] struct {
	heads   []*head[T]
	compare func(a, b *T) int
}

func (h *mergeHeap[T]) Len() int { return len(h.heads) }
func (h *mergeHeap[T]) Less(i, j int) bool {
	return h.compare(&h.heads[i].record, &h.heads[j].record) < 0
}
func (h *mergeHeap[T]) Swap(i, j int) { h.heads[i], h.heads[j] = h.heads[j], h.heads[i] }
func (h *mergeHeap[T]) Push(any)      {}
func (h *mergeHeap[T]) Pop() any {
	h.heads = h.heads[:len(h.heads)-1]
	return nil
}

// begin reads the first record of every run; no run is empty.
func (h *mergeHeap[T]) begin() error {
	for _, run := range h.heads {
		record, err := run.window.at(0)
		if err != nil {
			return err
		}
		run.record, run.next = *record, 1
	}
	heap.Init(h)
	return nil
}

// advance goes to the next record of the first run.
func (h *mergeHeap[T]) advance(first *head[T]) error {
	if first.next == first.window.run.n {
		first.window.run.file.Close()
		heap.Pop(h)
		return nil
	}
	record, err := first.window.at(first.next)
	if err != nil {
		return err
	}
	first.record = *record
	first.next++
	heap.Fix(h, 0)
	return nil
}

// run is sorted records in a file without a name: it is gone when it is
// closed, however the process ends.
type run[T any] struct {
	file *os.File
	n    int
}

func newRun[T any](dir string) (*run[T], error) {
	f, err := os.CreateTemp(dir, "mpitrace-sort-*")
	if err != nil {
		return nil, fmt.Errorf("temporary file: %w", err)
	}
	if err := os.Remove(f.Name()); err != nil {
		f.Close()
		return nil, fmt.Errorf("temporary file: %w", err)
	}
	return &run[T]{file: f}, nil
}

// bytesOf is the memory of records.
func bytesOf[T any](records []T) []byte {
	if len(records) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&records[0])), len(records)*int(unsafe.Sizeof(records[0])))
}

func (r *run[T]) write(records []T) error {
	if _, err := r.file.Write(bytesOf(records)); err != nil {
		return fmt.Errorf("temporary file: %w", err)
	}
	r.n += len(records)
	return nil
}

// window is the part of a run that is in memory.
type window[T any] struct {
	run     *run[T]
	size    int
	first   int
	records []T
}

func (w *window[T]) at(i int) (*T, error) {
	if i < w.first || i >= w.first+len(w.records) {
		n := min(w.size, w.run.n-i)
		w.records = slices.Grow(w.records[:0], n)[:n]
		size := int64(unsafe.Sizeof(*new(T)))
		if got, err := w.run.file.ReadAt(bytesOf(w.records), int64(i)*size); got < n*int(size) {
			w.records = w.records[:0]
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return nil, fmt.Errorf("temporary file: %w", err)
		}
		w.first = i
	}
	return &w.records[i-w.first], nil
}

// Sorted is records in order.
type Sorted[T any] struct {
	memory []T
	run    *run[T]
	window window[T]
	n      int
}

// Len is the number of records.
func (s *Sorted[T]) Len() int { return s.n }

// At is record i, valid until the next call. Asked in order it reads ahead. A
// second reader of the same records wants a View of its own.
func (s *Sorted[T]) At(i int) (*T, error) {
	if s.run == nil {
		return &s.memory[i], nil
	}
	return s.window.at(i)
}

// View is the same records with a place of its own to read ahead from.
func (s *Sorted[T]) View() *Sorted[T] {
	v := *s
	v.window.records = nil
	return &v
}

// Close gives the temporary file back; views are then of no use.
func (s *Sorted[T]) Close() {
	if s.run != nil {
		s.run.file.Close()
	}
	s.memory = nil
}
