package timeline

// track is calls of a thread that lie within or after one another.
type track struct {
	index  int // of the rank
	thread int
	open   []placed
	lastNS int64
}

// maxTracks bounds the tracks of a rank; only a damaged trace has so many.
const maxTracks = 1024

// trackFor is the track of a thread on which a call from enter to exit, in
// ticks, lies within or behind the others; calls that have ended by then are
// closed. Calls of one thread never overlap otherwise, unless threads share a
// shard or their blocks were not told apart: these get a further track.
func (r *Rank) trackFor(w Writer, thread int, enter, exit uint64) (*track, error) {
	for _, t := range r.tracks {
		if t.thread != thread {
			continue
		}
		for n := len(t.open); n > 0 && t.open[n-1].record.Event.ExitTicks <= enter; n-- {
			if err := t.close(w); err != nil {
				return nil, err
			}
		}
		if n := len(t.open); n == 0 || t.open[n-1].record.Event.ExitTicks >= exit {
			return t, nil
		}
	}
	if len(r.tracks) == maxTracks {
		return r.tracks[maxTracks-1], nil // its end is cut there
	}
	t := &track{index: len(r.tracks), thread: thread}
	r.tracks = append(r.tracks, t)
	return t, nil
}

// close leaves the innermost call.
func (t *track) close(w Writer) error {
	last := &t.open[len(t.open)-1]
	t.lastNS = max(t.lastNS, last.EndNS)
	err := w.Leave(&last.Call)
	t.open = t.open[:len(t.open)-1]
	return err
}

// closeAll leaves all calls of the rank.
func (r *Rank) closeAll(w Writer) error {
	for _, t := range r.tracks {
		for len(t.open) > 0 {
			if err := t.close(w); err != nil {
				return err
			}
		}
	}
	return nil
}
