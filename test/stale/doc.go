// Package stale tests whether a registration of memory can be found that is not
// of the memory that is there now. programs/ loses memory in every way known,
// gets other memory at the same address, and looks; it is run with the kernel
// monitor, with libucm, with several allocators, in threads, and in programs of
// both MPI families. A control with generations that never change shows that
// each way does lose memory.
//
// cache.c does the same with messages over the fabric from registrations of the
// whole cache, Go included. docs/memory-monitor.md has the table of ways, which a
// test compares with what is found here.
//
// make test-stale does a million cycles of each way, the tests otherwise 500, and
// logs what each run found. It must not contain figures of speed.
package stale
