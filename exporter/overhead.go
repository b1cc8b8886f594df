package exporter

// overheadCollector: what measuring costs the job.
type overheadCollector struct{}

func (overheadCollector) Update(p *Page, out *sink) {
	for i := range p.Jobs {
		j := &p.Jobs[i]
		var shared, private uint64
		for r := range j.Ranks {
			if rank := &j.Ranks[r]; rank.State == StateRunning {
				shared += rank.SegmentBytes
				private += rank.PrivateBytes
			}
		}
		out.job(jobOverheadSeconds, j, seconds(j.Total.OverheadNS))
		out.job(jobMemoryBytes, j, float64(shared), "segment")
		out.job(jobMemoryBytes, j, float64(private), "private")
	}
}
