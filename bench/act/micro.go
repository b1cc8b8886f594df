package main

import (
	"github.com/mpitrace/mpitrace/internal/microbench"
	"github.com/mpitrace/mpitrace/test/mpijob"
)

func ptr(x float64) *float64 { return &x }

// datagrams goes on without a connection for longer than the measurement takes.
const datagrams = "transport=ud-first,rc-after=1000000000"

// latency: a message of 8 bytes, and windows of 64 of them.
func latency(b *bench) error {
	return b.everywhere([]place{here, between},
		func(p place, m mpijob.MPI) (*microbench.Report, error) {
			policies := []string{"auto"}
			if p.between {
				policies = append(policies, datagrams)
			}
			return b.observed(p, m, []string{"latency", "bandwidth"}, 7, policies,
				"--sizes", "8", "--modes", "uni", "--window", "64", "--limit-ms", "500", "--iterations", "20000")
		},
		func(p place, m mpijob.MPI, r *microbench.Report) {
			for _, row := range rowsOf(r, "latency", "half_rtt_us") {
				b.reach(goal{what: "8 bytes, time against native, observed", where: p.name + ", " + m.Name}.of(quotientOf(row.Native, row.Preloaded)))
				for i, policy := range r.Act {
					g := goal{what: "8 bytes, time against native, " + policy, where: p.name + ", " + m.Name}.of(quotientOf(row.Native, row.Act[i].Sample))
					switch {
					case !p.between:
						g.most = ptr(1.3)
					case policy == "auto":
						g.most = ptr(1.1)
					default:
						g.most = ptr(1)
					}
					b.reach(g)
				}
			}
			for _, row := range rowsOf(r, "bandwidth", "mb_s") {
				for i, policy := range r.Act {
					g := goal{what: "window of 64, rate against native, " + policy, where: p.name + ", " + m.Name}.of(quotientOf(row.Native, row.Act[i].Sample))
					if p.between {
						g.least = ptr(1)
					}
					b.reach(g)
				}
			}
		})
}

// limits: messages of 16 to 128 KiB by how long one may be that is sent without
// asking the receiver. They have no goal: eager_limit=auto is chosen by them.
func limits(b *bench) error {
	return b.everywhere([]place{here, between, paced},
		func(p place, m mpijob.MPI) (*microbench.Report, error) {
			return b.micro(p, m, []string{"latency", "bandwidth"}, 5, []string{"auto", "eager-limit=16K", "eager-limit=32K", "eager-limit=64K", "eager-limit=128K"},
				"--sizes", "16K,32K,64K,128K", "--modes", "uni", "--window", "64", "--limit-ms", "200")
		}, func(place, mpijob.MPI, *microbench.Report) {})
}

// candidates are the ways of a long message.
var candidates = []string{"rndv=read-event", "rndv=read", "rndv=write", asks}

// overlap: 1 MiB with computation for twice as long as it takes; what others take
// of the processor counts as lost, and the other rank sleeps.
func overlap(b *bench) error {
	return b.everywhere([]place{paced, pacedTwo, pacedOne, free},
		func(p place, m mpijob.MPI) (*microbench.Report, error) {
			settings := []string{"--methods", "sweep", "--peer", "sleep", "--compute", "cpu", "--limit-ms", "300", "--iterations", "2000", "--sizes", "1M"}
			if p.rate == "" {
				settings = append(settings, "--factors", "2")
			} else {
				settings = append(settings, "--delays", twiceTransfer)
			}
			return b.micro(p, m, []string{"overlap-send", "overlap-recv"}, 3, candidates, settings...)
		},
		func(p place, m mpijob.MPI, r *microbench.Report) {
			for _, side := range []string{"overlap-send", "overlap-recv"} {
				for _, row := range rowsOf(r, side, "overlap_pct") {
					for i, policy := range r.Act {
						g := goal{what: side + ", W/T, " + policy, where: p.name + ", " + m.Name, got: share(row.Act[i].Sample), native: share(row.Native)}
						switch {
						case p.rate == "", p.name == pacedOne.name: // there the other rank, back from its sleep, polls where this one computes
						case policy == "rndv=read-event":
							g.least = ptr(0.95)
						case policy == asks && side == "overlap-recv":
							g.least = ptr(0.8)
						}
						b.reach(g)
					}
				}
			}
		})
}

// twiceTransfer is what two messages of 1 MiB take at 1 Gbit/s, us.
const twiceTransfer = "16800"

// progress: when a message arrives whose other rank is away for a while, as a
// table and as a plot.
func progress(b *bench) error {
	delays := "2000,5000,8000,11000,14000,17000,20000"
	return b.everywhere([]place{paced},
		func(p place, m mpijob.MPI) (*microbench.Report, error) {
			return b.micro(p, m, []string{"progress-send", "progress-recv"}, 3, candidates, "--sizes", "1M", "--delays", delays, "--limit-ms", "200")
		},
		func(p place, m mpijob.MPI, r *microbench.Report) {
			for _, name := range []string{"progress-send", "progress-recv"} {
				if chart := chartOf(r, name, name+", 1 MiB, "+p.name+", "+m.Name); len(chart.lines) > 0 {
					b.plot(chart.svg(), name+"-"+m.Name+".svg")
				}
			}
		})
}

// snapshot: when the data of a long message moves while both ranks compute.
func snapshot(b *bench) error {
	return b.everywhere([]place{paced},
		func(p place, m mpijob.MPI) (*microbench.Report, error) {
			return b.micro(p, m, []string{"snapshot"}, 3, candidates, "--sizes", "1M", "--delays", twiceTransfer, "--limit-ms", "1000")
		},
		func(p place, m mpijob.MPI, r *microbench.Report) {
			if c := timelineOf(r, "1 MiB while both ranks compute, "+p.name+", "+m.Name); len(c.bars) > 0 {
				b.plot(c.svg(), "snapshot-"+m.Name+".svg")
			}
		})
}

// rowsOf are the rows of a metric, where act mode measured something.
func rowsOf(r *microbench.Report, name, metric string) []*microbench.Row {
	var out []*microbench.Row
	for _, res := range r.Benchmarks {
		for _, row := range res.Rows {
			if res.Name == name && row.Metric == metric && len(row.Act) > 0 {
				out = append(out, row)
			}
		}
	}
	return out
}

// share is a sample in percent as a share of 1.
func share(s *microbench.Sample) *float64 {
	if s == nil {
		return nil
	}
	x := s.Median / 100
	return &x
}
