package timeline

import (
	"context"
	"fmt"
	"math"

	"github.com/mpitrace/mpitrace/internal/extsort"
	"github.com/mpitrace/mpitrace/report"
	"github.com/mpitrace/mpitrace/segment"
)

// Options of Export. The zero value is good.
type Options struct {
	Report report.Options // how source lines are found
	Bytes  int            // memory of one sort buffer; 0: 64 MiB
	Dir    string         // of temporary files; empty: that of os.TempDir
}

// Export reads a result and hands what it holds to w, until ctx ends. A result without a trace
// has no messages and no calls but those in progress; its samples of collective
// operations are handed out either way.
func Export(ctx context.Context, path string, w Writer, o Options) (*Summary, error) {
	l, err := load(path, o.Report)
	if err != nil {
		return nil, err
	}
	e := &exporter{reader: reader{loader: l, ctx: ctx, options: extsort.Options{Bytes: o.Bytes, Dir: o.Dir}}, places: map[*report.Site]*Place{}, known: map[addressKey]*Place{}}
	e.summary.Problems = append(e.summary.Problems, l.job.Report.Problems...)
	if err := e.read(path); err != nil {
		return nil, err
	}
	defer e.records.Close()
	defer e.ends.Close()
	for _, r := range l.job.Ranks {
		l.job.Traced = l.job.Traced || r.Traced
		e.summary.Dropped += r.Dropped
	}
	if err := w.Begin(l.job); err != nil {
		return nil, err
	}
	for _, step := range []func(Writer) error{e.match, e.samples, e.ranks} {
		if err := step(w); err != nil {
			return nil, err
		}
	}
	return &e.summary, w.End(&e.summary)
}

// checkEvery is how many records are handled before it is looked whether to go
// on.
const checkEvery = 1 << 14

// exporter walks what was read.
type exporter struct {
	reader
	places map[*report.Site]*Place
	known  map[addressKey]*Place // at most knownMax
	calls  uint64
}

type addressKey struct {
	rank    *Rank
	address uint64
	call    uint16
}

const knownMax = 1 << 17

// placeOf is the place of an address in a rank.
func (e *exporter) placeOf(r *Rank, address uint64, call uint16) *Place {
	key := addressKey{r, address, call}
	if p := e.known[key]; p != nil {
		return p
	}
	site := e.timeline.Site(r.World, r.Rank, address, segment.Call(call))
	p := e.places[site]
	if p == nil {
		p = &Place{ID: len(e.places) + 1, Function: site.Function.Name, Site: site, Location: e.job.Report.Location(site)}
		e.places[site] = p
		e.summary.Places = append(e.summary.Places, p)
	}
	if len(e.known) == knownMax {
		clear(e.known)
	}
	e.known[key] = p
	return p
}

// samples hands out the sampled collective operations.
func (e *exporter) samples(w Writer) error {
	result := e.timeline.Arrivals
	for _, c := range result.Classes {
		for i := range c.Sampled {
			s := result.Sample(c, i)
			for j := range s.Arrivals {
				a := &s.Arrivals[j]
				r := e.loader.ranks[seat{c.World, a.Rank}]
				if r == nil || r.Missing {
					continue
				}
				shift := e.shift[result.Clocks[result.Clock(r.process)].Component]
				enter := max(0, a.EnterNS+shift)
				out := Sample{Rank: r, Comm: e.comm(r, s.CommID), Call: c.Call, Place: e.placeOf(r, a.Address, uint16(c.Call)), Sequence: s.Sequence, Start: s.Start,
					CommRank: a.CommRank, Root: s.Root, Size: c.Size, Bytes: s.Bytes, EnterNS: enter, WaitNS: max(enter, a.WaitNS+shift),
					ExitNS: max(enter, a.ExitNS+shift), BoundNS: boundNS(s.BoundNS), Last: s.Last}
				e.summary.Samples++
				if err := w.Sample(&out); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// ranks hands out the calls of one rank after the other.
func (e *exporter) ranks(w Writer) error {
	sorted, err := e.records.Sort()
	if err != nil {
		return err
	}
	defer sorted.Close()
	next := 0
	for _, r := range e.job.Ranks {
		if err := e.ctx.Err(); err != nil {
			return err
		}
		if err := w.BeginRank(r); err != nil {
			return err
		}
		r.firstNS, r.lastNS = math.MaxInt64, r.StartNS
		if next, err = e.rank(w, r, sorted, next); err != nil {
			return err
		}
		if err := r.closeAll(w); err != nil {
			return err
		}
		e.addGaps(r)
		if err := w.EndRank(r); err != nil {
			return err
		}
		r.tracks = nil
	}
	return nil
}

// rank hands out the calls of a rank, whose records begin at from; it returns
// where they end.
func (e *exporter) rank(w Writer, r *Rank, sorted *extsort.Sorted[record], from int) (int, error) {
	g := &group{exporter: e, rank: r}
	for n := from; n < sorted.Len(); n++ {
		rec, err := sorted.At(n)
		if err == nil && n%checkEvery == 0 {
			err = e.ctx.Err()
		}
		if err != nil {
			return n, err
		}
		if rec.Rank != uint32(r.Index) {
			return n, g.flush(w)
		}
		if len(g.records) > 0 && rec.Event.EnterTicks != g.records[0].Event.EnterTicks {
			if err := g.flush(w); err != nil {
				return n, err
			}
		}
		g.records = append(g.records, *rec)
	}
	return sorted.Len(), g.flush(w)
}

// addGaps names what the trace of a rank does not tell.
func (e *exporter) addGaps(r *Rank) {
	gap := func(from, to int64, format string, args ...any) {
		r.Gaps = append(r.Gaps, Gap{from, max(from, to), fmt.Sprintf(format, args...)})
	}
	end := e.job.EndNS
	switch {
	case r.Missing:
		gap(0, end, "no data of rank %d", r.Rank)
	case e.job.Traced && !r.Traced:
		gap(r.StartNS, r.EndNS, "rank %d was not traced", r.Rank)
	case r.Traced && !r.fromFile && r.begins > 1:
		gap(r.StartNS, min(r.firstNS, r.EndNS), "the trace file of rank %d is not here: its first events are missing", r.Rank)
	}
	if r.Dropped > 0 {
		gap(r.lastNS, r.EndNS, "%d events of rank %d were not kept (the limit of --trace-bytes, or the file could not be written)", r.Dropped, r.Rank)
	}
	switch r.State {
	case report.StateDied, report.StateAborted:
		gap(r.EndNS, end, "rank %d %s", r.Rank, r.State)
	}
	e.summary.Gaps += len(r.Gaps)
}
