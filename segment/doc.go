// Package segment reads what libmpishim.so leaves behind: the shared-memory
// segments of processes that run or have died, and the node files of a result
// directory. It holds the only knowledge of their bytes on the Go side.
//
// A segment is one file per process: a header, a directory of sections and
// arrays of fixed-size entries (layout_gen.go, generated from
// spec/segment.json). It may be read at any moment, also while it is written
// and after its process was killed:
//
//	found, err := segment.Scan(base)           // all segments below a base directory
//	s, err := segment.ReadFile(found[0].Path)  // one of them
//	result, err := segment.ReadResult("mpitrace-4711")
//
// Nothing in a file is trusted: offsets, counts and lengths are checked before
// use, texts are cleaned of control characters, and a damaged file gives an
// error that says what is wrong and where. Files are read with pread into
// memory of this process, never mapped, because another process may truncate
// them.
//
// This package does not aggregate over ranks, look up symbols or print; that
// is the work of package report.
package segment
