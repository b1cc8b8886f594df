package top

import (
	"errors"
	"time"
)

// How often who is late is worked out: as the run doubles, at last each
// minute, and so that it takes half a percent of one core; when the user looks
// at it, so that it takes a tenth.
const (
	latePeriod      = time.Minute
	lateCostOdds    = 200
	lateCostLooking = 10
)

// reader reads what a Model wants.
type reader struct {
	source Source
	lateAt time.Time     // when who is late was worked out
	took   time.Duration // by that
	job    string        // of that
}

// read reads what is wanted of the source.
func (r *reader) read(w Want) Reading {
	out, began := Reading{Want: w}, time.Now()
	problem := func(err error) {
		if err != nil && !out.Gone {
			out.Problems = append(out.Problems, err.Error())
		}
	}
	if w.Jobs {
		out.Jobs, out.Problems = r.source.Jobs()
	}
	if w.Job == "" {
		return out
	}
	var err error
	if w.Totals {
		out.Snapshot, err = r.source.Snapshot(w.Job)
		if errors.Is(err, ErrGone) {
			out.Gone = true
			out.Snapshot, out.Result = r.source.Result(w.Job)
		}
		problem(err)
	}
	if w.Rank != (RankID{}) {
		out.Detail, err = r.source.Detail(w.Job, w.Rank)
		problem(err)
	}
	out.Took = time.Since(began)
	if r.lateDue(w, out.Snapshot) {
		out.Lateness, err = r.source.Lateness(w.Job)
		problem(err)
		r.job, r.lateAt = w.Job, time.Now()
		if out.Lateness != nil {
			r.took = out.Lateness.Took
		}
	}
	return out
}

// lateDue tells whether it is time to work out again who is late.
func (r *reader) lateDue(w Want, s *Snapshot) bool {
	since := time.Since(r.lateAt)
	switch {
	case r.job != w.Job:
		return w.Late || s != nil && len(s.Ranks) > 1
	case w.Late:
		return since >= lateCostLooking*r.took
	case s == nil || len(s.Ranks) < 2:
		return false
	}
	return since >= max(min(latePeriod, time.Duration(s.Job.WallNS/2)), lateCostOdds*r.took)
}

// pauseAfter is how long to wait after a reading that took some time: at least
// the interval, and long enough that reading takes a tenth of the time at most.
func pauseAfter(interval, took time.Duration) time.Duration { return max(interval, 9*took) }
