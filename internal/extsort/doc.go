// Package extsort sorts more records than fit into memory: sorted runs go to
// temporary files that have no name, and are merged (Knuth, The Art of Computer
// Programming, volume 3, 5.4).
//
//	s := extsort.New(compare, extsort.Options{Bytes: 64 << 20})
//	err := s.Add(record)
//	sorted, err := s.Sort()
//	for i := range sorted.Len() { record, err := sorted.At(i) }
//	err = sorted.Close()
//
// Records are of a fixed size and hold no pointers. Memory is bounded by
// Options.Bytes, whatever the number of records; the disk holds each record
// twice while runs are merged.
//
// It must not contain: knowledge of what is sorted.
package extsort
