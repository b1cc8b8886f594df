package report

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/mpitrace/mpitrace/reusetrack"
	"github.com/mpitrace/mpitrace/segment"
)

// Reuse is how often the buffers of one path were used again, over all ranks.
type Reuse struct {
	reusetrack.Path
	EagerLimit     uint64             `json:"eager_limit"`     // largest payload of eager size
	DistanceMedian *reusetrack.Bin    `json:"distance_median"` // bin of distances that holds the median; null without any
	Table1         *reusetrack.Table1 `json:"table1"`          // of sends and one-sided operations
	Table2         *reusetrack.Table2 `json:"table2"`          // ... if costs were given
}

// finishReuse takes over the paths that were used.
func (b *builder) finishReuse() {
	b.report.predictions = b.reuse.Predictions()
	for path := range segment.PathPaths {
		p := b.reuse.Path(path)
		if p.Accesses == 0 && p.Buffers == 0 {
			continue
		}
		r := &Reuse{Path: p, EagerLimit: b.eagerLimit(path), DistanceMedian: medianBin(p.Distances)}
		if path != segment.PathReceive {
			t := b.reuse.Table1(path)
			r.Table1 = &t
			if t, ok := b.reuse.Table2(path); ok {
				r.Table2 = &t
			}
		}
		b.report.Reuse = append(b.report.Reuse, r)
	}
}

// eagerLimit is the largest payload of eager size of a path.
func (b *builder) eagerLimit(path int) uint64 {
	if path == segment.PathOrigin {
		return reusetrack.DefaultOneSidedLimit
	}
	return cmp.Or(b.options.EagerLimit, reusetrack.DefaultEagerLimit)
}

// medianBin is the bin that holds the median.
func medianBin(bins []reusetrack.Bin) *reusetrack.Bin {
	all := uint64(0)
	for _, bin := range bins {
		all += bin.Count
	}
	sum := uint64(0)
	for i := range bins {
		if sum += bins[i].Count; sum*2 >= all && all > 0 {
			return &bins[i]
		}
	}
	return nil
}

// reusePart is a path and size class as the report names it.
type reusePart struct {
	name string
	reusetrack.Part
	reuse *Reuse
	whole bool // all of the path
}

// reuseParts lists the parts with accesses: sends of eager and of rendezvous
// size, receives, origins of one-sided operations.
func (r *Report) reuseParts() []reusePart {
	var out []reusePart
	for _, u := range r.Reuse {
		all := reusetrack.Part{Accesses: u.Accesses, Reused: u.Reused, Buffers: u.Buffers}
		switch u.Path.Path {
		case "send":
			out = append(out, reusePart{"send eager", u.Eager, u, u.Rendezvous.Accesses == 0}, reusePart{"send rendezvous", u.Rendezvous, u, u.Eager.Accesses == 0})
		case "receive":
			out = append(out, reusePart{"receive", all, u, true})
		default:
			out = append(out, reusePart{"one-sided origin", all, u, true})
		}
	}
	kept := out[:0]
	for _, p := range out {
		if p.Accesses > 0 {
			kept = append(kept, p)
		}
	}
	return kept
}

// sizesText lists the most used sizes of the part.
func (p *reusePart) sizesText() string {
	var parts []string
	for _, s := range p.reuse.Sizes {
		eager := s.Bytes <= p.reuse.EagerLimit
		if len(parts) < 3 && (p.whole || eager == (p.name == "send eager")) {
			parts = append(parts, bytesText(s.Bytes))
		}
	}
	return strings.Join(parts, ", ")
}

// shareText is the share of accesses to buffers used before; with ~ where the
// eager limit cuts through buffers of changing size.
func (p *reusePart) shareText() string {
	text := percent(ratio(p.Reused, p.Accesses))
	switch {
	case p.reuse.LowerBound:
		return "≥" + text
	case p.Estimated:
		return "~" + text
	}
	return text
}

func (u *Reuse) distanceText() string {
	switch m := u.DistanceMedian; {
	case m == nil:
		return "-"
	case m.To == 0:
		return fmt.Sprintf("≥%d", m.From)
	case m.To == m.From+1:
		return fmt.Sprint(m.From)
	default:
		return fmt.Sprintf("%d-%d", m.From, m.To-1)
	}
}

