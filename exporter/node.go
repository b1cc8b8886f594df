package exporter

// nodeCollector: sums over all jobs since the agent started. They go on when
// jobs come and go, so that their rates are right for the shortest of jobs too.
type nodeCollector struct{}

func (nodeCollector) Update(p *Page, out *sink) {
	t := &p.Total
	running := 0
	for i := range p.Jobs {
		for r := range p.Jobs[i].Ranks {
			if p.Jobs[i].Ranks[r].State == StateRunning {
				running++
			}
		}
	}
	out.put(nodeJobs, float64(t.Jobs), p.Node)
	out.put(nodeRanks, float64(t.Ranks), p.Node)
	out.put(nodeRunningRanks, float64(running), p.Node)
	out.put(nodeMPISeconds, seconds(t.MPINS), p.Node)
	out.put(nodeRankSeconds, seconds(t.WallNS), p.Node)
	out.put(nodeBlockedSeconds, seconds(t.BlockedNS), p.Node)
	out.put(nodeOverheadSeconds, seconds(t.OverheadNS), p.Node)
	for op, name := range operations {
		out.put(nodeCalls, float64(t.Calls[op]), p.Node, name)
		out.put(nodeOperationSeconds, seconds(t.TimeNS[op]), p.Node, name)
		out.put(nodeBytes, float64(t.Bytes[op]), p.Node, name)
	}
	for table, name := range tables {
		out.put(nodeDropped, float64(t.Dropped[table]), p.Node, name)
	}
}
