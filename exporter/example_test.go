package exporter_test

import (
	"fmt"
	"log"

	"github.com/mpitrace/mpitrace/exporter"
	"github.com/mpitrace/mpitrace/internal/synth"
	"github.com/mpitrace/mpitrace/segment"
	"github.com/prometheus/client_golang/prometheus"
)

// Shows a job of one rank.
func Example() {
	s, err := segment.Parse("rank 0", synth.Job{ID: "demo", Ranks: 1}.Segment(0).Bytes())
	if err != nil {
		log.Fatal(err)
	}
	process, err := exporter.ProcessOf(s, 3600e9)
	if err != nil {
		log.Fatal(err)
	}
	job := exporter.Job{ID: "4711", User: "alice", Node: "node000", Run: "demo", Total: process.Counters, Ranks: []exporter.Process{process}}
	registry := prometheus.NewRegistry()
	registry.MustRegister(exporter.Exporter{Page: &exporter.Page{Node: "node000", Jobs: []exporter.Job{job}}})
	families, err := registry.Gather()
	if err != nil {
		log.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == "mpitrace_job_calls_total" {
			for _, m := range family.GetMetric() {
				fmt.Println(m.GetLabel()[2].GetValue(), m.GetCounter().GetValue())
			}
		}
	}
	// Output:
	// allreduce 10000
	// bcast 4
	// manage 1
	// other 2
	// setup 2
	// wait 10000
}
