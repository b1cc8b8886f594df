package top

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/mpitrace/mpitrace/internal/symbols"
	"github.com/mpitrace/mpitrace/report"
	"github.com/mpitrace/mpitrace/segment"
)

// ErrGone says that a job has left shared memory.
var ErrGone = errors.New("is no longer in shared memory")

// Source reads jobs. It is used by one goroutine at a time.
type Source interface {
	// Jobs lists the jobs of this node, the newest first, and what could not be
	// read of them.
	Jobs() (jobs []Found, problems []string)
	// Snapshot reads a job by its path. The error wraps ErrGone if it has left.
	Snapshot(job string) (*Snapshot, error)
	// Detail reads all of one rank.
	Detail(job string, id RankID) (*Detail, error)
	// Lateness works out who arrives late; that takes some times as long as a
	// Snapshot.
	Lateness(job string) (*Lateness, error)
	// Result is what a job that is gone has left, and where; nil if that cannot
	// be found.
	Result(job string) (last *Snapshot, path string)
}

// Segments is the jobs in shared memory.
type Segments struct {
	bases   []string
	symbols *symbols.Resolver
	results map[string]resultSpot // where the result of a job goes, by its path
	paths   map[RankID]string     // of the segments of the last Snapshot
}

// resultSpot is where a result is expected, and whose it must be.
type resultSpot struct{ dir, id string }

// NewSegments looks for jobs below base directories, as segment.BaseDirs lists
// them.
func NewSegments(bases []string) *Segments {
	return &Segments{bases: bases, symbols: symbols.New(symbols.Options{}), results: map[string]resultSpot{}}
}

// Jobs scans the base directories.
func (s *Segments) Jobs() (jobs []Found, problems []string) {
	for _, base := range s.bases {
		found, err := segment.Scan(base)
		if err != nil {
			problems = append(problems, err.Error())
		}
		for _, in := range segment.ByJob(found) {
			job := Found{ID: in.Name, Path: in.Path}
			for i := range in.Segments {
				job.add(&in.Segments[i])
			}
			jobs = append(jobs, job)
		}
	}
	slices.SortStableFunc(jobs, func(a, b Found) int {
		return cmp.Or(b.liveliness()-a.liveliness(), b.Start.Compare(a.Start), strings.Compare(a.Path, b.Path))
	})
	return jobs, problems
}

func (f *Found) add(s *segment.Found) {
	if s.Err != nil {
		f.Unreadable++
		return
	}
	f.Ranks++
	if s.Alive {
		f.Alive++
	}
	h := &s.Header
	f.Command = cmp.Or(f.Command, segment.Text(h.Command[:]), segment.Text(h.Executable[:]))
	if ns := h.RealtimeNS(h.FirstTicks); ns > 0 && (f.Start.IsZero() || time.Unix(0, ns).Before(f.Start)) {
		f.Start = time.Unix(0, ns)
	}
}

// liveliness puts jobs that run first.
func (f *Found) liveliness() int { return min(f.Alive, 1) }

// Snapshot reads the totals of a job.
func (s *Segments) Snapshot(job string) (*Snapshot, error) {
	began := time.Now()
	r, err := report.Load(job, report.Options{TotalsOnly: true, Symbols: s.symbols})
	if err != nil {
		if gone(job, err) {
			return nil, fmt.Errorf("job %s %w", filepath.Base(job), ErrGone)
		}
		return nil, err
	}
	out := snapshotOf(r, began)
	s.paths = map[RankID]string{}
	for _, rank := range r.Ranks {
		s.paths[idOf(rank)] = rank.Path
	}
	if _, ok := s.results[job]; !ok {
		s.results[job] = resultSpot{resultDir(out), out.Job.ID}
	}
	return out, nil
}

// gone tells whether a job could not be read because nothing of it is there any
// more.
func gone(job string, err error) bool {
	if errors.Is(err, fs.ErrNotExist) {
		return true
	}
	entries, err := os.ReadDir(job)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	return !slices.ContainsFunc(entries, func(e os.DirEntry) bool { return strings.HasSuffix(e.Name(), segment.FileSuffix) })
}

func snapshotOf(r *report.Report, at time.Time) *Snapshot {
	out := &Snapshot{At: at, Problems: r.Problems, Job: Job{
		ID: r.Job.ID, Command: r.Job.Command, MPI: r.Job.MPI, State: r.Job.State,
		Nodes: len(r.Job.Nodes), WorldSize: r.Job.WorldSize, Missing: len(r.Job.MissingRanks), Worlds: len(r.Job.Worlds),
		WallNS: r.Job.WallNS, IdleNS: r.Job.IdleNS,
	}}
	for _, rank := range r.Ranks {
		row := Rank{ID: idOf(rank), State: rank.State, WallNS: rank.WallNS, BusyNS: rank.BusyNS, Calls: rank.Calls, Bytes: rank.Bytes}
		for i := range rank.Current {
			c := &rank.Current[i]
			row.In = append(row.In, Call{Name: c.Name, Place: r.Place(c.Site), Comm: c.Comm, Peer: c.Peer, Tag: c.Tag, SinceNS: c.SinceNS, Thread: c.Thread})
		}
		out.Ranks = append(out.Ranks, row)
	}
	for i := range r.Stuck {
		g := &r.Stuck[i]
		out.Waits = append(out.Waits, Wait{g.Name, r.Place(g.Site), g.World, g.Ranks, g.SinceNS, missingHere(g.Missing)})
	}
	out.Deadlock = r.Deadlock()
	if r.Act != nil {
		out.Job.Act = actOf(r.Act)
	}
	return out
}

