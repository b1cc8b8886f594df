package exporter

import (
	"cmp"
	"slices"
)

// jobCollector: what a job is, in what state its ranks are, and how much of
// their time is MPI time.
type jobCollector struct{}

func (jobCollector) Update(p *Page, out *sink) {
	for i := range p.Jobs {
		j := &p.Jobs[i]
		out.job(jobInfo, j, 1, j.Scheduler, j.Launcher, j.MPI, j.Program)
		if !j.Start.IsZero() {
			out.job(jobStartTimeSeconds, j, unix(j.Start))
		}
		out.job(jobMPISeconds, j, seconds(j.Total.MPINS))
		out.job(jobRankSeconds, j, seconds(j.Total.WallNS))
		out.job(jobBlockedSeconds, j, seconds(j.Total.BlockedNS))
		out.states(j)
		out.shares(j)
	}
}

// states of the ranks, and what the living ones are doing.
func (s *sink) states(j *Job) {
	count := map[string]int{}
	world, inMPI, idle := int32(0), 0, uint64(0)
	for i := range j.Ranks {
		r := &j.Ranks[i]
		world = max(world, r.WorldSize)
		if r.State != StateRunning {
			count[r.State]++
			continue
		}
		if r.InMPI {
			inMPI++
		}
		if count[StateRunning] == 0 || r.IdleNS < idle {
			idle = r.IdleNS
		}
		count[StateRunning]++
	}
	for _, state := range rankStates {
		s.job(jobRanks, j, float64(count[state]), state)
	}
	s.job(jobWorldRanks, j, float64(world))
	s.job(jobRanksInMPI, j, float64(inMPI))
	s.job(jobIdleSeconds, j, seconds(idle))
}

// shares of MPI time over the ranks.
func (s *sink) shares(j *Job) {
	var all []weighted
	for i := range j.Ranks {
		if r := &j.Ranks[i]; r.WallNS > 0 {
			all = append(all, weighted{r.share(), 1})
		}
	}
	if len(all) == 0 {
		return
	}
	slices.SortFunc(all, func(a, b weighted) int { return cmp.Compare(a.value, b.value) })
	s.job(jobRankMPIRatio, j, all[0].value, "min")
	s.job(jobRankMPIRatio, j, quantile(all, 0.5), "p50")
	s.job(jobRankMPIRatio, j, quantile(all, 0.95), "p95")
	s.job(jobRankMPIRatio, j, all[len(all)-1].value, "max")
}
