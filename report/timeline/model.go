package timeline

import (
	"github.com/mpitrace/mpitrace/arrival"
	"github.com/mpitrace/mpitrace/report"
	"github.com/mpitrace/mpitrace/segment"
)

// Writer is one format. Its methods are called in this order: Begin, Message
// for each matched message, Sample, for each rank BeginRank, then Enter and
// Leave of its calls, then EndRank; at last End. An error ends the export.
// Nothing that it is handed may be kept, unless it says so.
type Writer interface {
	Begin(*Job) error
	Message(*Message) error
	Sample(*Sample) error
	BeginRank(*Rank) error
	// Enter comes in the order of time, per track; Leave closes the innermost
	// open call of its track.
	Enter(*Call) error
	Leave(*Call) error
	EndRank(*Rank) error
	End(*Summary) error
}

// Job is what holds for all ranks. It may be kept.
type Job struct {
	Report *report.Report
	Ranks  []*Rank // by world and rank, with those that have no data
	Comms  []*Comm
	Traced bool // some rank has events
	// StartRealtimeNS is the moment 0 of all times, in ns since 1970 by the
	// wall clock of the reference node; 0 if it is not known.
	StartRealtimeNS int64
	EndNS           int64  // the last moment known of any rank
	ClockBoundNS    uint64 // how far two moments of different ranks may be off against each other
	// Apart is the nodes whose clocks could not be compared with the reference:
	// their times are placed by their wall clocks, with an unknown error.
	Apart []string
}

// Rank is one process of the job. It may be kept.
type Rank struct {
	Index   int // into Job.Ranks
	World   string
	Rank    int32
	Node    string
	PID     uint32
	State   string // report.State*, empty without data
	Missing bool   // it left no data
	Traced  bool
	Dropped uint64 // events that were not kept
	StartNS int64  // MPI_Init
	EndNS   int64
	// BoundNS is how far its times may be off against the reference clock.
	BoundNS uint64
	Aligned bool   // its clock can be compared with the reference
	Gaps    []Gap  // complete at EndRank
	Calls   uint64 // so far

	process  uint32 // of arrival.Result
	fromFile bool   // its trace file is there
	begins   uint32 // serial of the first message that is in the segment, 0 without one
	lanes    lanes
	tracks   []*track
	lastNS   int64
	firstNS  int64
}

// Gap is a span in which something happened that the trace does not tell.
type Gap struct {
	FromNS, ToNS int64
	What         string
}

// Comm is a communicator. It may be kept.
type Comm struct {
	Index   int // into Job.Comms
	ID      uint64
	World   string
	Name    string
	Size    int
	Members []int32 // Rank.Index by rank in it, -1 if not known
	// Whole tells that all members are known and it has no remote group.
	Whole bool
	Self  bool
}

// Place is where the program calls MPI. It may be kept.
type Place struct {
	ID       int // from 1, in the order of their first use
	Function string
	Site     *report.Site
	Location string // file:line, or module+offset
}

// Call is one call of MPI.
type Call struct {
	Rank           *Rank
	Thread         int // of the rank, from 0
	Track          int // of the rank: calls of one track nest, or follow each other
	ID             uint64
	Call           segment.Call // 0: the call that completed a message is not known
	Name           string
	Place          *Place
	BeginNS, EndNS int64
	Comm           *Comm  // nil: none, or not known
	Root           int32  // of a collective: world rank, negative without one
	Peer           int32  // world rank, or segment.Peer*
	Tag            int32  // negative: none, any, or unknown
	Bytes          uint64 // payload
	Open           bool   // in progress at the last moment known of the rank
	Implied        bool   // its own event was not kept, only that of a message
	Ends           []End  // messages sent, and received, by it
	Posted         []Request
}

// End is one end of a message.
type End struct {
	Receive     bool
	Nonblocking bool
	Estimated   bool // the completion was not seen: peer and tag as posted
	AnySource   bool
	AnyTag      bool
	Serial      uint32 // order of posting, sends and receives apart
	Call        segment.Call
	Place       *Place
	PostNS      int64
	Comm        *Comm
	Peer        int32
	Tag         int32
	Bytes       uint64
	Flow        uint64 // the same on both ends of a matched message; 0: not matched
}

// Request is a nonblocking receive, from its posting to the return of the call
// that completed it. (Of nonblocking sends the trace has the start alone: they
// are Ends.)
type Request struct {
	End
	CompleteNS int64 // entry of the completing call
	DoneNS     int64 // its return
}

// Message is both ends of a matched message. Times are ns; Comparable tells
// whether those of one end can be compared with those of the other, within
// BoundNS.
type Message struct {
	Flow                                 uint64
	Sender, Receiver                     *Rank
	Comm                                 *Comm
	Tag                                  int32
	Bytes                                uint64
	SendCall, ReceiveCall                segment.Call
	SendPlace, ReceivePlace              *Place
	SendNonblocking, ReceiveNonblocking  bool
	AnySource, AnyTag, Estimated         bool
	SendBeginNS, SendEndNS               int64
	PostNS, ReceiveBeginNS, ReceiveEndNS int64
	BoundNS                              uint64
	Comparable                           bool
}

// Sample is one rank in one sampled collective operation.
type Sample struct {
	Rank                    *Rank
	Comm                    *Comm
	Call                    segment.Call
	Place                   *Place
	Sequence, Start         uint32
	CommRank                int32
	Root                    int32 // in the communicator, negative without one
	Size                    int   // of the communicator
	Bytes                   uint64
	EnterNS, WaitNS, ExitNS int64
	BoundNS                 uint64
	Last                    int32 // world rank that arrived last, -1 if the clocks leave it open
}

// Summary is what became of the trace.
type Summary struct {
	Places   []*Place
	Calls    uint64 // written
	Open     uint64 // of them, in progress when the rank was last seen
	Implied  uint64 // of them, known by a message alone
	Messages arrival.Messages
	Samples  uint64
	Dropped  uint64 // events that the ranks did not keep
	Homeless uint64 // events of processes that have no rank
	Damaged  uint64 // calls with impossible times, left out
	Requests uint64
	Gaps     int
	Problems []string // what could not be read
}

// Unmatched is the ends of messages whose other end was not found.
func (s *Summary) Unmatched() uint64 {
	m := &s.Messages
	return m.Sends + m.Receives - 2*m.Matched - m.Duplicates
}
