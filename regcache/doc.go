// Package regcache keeps registered memory registered: a buffer that is sent
// again is pinned once, and unpinned when room is needed or its memory is gone.
//
// A request is rounded to whole pages. It is served by one region that covers
// it; else it is registered, together with neighbours where that is cheap
// (merge.go), and stays so when its last reference is released ("lazy
// deregistration": M. J. Rashti, Queen's University 2010, section 3.5.1).
// Regions without references are deregistered when a budget of bytes or regions
// is used up, the longest unused first.
//
// A region is right as long as the memory behind it is the memory that was
// registered. Whoever watches that (c/memhook) counts changes in generations,
// one per bucket of addresses; a region keeps the sum of its buckets' generations
// and is dead when the sum differs: it is not handed out again, and is
// deregistered with its last reference. That is sound because of when the sum
// is read: while the buffer belongs to the caller, in the call that it is passed
// to. Every unmapping after that changes a generation before it unmaps, so a sum
// that is found unchanged later means that the memory has been the same all
// along, whenever in between it was registered. A sum read at the time of
// registering by another thread would be too late: an unmapping may have changed
// the generation already and not have unmapped yet.
//
// In front of the cache may stand a table (Front; c/regcache) from which threads
// take references without coming here; the one thread that serves the cache
// then learns from the table what is asked for (Promote) and what may be evicted.
//
// Core is for one thread, Cache puts a lock around it.
//
// It owns: which regions there are, their references, budgets and eviction. It
// must not contain: what registering is (Registrar), who watches memory, MPI,
// networks. It imports nothing of this module.
package regcache
