package exporter

// operationCollector: calls, time and bytes by operation, of those that the job
// has called.
type operationCollector struct{}

func (operationCollector) Update(p *Page, out *sink) {
	for i := range p.Jobs {
		j := &p.Jobs[i]
		for op, calls := range j.Total.Calls {
			if calls == 0 {
				continue
			}
			out.job(jobCalls, j, float64(calls), operations[op])
			out.job(jobOperationSeconds, j, seconds(j.Total.TimeNS[op]), operations[op])
			out.job(jobBytes, j, float64(j.Total.Bytes[op]), operations[op])
		}
	}
}
