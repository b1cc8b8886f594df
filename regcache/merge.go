package regcache

// smallMerge is up to where small neighbours are registered together: 64 KiB cost
// about twice what a page does (bench/regcache).
const smallMerge = 64 << 10

// merged widens a request of [start, end) by neighbours, regions that it
// overlaps or touches, so that small buffers side by side, and windows that move
// over a larger one, end up in few regions. A neighbour is merged
//
//   - if it adds no more than it has in common with what is being registered, or
//   - if it adds no more than is being registered, and all is at most 64 KiB,
//
// as long as all lies in one bucket. So a merge at most doubles what is
// registered; what is merged has at most 2 MiB and depends on no more
// generations than the request; and pages asked for one after the other are
// registered 1 + log2(16) = 5 times each at most, not once for each that follows.
//
// A neighbour that is not merged may overlap what is registered: its pages are
// pinned twice, which registrars count.
//
// since is the sum of the request's generations, and they are unchanged: in one
// bucket, a neighbour is alive if its sum is the same.
func (c *Core) merged(start, end, since uint64) (uint64, uint64) {
	bucket := start >> BucketShift
	if (end-1)>>BucketShift != bucket {
		return start, end
	}
	worth := func(r *Region) bool {
		if r == nil || r.end < start || end < r.start || r.generation != since ||
			r.start>>BucketShift != bucket || (r.end-1)>>BucketShift != bucket {
			return false
		}
		common := min(end, r.end) - max(start, r.start)
		added := r.bytes() - common
		all := end - start + added
		return all <= c.most && (added <= common || added <= end-start && all <= smallMerge)
	}
	for grown := true; grown; {
		grown = false
		if r := c.index.left(start); worth(r) {
			start, end, grown = r.start, max(end, r.end), true
		}
		if r := c.index.right(end); worth(r) {
			start, end, grown = min(start, r.start), r.end, true
		}
	}
	return start, end
}
