package regcache

// Stats are totals since the cache was made, but for the first two, which are
// what is there now.
type Stats struct {
	PinnedBytes uint64 // registered, dead regions included; pages that two regions share count twice
	Regions     uint64 // the same, in regions

	Hits          uint64          // requests that found a region; those served by a Front are its own to count
	Misses        uint64          // requests that registered, or were refused
	Merges        uint64          // regions that a larger one took the place of
	Evictions     uint64          // regions deregistered to make room
	Invalidations uint64          // regions whose memory changed
	Refused       uint64          // requests refused
	RefusedBy     [reasons]uint64 // the same, by Reason
}
