package exporter

import "github.com/mpitrace/mpitrace/reusetrack"

// reuseCollector: how often message buffers are used again.
type reuseCollector struct{}

func (reuseCollector) Update(p *Page, out *sink) {
	for i := range p.Jobs {
		j := &p.Jobs[i]
		for path, accesses := range j.Total.Accesses {
			if accesses == 0 {
				continue
			}
			out.job(jobBufferAccesses, j, float64(accesses), reusetrack.PathName(path))
			out.job(jobBufferReuses, j, float64(j.Total.Reuses[path]), reusetrack.PathName(path))
		}
	}
}