// reuseTable has a row for each part.
func (r *Report) reuseTable() *table {
	t := &table{title: "Reuse", order: map[string]int{"name": 0, "calls": 1}, empty: "no message buffers were followed (MPITRACE_REUSE=0, or no messages)", spare: []string{"most used sizes"},
		columns: []column{{"path", "path", unitText, false}, {"accesses", "accesses", unitCount, false}, {"reused", "", unitText, false}, {"", "reused", unitCount, false},
			{"", "reused_share", unitShare, false}, {"buffers", "buffers", unitCount, false}, {"ranks", "ranks", unitCount, false}, {"distance", "", unitText, false},
			{"", "distance_from", unitCount, false}, {"", "distance_to", unitCount, false}, {"most used sizes", "sizes", unitText, true}, {"", "lower_bound", unitText, false}}}
	parts := r.reuseParts()
	for i := range parts {
		p := &parts[i]
		var from, to uint64
		if m := p.reuse.DistanceMedian; m != nil {
			from, to = m.From, m.To
		}
		t.rows = append(t.rows, []any{p.name, p.Accesses, p.shareText(), p.Reused, ratio(p.Reused, p.Accesses), p.Buffers, p.reuse.Ranks, p.reuse.distanceText(),
			from, to, p.sizesText(), fmt.Sprint(p.reuse.LowerBound)})
	}
	return t
}

// reuseLines is the two tables of the papers for this application, and what
// must be said of the figures.
func (r *Report) reuseLines() []string {
	var out []string
	for _, u := range r.Reuse {
		if t := u.Table1; t != nil && t.Ranks > 0 {
			out = append(out, u.table1Text())
		}
		switch {
		case u.Table2 != nil && u.Table2.Incomplete:
			out = append(out, fmt.Sprintf("frequently used: at least %s of the %s buffers followed", countText(u.Table2.Frequent), countText(u.Table2.Buffers)))
		case u.Table2 != nil:
			out = append(out, fmt.Sprintf("frequently used: %s of %s buffers above %d B, %.1f %%", countText(u.Table2.Frequent), countText(u.Table2.Buffers), reusetrack.MinBytes, u.Table2.Percent))
		}
		if note := u.Note(); note != "" {
			out = append(out, note)
		}
	}
	return out
}

func (u *Reuse) table1Text() string {
	t := u.Table1
	uses := countText(t.MaxUses.Min)
	if t.MaxUses.Max != t.MaxUses.Min {
		uses += " to " + countText(t.MaxUses.Max)
	}
	size := bytesText(t.Bytes.Min)
	if t.Bytes.Max != t.Bytes.Min {
		size += " to " + bytesText(t.Bytes.Max)
	}
	reused := fmt.Sprintf("%.1f", t.ReusedPercent)
	if t.ReusedPercentHigh > t.ReusedPercent {
		reused += fmt.Sprintf(" to %.1f", t.ReusedPercentHigh)
	}
	what := "sends"
	if u.Path.Path == "origin" {
		what = "one-sided operations"
	}
	bound := ""
	if t.LowerBound {
		bound = "at least "
	}
	return fmt.Sprintf("of the %s up to %s: a rank's most used buffer is used %s%s times (%s), %s %% are from a buffer used before",
		what, bytesText(u.EagerLimit), bound, uses, size, reused)
}

// publishedReuse is what the papers print of applications, for comparison.
func publishedReuse() string {
	var parts []string
	for _, app := range reusetrack.PublishedApps() {
		parts = append(parts, fmt.Sprintf("%s %.1f and %.1f %%", app.Name, app.Reused, app.Often))
	}
	return "published, sends from a buffer used before and buffers frequently used: " + strings.Join(parts, ", ")
}

// reuseClasses is the text-only table of all size classes.
func (r *Report) reuseClasses() *table {
	t := &table{columns: []column{{"path", "", unitText, false}, {"payload", "", unitText, false}, {"accesses", "", unitCount, false}, {"reused", "", unitShare, false},
		{"buffers", "", unitCount, false}, {"most uses of one", "", unitCount, false}, {"changed size", "", unitCount, false}}}
	for _, u := range r.Reuse {
		for _, c := range u.Classes {
			t.rows = append(t.rows, []any{u.Path.Path, classText(c.From, c.To), c.Accesses, ratio(c.Reused, c.Accesses), c.Buffers, c.MaxUses, c.Resized})
		}
	}
	return t
}

func classText(from, to uint64) string {
	switch {
	case from == 0:
		return "0 B"
	case to == 0:
		return "from " + binaryText(from)
	case from == 1:
		return "1 B"
	}
	low, high := binaryText(from), binaryText(to)
	if number, unit, _ := strings.Cut(low, " "); strings.HasSuffix(high, " "+unit) {
		low = number
	}
	return low + "-" + high
}
