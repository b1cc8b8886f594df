package tables

import (
	"errors"
	"fmt"

	"github.com/mpitrace/mpitrace/report"
	"github.com/mpitrace/mpitrace/report/timeline"
)

// Writer writes the tables of one result into a directory.
type Writer struct {
	dir     string
	format  Format
	version string
	job     *timeline.Job

	calls, messages, requests, collectives *table // calls, messages and requests: only with a trace
}

// Names lists all tables that there may be.
func Names() []string {
	out := []string{"calls", "messages", "requests", "collectives", "ranks", "sites"}
	for _, by := range report.Views() {
		out = append(out, "report-"+by)
	}
	return out
}

// New makes a Writer into a directory that exists and has none of the files.
// version is that of the program.
func New(dir string, format Format, version string) *Writer {
	return &Writer{dir: dir, format: format, version: version}
}

// Begin opens the tables.
func (w *Writer) Begin(job *timeline.Job) error {
	w.job = job
	var err error
	if w.collectives, err = w.open("collectives", collectiveColumns); err != nil || !job.Traced {
		return err
	}
	for _, t := range []struct {
		table   **table
		name    string
		columns []column
	}{{&w.calls, "calls", callColumns}, {&w.messages, "messages", messageColumns}, {&w.requests, "requests", requestColumns}} {
		if *t.table, err = w.open(t.name, t.columns); err != nil {
			return err
		}
	}
	return nil
}

var messageColumns = []column{
	{"message", integer, false}, {"world", text, false}, {"communicator", text, false}, {"sender", integer, false}, {"receiver", integer, false}, {"tag", integer, false},
	{"bytes", integer, false}, {"send_function", text, false}, {"send_site", integer, false}, {"send_nonblocking", truth, false}, {"send_enter_ns", integer, false},
	{"send_exit_ns", integer, false}, {"receive_function", text, false}, {"receive_site", integer, false}, {"receive_nonblocking", truth, false},
	{"receive_post_ns", integer, false}, {"receive_enter_ns", integer, false}, {"receive_exit_ns", integer, false}, {"any_source", truth, false},
	{"any_tag", truth, false}, {"completion_seen", truth, false}, {"clock_error_ns", integer, true},
}

// Message writes a row of messages.
func (w *Writer) Message(m *timeline.Message) error {
	return w.messages.add(count(m.Flow), words(m.Sender.World), words(commName(m.Comm)), whole(int64(m.Sender.Rank)), whole(int64(m.Receiver.Rank)), whole(int64(m.Tag)),
		count(m.Bytes), words(m.SendCall.String()), whole(int64(m.SendPlace.ID)), yes(m.SendNonblocking), whole(m.SendBeginNS),
		whole(m.SendEndNS), words(m.ReceiveCall.String()), whole(int64(m.ReceivePlace.ID)), yes(m.ReceiveNonblocking),
		whole(m.PostNS), whole(m.ReceiveBeginNS), whole(m.ReceiveEndNS), yes(m.AnySource),
		yes(m.AnyTag), yes(!m.Estimated), when(m.Comparable, count(m.BoundNS)))
}

func commName(c *timeline.Comm) string {
	if c == nil {
		return ""
	}
	return c.Name
}

var collectiveColumns = []column{
	{"world", text, false}, {"communicator", text, false}, {"communicator_id", text, false}, {"function", text, false}, {"sequence", integer, false}, {"start", integer, false},
	{"rank", integer, false}, {"communicator_rank", integer, false}, {"size", integer, false}, {"root", integer, true}, {"site", integer, false}, {"bytes", integer, false},
	{"arrival_ns", integer, false}, {"wait_ns", integer, false}, {"exit_ns", integer, false}, {"clock_error_ns", integer, false}, {"last_rank", integer, true},
}

// Sample writes a row of collectives.
func (w *Writer) Sample(s *timeline.Sample) error {
	id := ""
	if s.Comm != nil {
		id = fmt.Sprintf("%016x", s.Comm.ID)
	}
	return w.collectives.add(words(s.Rank.World), words(commName(s.Comm)), words(id), words(s.Call.String()), whole(int64(s.Sequence)), whole(int64(s.Start)),
		whole(int64(s.Rank.Rank)), whole(int64(s.CommRank)), whole(int64(s.Size)), when(s.Root >= 0, whole(int64(s.Root))), whole(int64(s.Place.ID)), count(s.Bytes),
		whole(s.EnterNS), whole(s.WaitNS), whole(s.ExitNS), count(s.BoundNS), when(s.Last >= 0, whole(int64(s.Last))))
}

