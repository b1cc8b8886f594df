package exporter

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Collector makes one part of a page.
type Collector interface {
	// Update sends the samples of the page.
	Update(p *Page, out *sink)
}

// collectors by name, in the order of the page.
var collectors = []struct {
	name string
	Collector
}{
	{"job", jobCollector{}},
	{"operation", operationCollector{}},
	{"arrival", arrivalCollector{}},
	{"reuse", reuseCollector{}},
	{"drop", dropCollector{}},
	{"overhead", overheadCollector{}},
	{"act", actCollector{}},
	{"rank", rankCollector{}},
	{"node", nodeCollector{}},
	{"agent", agentCollector{}},
}

// Exporter shows one page to Prometheus; it is made anew for each scrape.
type Exporter struct {
	Page *Page
	// Now is the clock of the durations; nil: time.Now.
	Now func() time.Time
}

// Describe sends all descriptors.
func (e Exporter) Describe(out chan<- *prometheus.Desc) {
	for _, m := range metrics {
		out <- m.desc
	}
}

// Collect runs all collectors and times them.
func (e Exporter) Collect(out chan<- prometheus.Metric) {
	now := e.Now
	if now == nil {
		now = time.Now
	}
	for _, c := range collectors {
		begin, own, success := now(), sink{out: out}, 1.0
		c.Update(e.Page, &own)
		if own.err != nil {
			success = 0
		}
		own.put(agentCollectorDurationSeconds, now().Sub(begin).Seconds(), c.name)
		own.put(agentCollectorSuccess, success, c.name)
	}
}
