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
		over, going, ok := compareArrivals(list, j.past, k.limits) // past changes below only
		k.compared(j, list, over, going, ok, k.now().Sub(begin))
	}
}

// lingering is how long the segments of a world are kept open after its last
// process, while others of the job go on: longer than a job takes to end.
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
	going := map[string]bool{} // worlds that may have more to tell
	for _, h := range best.segments {
		if !h.final || now.Sub(h.read) <= lingering {
			going[h.process.World] = true
		}
	}
	for _, h := range best.segments {
		if !h.compared && h.file != nil && h.trouble == "" {
			list = append(list, compareOne{h, h.file, over || !going[h.process.World]})
		} else if h.final {
			h.compared = true
			k.closeSegment(h)
		}
	}
	return best, list
}

// compareArrivals reads and compares: the arrivals of the worlds that are over,
// and of those that go on, nil if there are none. With what is known of the past
// they may have more than the limits allow: false.
func compareArrivals(list []compareOne, past *exporter.Arrivals, l limits) (over, going *exporter.Arrivals, ok bool) {
	analysis := arrival.New(arrival.Options{})
	samples, known := 0, 0
	if past != nil {
		known = past.Sampled + len(past.Ranks)
	}
	if len(list) > l.ranks {
		return nil, nil, false
	}
	last := map[string]bool{}
	for _, h := range list {
		s, err := segment.ReadOpen(h.name, h.file, compareSections...)
		if err != nil {
			continue // counted when its counters are read
		}
		kept, _ := s.Arrivals()
		if samples += len(kept); known+samples > l.arrivals {
			return nil, nil, false
		}
		analysis.Add(s)
		last[s.Header.WorldID()] = h.last
	}
	if samples == 0 {
		return nil, nil, true
	}
	var ended, others arrival.Result
	for _, c := range analysis.Result().Classes {
		if last[c.World] {
			ended.Classes = append(ended.Classes, c)
		} else {
			others.Classes = append(others.Classes, c)
		}
	}
	return exporter.ArrivalsOf(&ended), exporter.ArrivalsOf(&others), true
}

// compared takes the result over and lets go what nothing more comes from.
func (k *keeper) compared(j *job, list []compareOne, over, going *exporter.Arrivals, ok bool, took time.Duration) {
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
	case !j.large:
		j.past = j.past.Plus(over)
		j.arrivals = j.past.Plus(going)
	}
	for _, h := range list {
		if h.last {
			h.held.compared = true
			k.closeSegment(h.held)
		}
	}
	k.endJobs()
}
