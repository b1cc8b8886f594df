// Package stale tests whether a registration of memory can be found that is not
// of the memory that is there now. programs/ loses memory in every way known,
// gets other memory at the same address, and looks; it is run with the kernel
// monitor, with libucm, with several allocators, in threads, and in programs of
// both MPI families. A control with generations that never change shows that
// each way does lose memory.
//
// make test-stale does a million cycles of each way; the tests otherwise ten
// thousand. It must not contain figures of speed.
package stale
