package exporter

// dropCollector: what the library had no place for. All tables of a job are
// shown: a drop must not be missed because its series is new.
type dropCollector struct{}

func (dropCollector) Update(p *Page, out *sink) {
	for i := range p.Jobs {
		j := &p.Jobs[i]
		for table, n := range j.Total.Dropped {
			out.job(jobDropped, j, float64(n), tables[table])
		}
	}
}
