package report

import (
	"cmp"
	"fmt"

	"github.com/mpitrace/mpitrace/arrival"
	"github.com/mpitrace/mpitrace/segment"
)

// Timeline is what translates the events of a trace into the terms of its
// report.
type Timeline struct {
	Arrivals *arrival.Result
	b        *builder
	comms    map[uint64]string
}

// LoadTimeline is Load for whoever walks the trace himself: messages of trace
// files are not matched, and visit sees every segment that the report is made
// of, in the order of ranks.
func LoadTimeline(path string, options Options, visit func(*segment.Segment)) (*Report, *Timeline, error) {
	options.untraced, options.visit = true, visit
	b := newBuilder(options)
	if err := b.load(path); err != nil {
		return nil, nil, err
	}
	return b.report, &Timeline{b.found, b, b.commNames()}, nil
}

// Site is the place of an address in a rank, with its source line; the same
// for all ranks that came there. Its totals are those of the whole run.
func (t *Timeline) Site(world string, rank int32, address uint64, call segment.Call) *Site {
	site := t.b.placeSite(t.b.placeOf(world, rank, address, uint32(call)))
	t.b.report.resolve(site)
	return site
}

// Comm names a communicator of so many ranks by its id.
func (t *Timeline) Comm(id uint64, size int) string {
	return cmp.Or(t.comms[id], fmt.Sprintf("communicator of %d", size))
}

// Table is one table of the report for programs: what --by NAME --csv writes.
type Table struct {
	Columns []string
	Rows    [][]any // string, int, uint64 or float64, by column
}

// Table makes the table of a view, one of Views, with all its rows.
func (r *Report) Table(by string) (Table, error) {
	r.Resolve()
	t, err := r.table(by)
	if err != nil {
		return Table{}, err
	}
	var out Table
	for _, c := range t.columns {
		if c.name != "" {
			out.Columns = append(out.Columns, c.name)
		}
	}
	for _, row := range t.rows {
		var values []any
		for i, c := range t.columns {
			if c.name != "" {
				values = append(values, row[i])
			}
		}
		out.Rows = append(out.Rows, values)
	}
	return out, nil
}

// ClockBoundNS is how far two moments of the job may be off against each other
// at most, where their clocks can be compared.
func (r *Report) ClockBoundNS() uint64 { return r.clockBound() }
