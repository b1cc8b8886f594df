package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mpitrace/mpitrace/internal/symbols"
)

// addOwn takes over what mpitrace itself cost in one process.
func (b *builder) addOwn(l *local) {
	own, h := &b.report.Job.Own, &l.s.Header
	own.Calls += l.rank.Calls
	own.TimeNS += l.rank.OwnCostNS
	own.SegmentBytes += max(h.FileBytes, pageBytes)
	own.PrivateBytes += h.PrivateBytes
	if callNS := l.rank.OwnCostNS - h.OwnInitNS - h.OwnFinalizeNS; callNS < 1<<62 {
		own.NSPerCall += float64(callNS) // divided by the calls in finish
	}
}

// finish computes what needs all ranks.
func (b *builder) finish() {
	r := b.report
	for _, f := range r.Functions {
		f.tally.flush(&f.Spread)
		f.Times = bins(&f.times, b.resolution)
		f.Sizes = bins(&f.sizes, 0)
	}
	for _, s := range r.Sites {
		s.tally.flush(&s.Spread)
		s.Function.Totals = s.Totals
	}
	slices.SortStableFunc(r.Ranks, func(x, y *Rank) int {
		return cmp.Or(cmp.Compare(x.world, y.world), cmp.Compare(x.Rank, y.Rank))
	})
	r.Pairs = b.pairs.sorted()
	b.finishMatrices()
	b.sortRows()
	b.finishJob()
	if !b.options.TotalsOnly {
		b.finishMeasured()
	}
	b.findStuck()
	r.Job.State = b.jobState()
	r.Findings = append(r.Findings, b.findings()...)
}

func (b *builder) sortRows() {
	sortBy(b.report.Functions, func(x, y *Function) int {
		return cmp.Or(-cmp.Compare(x.TimeNS, y.TimeNS), strings.Compare(x.Name, y.Name))
	})
	sortBy(b.report.Sites, func(x, y *Site) int {
		return cmp.Or(-cmp.Compare(x.TimeNS, y.TimeNS), strings.Compare(x.Function.Name, y.Function.Name),
			strings.Compare(x.Module, y.Module), cmp.Compare(x.Offset, y.Offset), cmp.Compare(x.Phase, y.Phase))
	})
	b.report.Comms = slices.DeleteFunc(b.report.Comms, func(c *Comm) bool { return c.Kind == "other" && c.Calls == 0 })
	sortBy(b.report.Comms, func(x, y *Comm) int {
		return cmp.Or(-cmp.Compare(x.TimeNS, y.TimeNS), strings.Compare(x.Name, y.Name), strings.Compare(x.ID, y.ID))
	})
	b.report.Types = slices.DeleteFunc(b.report.Types, func(d *Datatype) bool { return d.Calls == 0 && d.SentBytes == 0 && d.ReceivedBytes == 0 })
	sortBy(b.report.Types, func(x, y *Datatype) int {
		return cmp.Or(-cmp.Compare(x.SentBytes+x.ReceivedBytes, y.SentBytes+y.ReceivedBytes), strings.Compare(x.Name, y.Name))
	})
}

func (b *builder) finishJob() {
	r, job := b.report, &b.report.Job
	job.Ranks = len(r.Ranks)
	for node := range b.nodes {
		job.Nodes = append(job.Nodes, node)
	}
	slices.Sort(job.Nodes)
	if job.Start == "" {
		job.Start = realtime(b.firstStart)
	}
	job.Share = sharesOf(r.Ranks)
	var wall, setup uint64
	for _, rank := range r.Ranks {
		job.WallNS = max(job.WallNS, rank.WallNS)
		job.MPINS += rank.MPINS
		job.Calls += rank.Calls
		wall += rank.WallNS
	}
	if job.Own.Calls > 0 {
		job.Own.NSPerCall /= float64(job.Own.Calls)
	}
	for _, f := range r.Functions {
		if f.setup {
			setup += f.TimeNS
		}
	}
	job.Own.Share = ratio(job.Own.TimeNS, wall+setup)
	job.WorldSize = at(b.worldSize, 0)
	job.MissingRanks = b.missingOf(0)
}

// judged tells of a rank whose share of time means something: its time is known, and
// MPI_Init has told it who it is.
func judged(r *Rank) bool { return r.WallNS != 0 && r.Rank >= 0 }

// sharesOf is the MPI share over those of the ranks that are judged.
func sharesOf(ranks []*Rank) Share {
	var s Share
	timed := 0
	for _, r := range ranks {
		if !judged(r) {
			continue
		}
		timed++
		s.Mean += r.Share
		if timed == 1 || r.Share < s.Min {
			s.Min, s.MinRank = r.Share, r.Rank
		}
		if timed == 1 || r.Share > s.Max {
			s.Max, s.MaxRank = r.Share, r.Rank
		}
	}
	if timed > 0 {
		s.Mean /= float64(timed)
	}
	return s
}

