package exporter

import (
	"cmp"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metric is one entry of spec/metrics.json.
type metric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

// sink takes the samples of one collector.
type sink struct {
	out chan<- prometheus.Metric
	err error // the first sample that was refused
}

// put adds a sample; labels are in the order of the spec.
func (s *sink) put(m metric, value float64, labels ...string) {
	sample, err := prometheus.NewConstMetric(m.desc, m.kind, value, labels...)
	if err != nil {
		s.err = cmp.Or(s.err, err)
		return
	}
	s.out <- sample
}

// seconds of a number of nanoseconds.
func seconds(ns uint64) float64 { return float64(ns) / 1e9 }

// ratio is a/b, at most 1; 0 if b is 0.
func ratio(a, b float64) float64 {
	if !(b > 0) {
		return 0
	}
	return min(1, a/b)
}

// unix is a moment in seconds since 1970.
func unix(t time.Time) float64 { return float64(t.UnixNano()) / 1e9 }
