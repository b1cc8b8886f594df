package regcache

// merged widens a request of [start, end) by neighbours, regions that it
// overlaps or touches, so that small buffers side by side end up in few regions.
// Two rules bound that:
//
//   - What is merged lies in one bucket. So it has at most 2 MiB, and depends on
//     no more generations than the request.
//   - A neighbour adds at most as much as is being registered already. So a
//     merge at most doubles what is registered: buffers of one page, asked for
//     one after the other, are registered 1 + log2(512) = 10 times each at most,
//     not once for every buffer that follows.
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
	in := func(r *Region) bool {
		return r != nil && r.start>>BucketShift == bucket && (r.end-1)>>BucketShift == bucket &&
			r.generation == since && r.bytes()+(end-start) <= c.opt.MaxBytes
	}
	for grown := true; grown; {
		grown = false
		if r := c.index.left(start); in(r) && r.end >= start && start-r.start <= end-start {
			start, grown = r.start, true
		}
		if r := c.index.right(end); in(r) && r.start <= end && r.end-end <= end-start {
			end, grown = r.end, true
		}
	}
	return start, end
}