func actOf(a *report.Act) *Act {
	out := &Act{FallBacks: a.Counts[segment.ActFallBacks], Wrong: a.Counts[segment.ActWrongMessages], Quarantined: a.Counts[segment.ActQuarantinedPaths]}
	out.Messages, out.Bytes = a.Share()
	for _, way := range a.Ways {
		if way.Messages > 0 {
			name, _, _ := strings.Cut(way.Name, " ")
			out.Ways = append(out.Ways, Way{name, min(1, float64(way.Messages)/float64(max(1, a.Messages)))})
		}
	}
	for _, v := range a.Verdicts {
		if !v.Act {
			out.Off = cmp.Or(out.Off, v.Reason, "mpitrace run has said why")
		}
	}
	return out
}

// missingHere says of ranks without data what is likely where only one node is
// looked at.
func missingHere(missing []report.Missing) []report.Missing {
	out := slices.Clone(missing)
	for i := range out {
		if strings.HasPrefix(out[i].Where, "no data") {
			out[i].Where = "not on this node, or without mpitrace"
		}
	}
	return out
}

func idOf(r *report.Rank) RankID { return RankID{r.World, r.Rank, r.Node, r.PID} }

// placesKept is how many places of a rank are of interest.
const placesKept = 20

// load reads a job, or what it has left if it is gone.
func (s *Segments) load(job string, options report.Options) (*report.Report, error) {
	options.Symbols = s.symbols
	r, err := report.Load(job, options)
	if spot := s.results[job]; err != nil && spot.dir != "" && gone(job, err) {
		return report.Load(spot.dir, options)
	}
	return r, err
}

// Detail reads one segment, or the rank out of all that the job has left.
func (s *Segments) Detail(job string, id RankID) (*Detail, error) {
	at := time.Now()
	options := report.Options{Detail: true, Symbols: s.symbols}
	r, err := report.Load(s.paths[id], options)
	if err != nil {
		options.Ranks = report.OneRank(id.Rank)
		r, err = s.load(job, options)
	}
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(r.Ranks, func(rank *report.Rank) bool { return idOf(rank) == id })
	if i < 0 {
		return nil, fmt.Errorf("rank %d: its segment is another process's now", id.Rank)
	}
	rank := r.Ranks[i]
	d := &Detail{At: at, ID: id, Requests: rank.Requests, Functions: rank.Functions, Peers: rank.Peers}
	for _, site := range r.Sites[:min(len(r.Sites), placesKept)] {
		d.Places = append(d.Places, Place{site.Function.Name, r.Place(site), site.Totals})
	}
	return d, nil
}

// latePlaces is how many places are of interest.
const latePlaces = 20

// Lateness reads all that is known of the job.
func (s *Segments) Lateness(job string) (*Lateness, error) {
	began := time.Now()
	r, err := s.load(job, report.Options{})
	if err != nil {
		return nil, err
	}
	out := &Lateness{At: began, Caused: map[LateRank]float64{}, Findings: r.Findings}
	var waiting float64
	for _, a := range r.Arrivals {
		waiting += float64(a.Waiting.NS)
		for _, rank := range a.Ranks {
			out.Caused[LateRank{a.World, rank.Rank}] += float64(rank.CausedNS)
		}
	}
	for rank := range out.Caused {
		out.Caused[rank] = min(1, out.Caused[rank]/max(1, waiting))
	}
	for _, a := range r.Arrivals[:min(len(r.Arrivals), latePlaces)] {
		row := LatePlace{Name: a.Function.Name, Place: r.Place(a.Site), Comm: a.Comm, Calls: a.Operations, WaitingNS: a.Waiting.NS, SpreadNS: a.Worst.P95, Last: -1}
		if last, ok := a.LastRank(); ok {
			row.Last, row.LastShare = last.Rank, last.Share
		}
		out.Places = append(out.Places, row)
	}
	out.Took = time.Since(began)
	return out, nil
}

// Result reads what the job has left.
func (s *Segments) Result(job string) (last *Snapshot, path string) {
	spot := s.results[job]
	if spot.dir == "" {
		return nil, ""
	}
	r, err := report.Load(spot.dir, report.Options{TotalsOnly: true, Symbols: s.symbols})
	if err != nil || r.Job.ID != spot.id {
		return nil, ""
	}
	return snapshotOf(r, time.Now()), spot.dir
}

// resultDir is where the shim of a job writes its result, as its environment
// says; empty if that cannot be told. It is known only while the job runs.
func resultDir(s *Snapshot) string {
	for i := range s.Ranks {
		if s.Ranks[i].State != report.StateRunning {
			continue
		}
		proc := fmt.Sprintf("/proc/%d/", s.Ranks[i].ID.PID)
		environ, err := os.ReadFile(proc + "environ")
		if err != nil {
			return ""
		}
		dir := "mpitrace-" + s.Job.ID
		for entry := range strings.SplitSeq(string(environ), "\x00") {
			if value, ok := strings.CutPrefix(entry, "MPITRACE_OUTPUT="); ok && value != "" {
				dir = value
			}
		}
		if filepath.IsAbs(dir) {
			return dir
		}
		cwd, err := os.Readlink(proc + "cwd")
		if err != nil {
			return ""
		}
		return filepath.Join(cwd, dir)
	}
	return ""
}
