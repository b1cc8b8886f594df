package perfetto

// shareBins is how many values the counter of a rank has.
const shareBins = 500

// share adds up the time in MPI of one rank, over spans of equal length. Of
// several threads the busiest is shown.
type share struct {
	binNS  int64
	tracks []depth
}

// depth is the nesting of calls on one track and the time in them.
type depth struct {
	open int
	from int64
	bins []float64
}

func newShare(endNS int64) share { return share{binNS: max(1, (endNS+shareBins-1)/shareBins)} }

func (s *share) track(n int) *depth {
	for len(s.tracks) <= n {
		s.tracks = append(s.tracks, depth{bins: make([]float64, shareBins)})
	}
	return &s.tracks[n]
}

func (s *share) enter(track int, ns int64) {
	d := s.track(track)
	if d.open == 0 {
		d.from = ns
	}
	d.open++
}

func (s *share) leave(track int, ns int64) {
	d := s.track(track)
	if d.open--; d.open > 0 {
		return
	}
	for at := d.from; at < ns; {
		bin := at / s.binNS
		end := min(ns, (bin+1)*s.binNS)
		if bin >= shareBins {
			break
		}
		d.bins[bin] += float64(end-at) / float64(s.binNS)
		at = end
	}
}

// each calls f with the begin of each span whose share differs from the one
// before it.
func (s *share) each(f func(ns int64, percent float64)) {
	before := -1.0
	for i := range shareBins {
		percent := 0.0
		for t := range s.tracks {
			percent = max(percent, 100*min(1, s.tracks[t].bins[i]))
		}
		if percent != before || i == shareBins-1 {
			f(int64(i)*s.binNS, percent)
		}
		before = percent
	}
}
