package page

import (
	"cmp"
	"fmt"
	"html/template"
	"slices"
	"time"

	"github.com/mpitrace/mpitrace/report"
)

// Rows of tables: what is in the page at most, and what is shown at first.
const (
	sitesKept = 500
	rowsKept  = 200
	pairsKept = 64
	ranksKept = 64
)

// content is what the layout is filled with.
type content struct {
	Policy   string
	Icon     template.URL
	Style    template.CSS
	Script   template.JS
	Data     template.JS // the cells of the maps
	Title    string
	Summary  *report.Summary
	Running  bool
	Findings []string
	Tiles    []tile
	Overview *chart // the balance over the ranks

	Stuck, Functions, Sites         *table
	Pairs, Arrivals, Latest         *table
	Requests, Waits, Reuse, Classes *table
	Ranks, Comms, Types, Phases     *table
	Act                             *act // nil: it was not to act

	Matrix, Raster             *mapView
	MatrixEmpty, RasterEmpty   string   // why there is no map
	Uses                       []*chart // of buffers again, two of each path
	Sizes, Durations           []*chart
	SizesEmpty, DurationsEmpty string
	Made                       string
}

// act is what the job carried itself.
type act struct {
	Lines           []string
	Ways, Decisions *table
}

// tile is one figure of the overview.
type tile struct{ Label, Value, Detail string }

// newContent chooses what the page says, section by section.
func newContent(r *report.Report, o Options) (*content, error) {
	c := &content{
		Policy: policy(), Icon: template.URL(icon), Style: template.CSS(style), Script: template.JS(script),
		Summary: r.Summary(o.Zone), Running: r.Job.State == report.StateRunning, Findings: r.Findings,
		Tiles: tiles(r), Overview: balanceChart(r), Made: made(r, o),
	}
	c.Title = cmp.Or(c.Summary.Command, r.Job.ID, "a job") + " – mpitrace"
	if err := c.addTables(r); err != nil {
		return nil, err
	}
	if r.Act != nil {
		ways, decisions := r.ActSheets()
		ways.Title, decisions.Title = "What mpitrace carried, by protocol", "What was tried, and kept"
		c.Act = &act{r.Act.Lines(), newTable("way", ways), newTable("decision", decisions)}
	}
	c.addReuse(r)
	c.addHistograms(r)
	return c, c.addMaps(r)
}

// addTables makes the tables of the views.
func (c *content) addTables(r *report.Report) error {
	for _, view := range []struct {
		by    string
		kept  int
		into  **table
		title string
	}{
		{"call", 0, &c.Functions, "Functions by time"},
		{"site", sitesKept, &c.Sites, "Places in the program by time"},
		{"peer", pairsKept, &c.Pairs, ""},
		{"arrival", rowsKept, &c.Arrivals, "Places of collective operations by waiting"},
		{"overlap", rowsKept, &c.Requests, "Places that start requests"},
		{"reuse", 0, &c.Reuse, "Use of message buffers again"},
		{"comm", rowsKept, &c.Comms, ""},
		{"type", rowsKept, &c.Types, ""},
		{"phase", rowsKept, &c.Phases, ""},
	} {
		sheet, err := r.Sheet(view.by, view.kept)
		if err != nil {
			return err
		}
		sheet.Title = cmp.Or(view.title, sheet.Title)
		*view.into = newTable(view.by, sheet)
	}
	if c.Summary.Stuck != nil {
		c.Stuck = newTable("stuck", c.Summary.Stuck)
	}
	c.Waits = newTable("wait", r.WaitSheet(rowsKept))
	c.Waits.Title = "Messages that waited for their other end"
	return c.addRanks(r)
}

// addRanks makes the table of ranks; of many ranks those with the least and
// the most time in MPI.
func (c *content) addRanks(r *report.Report) error {
	sheet, err := r.Sheet("rank", 0)
	if err != nil {
		return err
	}
	sheet.Title = "Time in MPI by rank"
	if len(r.Ranks) > ranksKept {
		const half = ranksKept / 2
		order := make([]int, len(r.Ranks))
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(x, y int) int { return -cmp.Compare(r.Ranks[x].Share, r.Ranks[y].Share) })
		rows := make([][]report.Cell, 0, ranksKept)
		for _, i := range append(order[:half:half], order[len(order)-half:]...) {
			rows = append(rows, sheet.Rows[i])
		}
		sheet.Rows = rows
		sheet.Title = fmt.Sprintf("The %d ranks with the most and the %d with the least time in MPI", half, half)
	}
	c.Ranks = newTable("rank", sheet)
	return nil
}

// tiles are the figures to begin with.
func tiles(r *report.Report) []tile {
	job := &r.Job
	shares := fmt.Sprintf("%s (rank %d) to %s (rank %d)", report.Percent(job.Share.Min), job.Share.MinRank, report.Percent(job.Share.Max), job.Share.MaxRank)
	if len(r.Ranks) < 2 {
		shares = "of the time of its one rank"
	}
	out := []tile{
		{"in MPI", report.Percent(job.Share.Mean), shares},
		{"run time", report.Duration(job.WallNS), "between MPI_Init and MPI_Finalize"},
		{"ranks", report.Count(uint64(job.Ranks)), "on " + plural(len(job.Nodes), "node")},
		{"calls of MPI", report.Count(job.Calls), report.Duration(job.MPINS) + " over all ranks"},
		{"messages", report.Count(job.Messages.SentMessages), report.Bytes(job.Messages.SentBytes) + " sent between pairs"},
	}
	waiting := uint64(0)
	for _, a := range r.Arrivals {
		waiting += a.Waiting.NS
	}
	if len(r.Arrivals) > 0 {
		share := float64(waiting) / float64(max(1, job.MPINS))
		out = append(out, tile{"waiting in collectives", report.Duration(waiting), report.Percent(min(1, share)) + " of the time in MPI"})
	}
	return out
}

// made says what wrote the page, and in which time zone its moments are.
func made(r *report.Report, o Options) string {
	zone := o.Zone
	if zone == nil {
		zone = time.Local
	}
	at, err := time.Parse(time.RFC3339, r.Job.Start)
	if err != nil {
		at = time.Now() // there are no moments
	}
	name, _ := at.In(zone).Zone()
	text := "Written by mpitrace"
	if o.Version != "" {
		text += " " + o.Version
	}
	return text + ". Moments are in the time zone " + name + "."
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return report.Count(uint64(n)) + " " + what + "s"
}

// rankSpan names the ranks of a group.
func rankSpan(first, last int) string {
	if first == last {
		return fmt.Sprintf("rank %d", first)
	}
	return fmt.Sprintf("ranks %d–%d", first, last)
}