// BeginRank has nothing to write.
func (w *Writer) BeginRank(*timeline.Rank) error { return nil }

var callColumns = []column{
	{"call", integer, false}, {"world", text, false}, {"rank", integer, false}, {"thread", integer, false}, {"function", text, false}, {"site", integer, true},
	{"begin_ns", integer, false}, {"end_ns", integer, false}, {"bytes", integer, false}, {"communicator", text, true}, {"peer", integer, true}, {"tag", integer, true},
	{"messages", integer, false}, {"state", text, false},
}

// Enter writes a row of calls, and of requests what it started.
func (w *Writer) Enter(c *timeline.Call) error {
	if w.calls == nil {
		return nil // in progress, of a result without a trace: ranks has it
	}
	state, site := "complete", value{}
	switch {
	case c.Open:
		state = "in progress"
	case c.Implied:
		state = "implied"
	}
	if c.Place != nil {
		site = whole(int64(c.Place.ID))
	}
	err := w.calls.add(count(c.ID), words(c.Rank.World), whole(int64(c.Rank.Rank)), whole(int64(c.Thread)), words(c.Name), site,
		whole(c.BeginNS), whole(c.EndNS), count(c.Bytes), when(c.Comm != nil, words(commName(c.Comm))), when(c.Peer >= 0, whole(int64(c.Peer))),
		when(c.Tag >= 0 && c.Comm != nil, whole(int64(c.Tag))), count(uint64(len(c.Ends))), words(state))
	for i := range c.Posted {
		r := &c.Posted[i]
		err = errors.Join(err, w.request(c, &r.End, whole(r.CompleteNS), whole(r.DoneNS)))
	}
	for i := range c.Ends {
		if end := &c.Ends[i]; !end.Receive && end.Nonblocking {
			err = errors.Join(err, w.request(c, end, value{}, value{}))
		}
	}
	return err
}

var requestColumns = []column{
	{"world", text, false}, {"rank", integer, false}, {"kind", text, false}, {"serial", integer, false}, {"function", text, false}, {"site", integer, false},
	{"communicator", text, false}, {"peer", integer, true}, {"tag", integer, true}, {"bytes", integer, false}, {"post_ns", integer, false},
	{"completing_enter_ns", integer, true}, {"completing_exit_ns", integer, true}, {"completion_seen", truth, false}, {"message", integer, true},
}

func (w *Writer) request(c *timeline.Call, e *timeline.End, complete, done value) error {
	kind := "send"
	if e.Receive {
		kind = "receive"
	}
	seen := e.Receive && !e.Estimated
	return w.requests.add(words(c.Rank.World), whole(int64(c.Rank.Rank)), words(kind), whole(int64(e.Serial)), words(e.Call.String()), whole(int64(e.Place.ID)),
		words(commName(e.Comm)), when(e.Peer >= 0, whole(int64(e.Peer))), when(e.Tag >= 0, whole(int64(e.Tag))), count(e.Bytes), whole(e.PostNS),
		when(seen, complete), when(seen, done), yes(seen), when(e.Flow > 0, count(e.Flow)))
}

// Leave has nothing to write.
func (w *Writer) Leave(*timeline.Call) error { return nil }

// EndRank has nothing to write.
func (w *Writer) EndRank(*timeline.Rank) error { return nil }

// End writes the tables that are not of events.
func (w *Writer) End(s *timeline.Summary) error {
	for _, t := range []*table{w.calls, w.messages, w.requests, w.collectives} {
		if err := t.end(); err != nil {
			return err
		}
	}
	if err := w.ranks(); err != nil {
		return err
	}
	if err := w.sites(s); err != nil || w.job.Traced {
		return err
	}
	for _, by := range report.Views() {
		if err := w.view(by); err != nil {
			return err
		}
	}
	return nil
}

