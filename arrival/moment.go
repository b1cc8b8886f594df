package arrival

import "github.com/mpitrace/mpitrace/segment"

// Process is the number of a process, false if it was not analysed: it has no
// rank, or its rank was there already.
func (r *Result) Process(p segment.Process) (uint32, bool) {
	n, ok := r.analysis.processOf[p]
	return n, ok
}

// Clock is the clock of a process: an index into Clocks.
func (r *Result) Clock(process uint32) int { return int(r.analysis.processes[process].domain) }

// Moment converts a moment of the clock of a process to nanoseconds of the
// reference clock of its component (Clock.Component). It may be off by boundNS
// against a moment of the reference clock itself.
func (r *Result) Moment(process uint32, ticks uint64) (ns int64, boundNS float64) {
	a := r.analysis
	domain := a.processes[process].domain
	d := &a.domains[domain]
	ns, boundNS = a.reference(domain, d.ns(int64(min(ticks, spanMax))))
	return ns, boundNS + d.errorNS
}

// comparable tells whether the clocks of two processes can be compared.
func (a *Analysis) comparable(x, y uint32) bool {
	return a.domains[a.processes[x].domain].component == a.domains[a.processes[y].domain].component
}
