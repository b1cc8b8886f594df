package exporter

// agentCollector: what the agent did and what it costs. Its processor time and
// memory are the process_ metrics of client_golang.
type agentCollector struct{}

func (agentCollector) Update(p *Page, out *sink) {
	a := &p.Agent
	running, ended := 0, 0
	for i := range p.Jobs {
		if p.Jobs[i].Ended {
			ended++
		} else {
			running++
		}
	}
	out.put(agentBuildInfo, 1, a.Version)
	out.put(agentJobs, float64(running), "running")
	out.put(agentJobs, float64(ended), "ended")
	out.put(agentSegmentsHeld, float64(a.Held))
	out.put(agentSegmentsRead, float64(a.Read))
	out.put(agentReadBytes, float64(a.ReadBytes))
	out.put(agentReadDurationSeconds, a.ReadDuration.Seconds())
	out.put(agentReadSeconds, a.ReadTotal.Seconds())
	out.put(agentAnalysisSeconds, a.AnalysisTotal.Seconds())
	out.put(agentEventsLost, float64(a.EventsLost))
	out.put(agentJobsUnscraped, float64(a.Unscraped))
	for reason, n := range a.Refused {
		out.put(agentSegmentsRefused, float64(n), reason)
	}
	for reason, n := range a.Errors {
		out.put(agentErrors, float64(n), reason)
	}
}