var rankColumns = []column{
	{"world", text, false}, {"rank", integer, false}, {"node", text, true}, {"pid", integer, true}, {"state", text, false}, {"start_ns", integer, true}, {"end_ns", integer, true},
	{"wall_ns", integer, true}, {"mpi_ns", integer, true}, {"mpi_calls", integer, true}, {"bytes", integer, true}, {"traced", truth, false}, {"calls_exported", integer, false},
	{"events_not_kept", integer, false}, {"clock_error_ns", integer, true}, {"clock_comparable", truth, false}, {"gaps", text, false},
}

// ranks writes one row for each rank, also for those without data.
func (w *Writer) ranks() error {
	t, err := w.open("ranks", rankColumns)
	if err != nil {
		return err
	}
	known := map[[2]any]*report.Rank{}
	for _, r := range w.job.Report.Ranks {
		known[[2]any{r.World, int32(r.Rank)}] = r
	}
	for _, r := range w.job.Ranks {
		gaps := ""
		for i, g := range r.Gaps {
			if i > 0 {
				gaps += "; "
			}
			gaps += g.What
		}
		here, state, of := !r.Missing, r.State, known[[2]any{r.World, r.Rank}]
		if of == nil {
			of = &report.Rank{}
		}
		if r.Missing {
			state = "no data"
		}
		err := t.add(words(r.World), whole(int64(r.Rank)), when(here, words(r.Node)), when(here, whole(int64(r.PID))), words(state), when(here, whole(r.StartNS)), when(here, whole(r.EndNS)),
			when(here, count(of.WallNS)), when(here, count(of.MPINS)), when(here, count(of.Calls)), when(here, count(of.Bytes)), yes(r.Traced), count(r.Calls),
			count(r.Dropped), when(here && r.Aligned, count(r.BoundNS)), yes(r.Aligned), words(gaps))
		if err != nil {
			return err
		}
	}
	return t.end()
}

var siteColumns = []column{
	{"site", integer, false}, {"function", text, false}, {"place", text, false}, {"file", text, true}, {"line", integer, true}, {"symbol", text, true}, {"module", text, true},
	{"offset", text, false}, {"calls", integer, false}, {"time_ns", integer, false}, {"bytes", integer, false},
}

// sites writes the places that other tables name by number.
func (w *Writer) sites(s *timeline.Summary) error {
	t, err := w.open("sites", siteColumns)
	if err != nil {
		return err
	}
	for _, p := range s.Places {
		site := p.Site
		err := t.add(whole(int64(p.ID)), words(p.Function), words(p.Location), when(site.File != "", words(site.File)), when(site.Line > 0, whole(int64(site.Line))),
			when(site.Symbol != "", words(site.Symbol)), when(site.Module != "", words(site.Module)), words(fmt.Sprintf("%#x", site.Offset)),
			count(site.Calls), count(site.TimeNS), count(site.Bytes))
		if err != nil {
			return err
		}
	}
	return t.end()
}

// view writes a table of the report, under the name report-NAME.
func (w *Writer) view(by string) error {
	from, err := w.job.Report.Table(by)
	if err != nil {
		return err
	}
	columns := make([]column, len(from.Columns))
	for i, name := range from.Columns {
		columns[i] = column{name, kindOf(from.Rows, i), true}
	}
	t, err := w.open("report-"+by, columns)
	if err != nil {
		return err
	}
	values := make([]value, len(columns))
	for _, row := range from.Rows {
		for i, v := range row {
			values[i] = valueOf(v, columns[i].kind)
		}
		if err := t.add(values...); err != nil {
			return err
		}
	}
	return t.end()
}

// kindOf is the type of a column of the report: text if any row has a text,
// but an empty one stands for unknown.
func kindOf(rows [][]any, i int) kind {
	out := text
	for _, row := range rows {
		switch v := row[i].(type) {
		case string:
			if v != "" {
				return text
			}
		case float64:
			out = number
		default:
			out = integer
		}
	}
	return out
}

func valueOf(v any, k kind) value {
	switch v := v.(type) {
	case string:
		return when(v != "" || k == text, words(v))
	case float64:
		if k == number {
			return share(v)
		}
	case int:
		if k == integer {
			return whole(int64(v))
		}
	case uint64:
		if k == integer {
			return count(v)
		}
	}
	return words(fmt.Sprint(v))
}