// uneven is the world whose ranks differ most in their MPI share, and that
// share: ranks of different worlds need not wait for each other.
func (r *Report) uneven() (world int, s Share) {
	byWorld := make([][]*Rank, len(r.Job.Worlds))
	for _, rank := range r.Ranks {
		byWorld[rank.world] = append(byWorld[rank.world], rank)
	}
	for i, ranks := range byWorld {
		if of := sharesOf(ranks); i == 0 || of.Max-of.Min > s.Max-s.Min {
			world, s = i, of
		}
	}
	return world, s
}

// missingOf is the ranks of a world that left no data.
func (b *builder) missingOf(world int) []int {
	missing := []int{}
	if b.report.restricted {
		return missing
	}
	present := map[int]bool{}
	for _, r := range b.report.Ranks {
		if r.world == world {
			present[r.Rank] = true
		}
	}
	for rank := range min(at(b.worldSize, world), maxWorld) {
		if !present[rank] {
			missing = append(missing, rank)
		}
	}
	return missing
}

// jobState judges the job by its processes.
func (b *builder) jobState() string {
	alive, finished := 0, 0
	idle := uint64(1 << 63)
	for _, r := range b.report.Ranks {
		if r.State == StateFinished {
			finished++
			continue
		}
		if r.alive {
			alive++
			idle = min(idle, r.idleNS)
		}
	}
	switch {
	case finished == len(b.report.Ranks):
		return StateFinished
	case alive == 0:
		return StateDied
	}
	b.report.Job.IdleNS = idle
	if idle >= hungNS && len(b.report.Stuck) > 0 {
		return StateHung
	}
	return StateRunning
}

// readJob takes over what the launcher wrote of the job.
func (b *builder) readJob(data []byte) {
	if data == nil {
		return
	}
	var job struct {
		Command    json.RawMessage `json:"command"`
		Start      string          `json:"start"`
		End        string          `json:"end"`
		ExitStatus *int            `json:"exit_status"`
		Signal     string          `json:"signal"`
		Host       string          `json:"host"`
		Processors int             `json:"processors"`
	}
	if err := json.Unmarshal(data, &job); err != nil {
		b.report.Problems = append(b.report.Problems, "job.json: "+err.Error())
		return
	}
	var words []string
	var text string
	switch {
	case json.Unmarshal(job.Command, &words) == nil:
		text = strings.Join(words, " ")
	case json.Unmarshal(job.Command, &text) != nil:
		text = ""
	}
	out := &b.report.Job
	out.Command = cmp.Or(clean(text), out.Command)
	if start, err := time.Parse(time.RFC3339, job.Start); err == nil {
		out.Start = realtime(start.UnixNano())
	}
	if end, err := time.Parse(time.RFC3339, job.End); err == nil {
		b.endNS = max(b.endNS, end.UnixNano())
		out.End = realtime(end.UnixNano())
	}
	out.ExitStatus, out.Signal = job.ExitStatus, clean(job.Signal)
	b.launchHost, b.processors = job.Host, job.Processors
}

// symbolsFile is symbols.json: places that were looked up when the program
// was as it ran.
type symbolsFile struct {
	Schema  int             `json:"schema"`
	Modules []symbolsModule `json:"modules"`
}

type symbolsModule struct {
	Path    string         `json:"path"`
	BuildID string         `json:"build_id"`
	Places  []symbolsPlace `json:"places"`
}

type symbolsPlace struct {
	Offset   uint64   `json:"offset"`
	Function string   `json:"function"`
	File     string   `json:"file"`
	Line     int      `json:"line"`
	Inlined  []string `json:"inlined,omitempty"`
}

// learnSymbols hands stored places to the resolver.
func (b *builder) learnSymbols(data []byte) {
	if data == nil {
		return
	}
	var file symbolsFile
	if err := json.Unmarshal(data, &file); err != nil {
		b.report.Problems = append(b.report.Problems, "symbols.json: "+err.Error())
		return
	}
	if file.Schema > Schema {
		b.report.Problems = append(b.report.Problems, fmt.Sprintf("symbols.json was written by a newer mpitrace (schema %d, this one reads %d) and is left out", file.Schema, Schema))
		return
	}
	for _, m := range file.Modules {
		for _, p := range m.Places {
			place := symbols.Place{Function: clean(p.Function), File: clean(p.File), Line: p.Line}
			for _, name := range p.Inlined {
				place.Inlined = append(place.Inlined, symbols.Frame{Function: clean(name)})
			}
			b.options.Symbols.Learn(m.Path, m.BuildID, p.Offset, place)
		}
	}
}
