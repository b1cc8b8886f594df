package agent

import (
	"os"
	"time"

	"github.com/mpitrace/mpitrace/arrival"
	"github.com/mpitrace/mpitrace/exporter"
	"github.com/mpitrace/mpitrace/segment"
)

const (
	// compareEvery is how old the comparison of a running job may be at least.
	compareEvery = 15 * time.Second
	// compareShare bounds the comparing of running jobs: after one that took t
	// there is none for so many times t.
	compareShare = 200
)

// compareSections are the sections with samples of arrivals.
var compareSections = []uint32{segment.SectionKindComms, segment.SectionKindArrivals, segment.SectionKindArrivalClasses}

// compare has the arrivals compared of all jobs that are over, and of at most
// one that runs.
func (k *keeper) compare() {
	k.comparing.Lock()
	defer k.comparing.Unlock()
	for {
		j, list := k.toCompare()
		if j == nil {
			return
		}
		begin := k.now()
		arrivals, ok := compareArrivals(list, k.limits)
		k.compared(j, list, arrivals, ok, k.now().Sub(begin))
	}
}

// lingering is how long the samples of a process that is over are compared with
// those of processes that go on: longer than a job takes to end.
const lingering = time.Minute

// compareOne is a segment to compare.
type compareOne struct {
	*held
	file *os.File
	last bool // nothing more is to be learnt from it
}

// toCompare picks a job: one that is over, else the running one that was not
// compared for longest.
func (k *keeper) toCompare() (*job, []compareOne) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.now()
	var best *job
	for _, j := range k.jobs {
		if j.over() && !j.settled() {
			best = j
			break
		}
		due := !j.over() && now.After(k.rest) && now.Sub(j.compared) >= compareEvery
		if due && (best == nil || j.compared.Before(best.compared)) {
			best = j
		}
	}
	if best == nil {
		return nil, nil
	}
	list, over := []compareOne{}, best.over()
	for _, h := range best.segments {
		if !h.compared && h.file != nil && h.trouble == "" {
			list = append(list, compareOne{h, h.file, h.final && (over || now.Sub(h.read) > lingering)})
		} else if h.final {
			h.compared = true
			k.closeSegment(h)
		}
	}
	return best, list
}

// compareArrivals reads and compares; false: the job has more than the limits
// allow.
func compareArrivals(list []compareOne, l limits) (*exporter.Arrivals, bool) {
	analysis := arrival.New(arrival.Options{})
	samples := 0
	if len(list) > l.ranks {
		return nil, false
	}
	for _, h := range list {
		s, err := segment.ReadOpen(h.name, h.file, compareSections...)
		if err != nil {
			continue // counted when its counters are read
		}
		kept, _ := s.Arrivals()
		if samples += len(kept); samples > l.arrivals {
			return nil, false
		}
		analysis.Add(s)
	}
	if samples == 0 {
		return nil, true
	}
	return exporter.ArrivalsOf(analysis.Result()), true
}

// compared takes the result over and lets go what nothing more comes from.
func (k *keeper) compared(j *job, list []compareOne, arrivals *exporter.Arrivals, ok bool, took time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.now()
	k.stats.AnalysisTotal += took
	k.rest = now.Add(compareShare * took)
	j.compared = now
	switch {
	case !ok && !j.large:
		j.large = true
		k.stats.Errors[failedCompareLimit]++
	case arrivals != nil:
		j.arrivals = arrivals
	}
	for _, h := range list {
		if h.last {
			h.held.compared = true
			k.closeSegment(h.held)
		}
	}
	k.endJobs()
}
