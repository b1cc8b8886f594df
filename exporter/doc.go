// Package exporter shows jobs to Prometheus. It owns what each metric of
// spec/metrics.json is computed from: a segment becomes a Process, a job is the
// sum of its processes, a Page is the jobs that one reader may see.
//
//	registry.MustRegister(exporter.Exporter{Page: page})
//
// Each file with a collector makes one part of a page. Counters are raw totals;
// rates and shares are left to PromQL (packaging/prometheus/rules.yml), but for
// figures that only exist inside one scrape, such as quantiles over ranks.
//
// It must not contain: where segments come from, when they are read, who may see
// what (internal/agent), or how reports look.
package exporter
