package top

import (
	"time"

	"github.com/mpitrace/mpitrace/report"
)

// Snapshot is what one reading of a job gives. It does not change.
type Snapshot struct {
	At       time.Time
	Job      Job
	Ranks    []Rank // by world and rank
	Waits    []Wait // the longest first
	Deadlock string // a ring of ranks that wait for each other, as a sentence
	Problems []string
}

// Job is what holds for the job as a whole.
type Job struct {
	ID, Command, MPI string
	State            string // report.State*
	Nodes            int
	WorldSize        int // ranks that there should be, of the first world
	Missing          int // of these, without data
	Worlds           int
	WallNS           uint64
	IdleNS           uint64 // since any rank has entered a call
	Act              *Act   // nil: it was not to act
}

// Act is what the job carries itself, since the beginning.
type Act struct {
	Off             string  // why it only observes, empty if it acts
	Messages, Bytes float64 // share of those that could be carried, 0 to 1
	Ways            []Way   // that carried any
	FallBacks       uint64
	Wrong           uint64 // messages that are not what was sent
	Quarantined     uint64 // paths given up for that
}

// Way is a protocol.
type Way struct {
	Name  string
	Share float64 // of the messages carried
}

// Rank is one process.
type Rank struct {
	ID     RankID
	State  string // report.State*
	WallNS uint64 // since MPI_Init returned
	BusyNS uint64 // in MPI, of the thread that is there longest
	Calls  uint64
	Bytes  uint64 // payload of the calls
	In     []Call // calls in progress, by thread
}

// RankID tells processes apart: a rank that is started again is another one.
type RankID struct {
	World string
	Rank  int
	Node  string
	PID   uint32
}

// Call is a call in progress.
type Call struct {
	Name    string
	Place   string // file and line, with the function around it
	Comm    string // empty if it has none
	Peer    int32  // rank in Comm, negative if none or any
	Tag     int32  // negative if none or any
	SinceNS uint64
	Thread  uint32
}

// Wait is ranks that are in the same call of the same communicator, and the
// ranks that they wait for.
type Wait struct {
	Name, Place string
	World       string
	Ranks       []int
	SinceNS     uint64 // of the rank that waits longest
	Missing     []report.Missing
}

// Detail is all of one rank.
type Detail struct {
	At        time.Time
	ID        RankID
	Requests  report.Requests
	Functions []report.RankFunction // by time
	Places    []Place               // by time
	Peers     []report.RankPeer     // by rank
}

// Place is a place of the program that calls MPI.
type Place struct {
	Name, Place string
	report.Totals
}

// Lateness is who arrives late at collectives, over the whole run.
type Lateness struct {
	At       time.Time
	Took     time.Duration        // to work it out
	Caused   map[LateRank]float64 // share of all waiting at collectives that is for a rank
	Places   []LatePlace          // by waiting
	Findings []string
}

// LateRank is a rank of a world.
type LateRank struct {
	World string
	Rank  int
}

// LatePlace is a collective at one place on one communicator.
type LatePlace struct {
	Name, Place, Comm string
	Calls             uint64
	WaitingNS         uint64  // sum over ranks
	SpreadNS          uint64  // last arrival less first, 95th percentile
	Last              int     // rank that is last most often, -1 if not known
	LastShare         float64 // of the calls
}

// Found is one job in the list of jobs.
type Found struct {
	ID, Path, Command string
	Ranks, Alive      int // processes with a readable segment, and those that live
	Unreadable        int
	Start             time.Time
}

// Rate is what changed between two snapshots. A value that cannot be told is
// negative: there is no earlier snapshot of this process, or its counters went
// backwards or faster than any program can drive them.
type Rate struct {
	Share float64 // of the time since then that was spent in MPI, 0 to 1
	Calls float64 // per second
	Bytes float64 // per second
}

// Faster than this is no rate but damage: a call each nanosecond, a petabyte
// each second.
const (
	callsMax = 1e9
	bytesMax = 1e15
)

var noRate = Rate{-1, -1, -1}

// rates is the change of each rank of cur since prev, which may be nil.
func rates(prev, cur *Snapshot) []Rate {
	out := make([]Rate, len(cur.Ranks))
	before := map[RankID]*Rank{}
	var seconds float64
	if prev != nil {
		seconds = cur.At.Sub(prev.At).Seconds()
		for i := range prev.Ranks {
			before[prev.Ranks[i].ID] = &prev.Ranks[i]
		}
	}
	for i := range cur.Ranks {
		out[i] = noRate
		if old := before[cur.Ranks[i].ID]; old != nil {
			out[i] = rateOf(old, &cur.Ranks[i], seconds)
		}
	}
	return out
}

func rateOf(old, now *Rank, seconds float64) Rate {
	r := noRate
	if now.WallNS > old.WallNS {
		wall := now.WallNS - old.WallNS
		switch {
		case now.BusyNS >= old.BusyNS:
			r.Share = min(1, float64(now.BusyNS-old.BusyNS)/float64(wall))
		case old.BusyNS-now.BusyNS < wall/10:
			// A call in progress was taken for longer than it was.
			r.Share = 0
		}
	}
	r.Calls = perSecond(old.Calls, now.Calls, seconds, callsMax)
	r.Bytes = perSecond(old.Bytes, now.Bytes, seconds, bytesMax)
	return r
}

// perSecond is the growth of a counter, -1 if it cannot be told.
func perSecond(old, now uint64, seconds, most float64) float64 {
	if now < old || seconds <= 0 {
		return -1
	}
	if v := float64(now-old) / seconds; v <= most {
		return v
	}
	return -1
}

// share is the part of the run that a rank spent in MPI.
func (r *Rank) share() float64 {
	if r.WallNS == 0 {
		return 0
	}
	return min(1, float64(r.BusyNS)/float64(r.WallNS))
}

// longest is the call in progress that lasts longest, nil if there is none.
func (r *Rank) longest() *Call {
	var out *Call
	for i := range r.In {
		if out == nil || r.In[i].SinceNS > out.SinceNS {
			out = &r.In[i]
		}
	}
	return out
}

// How long a rank waits before it is worth a word.
const (
	waitsNS = 1_000_000_000  // it waits, and those that it waits for are late
	stuckNS = 10_000_000_000 // it is stuck
)

// What a rank that runs does, beyond report.State*.
const (
	stateLate  = "late"    // others wait for it, and it is outside MPI
	stateWaits = "waiting" // in one call for a second
	stateStuck = "stuck"   // in one call for ten seconds
)

// states is what each rank does.
func (s *Snapshot) states() []string {
	late := map[LateRank]bool{}
	for i := range s.Waits {
		if w := &s.Waits[i]; w.SinceNS >= waitsNS {
			for _, m := range w.Missing {
				late[LateRank{w.World, m.Rank}] = true
			}
		}
	}
	out := make([]string, len(s.Ranks))
	for i := range s.Ranks {
		r := &s.Ranks[i]
		out[i] = r.State
		if r.State != report.StateRunning {
			continue
		}
		switch call := r.longest(); {
		case call == nil && late[LateRank{r.ID.World, r.ID.Rank}]:
			out[i] = stateLate
		case call != nil && call.SinceNS >= stuckNS:
			out[i] = stateStuck
		case call != nil && call.SinceNS >= waitsNS:
			out[i] = stateWaits
		}
	}
	return out
}
