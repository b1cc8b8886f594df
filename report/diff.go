package report

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"math"
	"path"
	"slices"
	"strings"
)

// Metrics lists what Diff compares; the first is the usual one.
func Metrics() []string { return []string{"wall", "mpi", "calls", "bytes"} }

// Diff compares two jobs.
type Diff struct {
	Before, After *Report
	Names         [2]string // as the user named them
}

// Metric is one figure of both jobs.
type Metric struct {
	Name          string
	Before, After uint64
}

// Change is the growth from before to after: 0.05 is 5 % more. It is infinite
// if there was nothing before.
func (m Metric) Change() float64 {
	switch {
	case m.Before == m.After:
		return 0
	case m.Before == 0:
		return math.Inf(1)
	}
	return (float64(m.After) - float64(m.Before)) / float64(m.Before)
}

// Metric is one of Metrics: wall is the longest wall time of a rank in ns, mpi
// the time inside MPI over all ranks in ns, calls and bytes are sums over all
// ranks without MPI_Init and MPI_Finalize.
func (d *Diff) Metric(name string) (Metric, error) {
	m := Metric{Name: name}
	for _, side := range []struct {
		r   *Report
		out *uint64
	}{{d.Before, &m.Before}, {d.After, &m.After}} {
		switch name {
		case "wall":
			*side.out = side.r.Job.WallNS
		case "mpi":
			*side.out = side.r.Job.MPINS
		case "calls":
			*side.out = side.r.Job.Calls
		case "bytes":
			for _, rank := range side.r.Ranks {
				*side.out += rank.Bytes
			}
		default:
			return m, fmt.Errorf("--metric %s: choose one of %s", name, strings.Join(Metrics(), ", "))
		}
	}
	return m, nil
}

// changed is one function or place in both jobs.
type changed struct {
	name          string
	before, after Totals
}

func (c *changed) delta() float64 { return float64(c.after.TimeNS) - float64(c.before.TimeNS) }

// functions pairs the functions of both jobs, those that changed most first.
func (d *Diff) functions() []*changed {
	rows := map[string]*changed{}
	for i, r := range []*Report{d.Before, d.After} {
		for _, f := range r.Functions {
			if !f.setup {
				pick(rows, f.Name, i).add(f.Totals)
			}
		}
	}
	return byDelta(rows)
}

// sites pairs the call sites by function and source line, or offset if the
// program has no lines: a rebuilt program has other offsets.
func (d *Diff) sites() []*changed {
	rows := map[string]*changed{}
	for i, r := range []*Report{d.Before, d.After} {
		for _, s := range r.Sites {
			if setup(s.key.call) {
				continue
			}
			place := r.location(s)
			if s.Line == 0 && s.Symbol != "" {
				place = path.Base(s.Module) + " in " + s.Symbol
			}
			pick(rows, s.Function.Name+"  "+place, i).add(s.Totals)
		}
	}
	return byDelta(rows)
}

func pick(rows map[string]*changed, name string, side int) *Totals {
	row := rows[name]
	if row == nil {
		row = &changed{name: name}
		rows[name] = row
	}
	if side == 0 {
		return &row.before
	}
	return &row.after
}

func byDelta(rows map[string]*changed) []*changed {
	var out []*changed
	for _, row := range rows {
		if row.before != row.after {
			out = append(out, row)
		}
	}
	slices.SortFunc(out, func(a, b *changed) int {
		return cmp.Or(-cmp.Compare(math.Abs(a.delta()), math.Abs(b.delta())), strings.Compare(a.name, b.name))
	})
	return out
}

// changeText writes a change with its sign: "+12 %".
func changeText(change float64) string {
	switch {
	case math.IsInf(change, 1):
		return "new"
	case change == -1:
		return "gone"
	case change == 0:
		return "same"
	case math.Abs(change) < 0.0005:
		return "±0.0 %"
	case math.Abs(change) < 0.0995:
		return fmt.Sprintf("%+.1f %%", change*100)
	case change > 9.995:
		return fmt.Sprintf("×%s", digits(change+1))
	}
	return fmt.Sprintf("%+.0f %%", change*100)
}

// WriteText writes the comparison for people.
func (d *Diff) WriteText(w io.Writer, v View) error {
	out := bufio.NewWriter(w)
	t := &writer{Writer: out, r: d.After, v: &v}
	for i, r := range []*Report{d.Before, d.After} {
		t.wrap([]string{"before ", "after  "}[i], fmt.Sprintf("%s: %s, %s", clean(d.Names[i]), plural(r.Job.Ranks, "rank"), r.Job.State))
	}
	if d.Before.Job.Ranks != d.After.Job.Ranks {
		t.wrap("* ", "the numbers of ranks differ: sums over ranks do not compare directly")
	}
	t.blank()
	totals := &table{columns: []column{{"", "", unitText, false}, {"before", "", unitText, false}, {"after", "", unitText, false}, {"change", "", unitText, false}}}
	totals.columns[0].head = "metric"
	for _, name := range Metrics() {
		m, err := d.Metric(name)
		if err != nil {
			return err
		}
		unit := map[string]unit{"wall": unitNS, "mpi": unitNS, "calls": unitCount, "bytes": unitBytes}[name]
		totals.rows = append(totals.rows, []any{name, v.human(m.Before, unit), v.human(m.After, unit), changeText(m.Change())})
	}
	t.titled("Job", totals, len(totals.rows))
	t.changes("Functions", d.functions())
	t.changes("Places", d.sites())
	return out.Flush()
}

// changes writes the rows that changed most in time.
func (t *writer) changes(title string, rows []*changed) {
	all := len(rows)
	rows = rows[:min(all, t.v.top(8))]
	out := &table{empty: "no difference", columns: []column{{"by change of time", "", unitText, true}, {"calls before", "", unitCount, false}, {"after", "", unitCount, false},
		{"time before", "", unitNS, false}, {"after", "", unitNS, false}, {"change", "", unitText, false}}}
	for _, row := range rows {
		m := Metric{Before: row.before.TimeNS, After: row.after.TimeNS}
		out.rows = append(out.rows, []any{row.name, row.before.Calls, row.after.Calls, m.Before, m.After, changeText(m.Change())})
	}
	t.titled(title, out, all)
}
