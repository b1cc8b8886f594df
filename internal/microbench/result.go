package microbench

import (
	"encoding/json"
	"io"
	"math"
	"slices"
	"time"
)

// Report is everything that one mpitrace bench measured. Times are in us,
// bandwidths in MB/s of 10^6 bytes, sizes in bytes, shares in percent.
type Report struct {
	Schema     int       `json:"schema"` // raised when a field changes its meaning or goes
	Version    string    `json:"version"`
	Time       time.Time `json:"time"`
	Host       string    `json:"host"`
	Processor  string    `json:"processor"`
	Cores      int       `json:"cores"`
	LoadBegin  string    `json:"load_begin"` // load average of a minute
	LoadEnd    string    `json:"load_end"`
	Launcher   []string  `json:"launcher"`
	Compiler   string    `json:"compiler"`
	Shim       string    `json:"shim"`          // empty: no preloaded runs
	Act        []string  `json:"act,omitempty"` // policies of act mode
	Reps       int       `json:"reps"`
	Quick      bool      `json:"quick"`
	Benchmarks []*Result `json:"benchmarks"`
}

// Result is one benchmark.
type Result struct {
	Name      string      `json:"name"`
	What      string      `json:"what"`
	Source    string      `json:"source"`
	Ranks     int         `json:"ranks"`
	Arguments []string    `json:"arguments"`
	Error     string      `json:"error,omitempty"` // why there are no rows
	Warnings  []string    `json:"warnings"`
	Notes     []string    `json:"notes"`    // of the programs
	Verified  uint64      `json:"verified"` // messages whose data was checked, in all runs
	Rows      []*Row      `json:"rows"`
	Published []Published `json:"published"`
	where     Where       // of the native runs, if in all of them the same
}

// Row is one metric of one point.
type Row struct {
	Dims      []Dim     `json:"dims"`
	Metric    string    `json:"metric"`
	Name      string    `json:"name"`
	Unit      string    `json:"unit"`
	Native    *Sample   `json:"native"`
	Preloaded *Sample   `json:"preloaded,omitempty"`
	Ratio     *float64  `json:"ratio,omitempty"` // median of preloaded/native of the same repetition
	Act       []Acted   `json:"act,omitempty"`   // one for each policy of the report
	Context   []Context `json:"context"`
	Published []int     `json:"published"` // indices into those of the Result
}

// Acted is what act mode did with one policy.
type Acted struct {
	Sample *Sample  `json:"sample"`          // nil: nothing was measured
	Ratio  *float64 `json:"ratio,omitempty"` // as that of Row
}

// Context is a further value of the native runs: its median.
type Context struct {
	Key    string  `json:"key"`
	Name   string  `json:"name"`
	Unit   string  `json:"unit"`
	Median float64 `json:"median"`
}

func newResult(b *Benchmark, ranks int, args []string) *Result {
	return &Result{
		Name: b.Name, What: b.What, Source: b.Source, Ranks: ranks, Arguments: args,
		Warnings: []string{}, Notes: []string{}, Rows: []*Row{}, Published: publishedFor(b.Name),
	}
}

// runs are the outputs of all repetitions, by variant.
type runs struct{ outputs [][]Output }

func (r *runs) add(v variant, out Output) {
	for len(r.outputs) <= int(v) {
		r.outputs = append(r.outputs, nil)
	}
	r.outputs[v] = append(r.outputs[v], out)
}

func (r *runs) of(v variant) []Output {
	if int(v) < len(r.outputs) {
		return r.outputs[v]
	}
	return nil
}

// values are those of a key at a point, one per repetition, NaN where the
// point or the key is missing.
func (r *runs) values(v variant, id, key string) []float64 {
	out := make([]float64, 0, len(r.of(v)))
	for _, o := range r.of(v) {
		x := math.NaN()
		if i := slices.IndexFunc(o.Points, func(p Point) bool { return p.id() == id }); i >= 0 {
			if value, ok := o.Points[i].Values[key]; ok {
				x = value
			}
		}
		out = append(out, x)
	}
	return out
}

// points are those that any run has, in the order of their first appearance.
func (r *runs) points() []Point {
	var out []Point
	seen := map[string]bool{}
	for _, outputs := range r.outputs {
		for _, o := range outputs {
			for _, p := range o.Points {
				if !seen[p.id()] {
					seen[p.id()] = true
					out = append(out, p)
				}
			}
		}
	}
	return out
}

// fill makes the rows of a result of runs with so many policies.
func (res *Result) fill(b *Benchmark, r runs, policies []string) {
	if all := r.of(native); len(all) > 0 && !slices.ContainsFunc(all, func(o Output) bool { return o.Where != all[0].Where }) {
		res.where = all[0].Where
	}
	for _, outputs := range r.outputs {
		for _, o := range outputs {
			res.Verified += o.Verified
			for _, note := range o.Notes {
				if !slices.Contains(res.Notes, note) {
					res.Notes = append(res.Notes, note)
				}
			}
		}
	}
	for _, p := range r.points() {
		for _, m := range b.Metrics {
			if row := r.row(p, m, len(policies)); row != nil {
				row.Context = r.context(b, p)
				row.Published = matching(res.Published, m.Key, p.Dims)
				res.Rows = append(res.Rows, row)
			}
		}
	}
}

// row is a metric at a point; nil if no run has it.
func (r *runs) row(p Point, m Metric, policies int) *Row {
	natives := r.values(native, p.id(), m.Key)
	preloads := r.values(preloaded, p.id(), m.Key)
	row := &Row{
		Dims: p.Dims, Metric: m.Key, Name: m.Name, Unit: m.Unit,
		Native: newSample(present(natives)), Preloaded: newSample(present(preloads)), Ratio: ratio(natives, preloads),
	}
	if row.Dims == nil {
		row.Dims = []Dim{}
	}
	found := row.Native != nil || row.Preloaded != nil
	for i := range policies {
		values := r.values(acting+variant(i), p.id(), m.Key)
		acted := Acted{newSample(present(values)), ratio(natives, values)}
		found = found || acted.Sample != nil
		row.Act = append(row.Act, acted)
	}
	if !found {
		return nil
	}
	return row
}

func (r *runs) context(b *Benchmark, p Point) []Context {
	out := []Context{}
	for _, m := range b.Context {
		if s := newSample(present(r.values(native, p.id(), m.Key))); s != nil {
			out = append(out, Context{m.Key, m.Name, m.Unit, s.Median})
		}
	}
	return out
}

// Failed says whether a benchmark failed.
func (r *Report) Failed() bool {
	return slices.ContainsFunc(r.Benchmarks, func(b *Result) bool { return b.Error != "" })
}

// WriteJSON writes the report for programs.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(r)
}
