package report

import (
	"github.com/mpitrace/mpitrace/internal/symbols"
	"github.com/mpitrace/mpitrace/reusetrack"
)

// Schema is the version of the JSON report (docs/report-json.md).
const Schema = 1

// Report is all that is known of one job.
type Report struct {
	Schema      int         `json:"schema"`
	Job         Job         `json:"job"`
	Stuck       []Stuck     `json:"stuck"` // calls in progress, of dead and living ranks
	Functions   []*Function `json:"functions"`
	Sites       []*Site     `json:"sites"`
	Ranks       []*Rank     `json:"ranks"`
	Pairs       []Pair      `json:"pairs"` // the heaviest, by bytes sent
	Comms       []*Comm     `json:"communicators"`
	Types       []*Datatype `json:"datatypes"`
	Phases      []*Phase    `json:"phases"`
	Arrivals    []*Arrival  `json:"arrivals"` // by waiting
	Reuse       []*Reuse    `json:"reuse"`
	Overlap     []*Overlap  `json:"overlap"` // by time blocked
	Trace       *Trace      `json:"trace"`   // null without one
	Act         *Act        `json:"act"`     // null of a job that was not to act
	Network     *Network    `json:"network"` // time of a message; null if not known
	Clocks      []Clock     `json:"clocks"`
	Findings    []string    `json:"findings"`
	Problems    []string    `json:"problems"` // what could not be read
	Matrices    []*Matrix   `json:"-"`        // with Options.Matrix, the largest world first
	Rasters     []*Raster   `json:"-"`        // with Options.Rasters, most waiting first
	resolver    *symbols.Resolver
	options     Options
	predictions []reusetrack.Prediction // none without Costs
	modules     []Module
	stacks      [][]frame
	unaligned   int                // sampled operations on clocks that cannot be compared
	restricted  bool               // made of a part of the ranks, as the user asked
	pairs       uint64             // all pairs, also those not kept
	groupRanks  [rankGroups]uint64 // ranks with data by group
}

// Job is what holds for the job as a whole. Times are nanoseconds.
type Job struct {
	ID           string   `json:"id"`
	Command      string   `json:"command"`
	Launcher     string   `json:"launcher"`
	Nodes        []string `json:"nodes"`
	Ranks        int      `json:"ranks"` // processes with data
	WorldSize    int      `json:"world_size"`
	Worlds       []string `json:"worlds"`
	MissingRanks []int    `json:"missing_ranks"` // of the first world
	MPI          string   `json:"mpi"`
	State        string   `json:"state"` // State*
	WallNS       uint64   `json:"wall_ns"`
	Start        string   `json:"start"` // RFC 3339, UTC
	ExitStatus   *int     `json:"exit_status,omitempty"`
	Signal       string   `json:"signal,omitempty"`
	MPINS        uint64   `json:"mpi_ns"`
	Share        Share    `json:"mpi_share"`
	Calls        uint64   `json:"calls"`
	Messages     Traffic  `json:"messages"`
	Own          Own      `json:"own"`
	End          string   `json:"end,omitempty"`     // RFC 3339, UTC; if the launcher saw it
	IdleNS       uint64   `json:"idle_ns,omitempty"` // alive: time since any rank entered a call
}

// States of a job, and of a rank.
const (
	StateFinished = "finished"
	StateDied     = "died"
	StateRunning  = "running"
	StateHung     = "hung"    // of a job: alive, but no rank makes progress
	StateExited   = "exited"  // of a rank: exit() without MPI_Finalize
	StateAborted  = "aborted" // of a rank: MPI_Abort
)

// Share of wall time, 0 to 1, over the ranks.
type Share struct {
	Min     float64 `json:"min"`
	Mean    float64 `json:"mean"`
	Max     float64 `json:"max"`
	MinRank int     `json:"min_rank"`
	MaxRank int     `json:"max_rank"`
}

// Own is the cost of mpitrace itself, over all ranks.
type Own struct {
	NSPerCall    float64 `json:"ns_per_call"` // mean over calls
	Calls        uint64  `json:"calls"`
	TimeNS       uint64  `json:"time_ns"` // calls, Init and Finalize
	Share        float64 `json:"share"`   // of the wall time of all ranks
	SegmentBytes uint64  `json:"segment_bytes"`
	PrivateBytes uint64  `json:"private_bytes"`
}

// Totals of calls. TimeNS is time inside them, Bytes their payload.
type Totals struct {
	Calls  uint64 `json:"calls"`
	TimeNS uint64 `json:"time_ns"`
	Bytes  uint64 `json:"bytes"`
	MaxNS  uint64 `json:"max_ns"` // longest call
}

// Spread is the range over ranks of the time in a function or call site.
type Spread struct {
	Ranks   int                `json:"ranks"` // that called it
	MinNS   uint64             `json:"min_rank_ns"`
	MinRank int                `json:"min_rank"`
	MaxNS   uint64             `json:"max_rank_ns"`
	MaxRank int                `json:"max_rank"`
	groups  [rankGroups]uint64 // time by group of neighbouring ranks
}

// rankGroups is the number of bars that show the balance over ranks.
const rankGroups = 8

// Bin of a histogram: Count calls or messages from From to less than To.
type Bin struct {
	From  uint64 `json:"from"`
	To    uint64 `json:"to"` // 0: no limit
	Count uint64 `json:"count"`
}

// Function is one function of MPI over all ranks.
type Function struct {
	Name string `json:"name"`
	Totals
	Estimated   bool   `json:"estimated"` // time_ns is estimated from one call in 16
	Errors      uint64 `json:"errors"`
	Completed   uint64 `json:"completed"`    // requests started by it that completed
	CompletedNS uint64 `json:"completed_ns"` // their time from start to completion
	BeforeNS    uint64 `json:"before_ns"`    // of it, before the completing calls
	BlockedNS   uint64 `json:"blocked_ns"`   // inside completing calls, each shared by the requests it completed
	Spread      Spread `json:"spread"`
	Times       []Bin  `json:"time_bins"` // calls by nanoseconds
	Sizes       []Bin  `json:"size_bins"` // messages by bytes
	setup       bool   // MPI_Init and MPI_Finalize: not part of MPI time
	times       [64]uint64
	sizes       [64]uint64
	tally       tally
}

// Setup tells that the function begins or ends MPI: its time is not part of the
// time in MPI.
func (f *Function) Setup() bool { return f.setup }

// RankFunction is one function of MPI in one rank.
type RankFunction struct {
	Name string `json:"name"`
	Totals
	Errors uint64 `json:"errors"`
}

// Site is one place that calls MPI, over all ranks.
type Site struct {
	Function SiteFunction `json:"function"`
	Module   string       `json:"module"`
	BuildID  string       `json:"build_id"`
	Offset   uint64       `json:"offset"` // ELF virtual address of the return address
	Symbol   string       `json:"symbol"`
	File     string       `json:"file"`
	Line     int          `json:"line"`
	Totals
	Peerless  uint64   `json:"peerless"`   // calls with MPI_PROC_NULL for a peer: they move nothing
	RequestNS uint64   `json:"request_ns"` // of requests started here
	BeforeNS  uint64   `json:"before_ns"`  // of it, before the completing calls
	BlockedNS uint64   `json:"blocked_ns"` // inside completing calls, each shared by the requests it completed
	Callback  bool     `json:"callback"`
	Other     bool     `json:"other"`   // row of all sites beyond the table
	Binding   bool     `json:"binding"` // lies in a binding of MPI: the caller was not found
	Phase     int      `json:"phase"`   // index into phases
	Stack     []string `json:"stack"`
	Spread    Spread   `json:"spread"`
	Note      string   `json:"note,omitempty"` // why the line is missing
	Inlined   []string `json:"inlined,omitempty"`
	key       siteKey
	resolved  bool
	tally     tally
}

// SiteFunction repeats the totals of a site under the name of its function.
type SiteFunction struct {
	Name string `json:"name"`
	Totals
}

// Rank is one process. Functions and Peers are filled only on demand.
type Rank struct {
	Rank          int            `json:"rank"`
	World         string         `json:"world"`
	Node          string         `json:"node"`
	PID           uint32         `json:"pid"`
	State         string         `json:"state"`
	WallNS        uint64         `json:"wall_ns"`
	BusyNS        uint64         `json:"-"`      // in MPI, of the thread that is there longest, with the call in progress
	MPINS         uint64         `json:"mpi_ns"` // over all threads, without MPI_Init and MPI_Finalize
	Share         float64        `json:"mpi_share"`
	Calls         uint64         `json:"calls"`
	Bytes         uint64         `json:"bytes"`
	Messages      Traffic        `json:"messages"`
	Functions     []RankFunction `json:"functions"`
	Peers         []RankPeer     `json:"peers"`
	Requests      Requests       `json:"requests"`
	Current       []Current      `json:"current"`
	MemoryHigh    uint64         `json:"memory_high_bytes"`
	OwnCostNS     uint64         `json:"own_cost_ns"`
	ThreadLevel   int32          `json:"thread_level"`
	Threads       uint32         `json:"threads"`
	InternalCalls uint64         `json:"internal_calls"`
	CallbackCalls uint64         `json:"callback_calls"`
	GuardRepairs  uint64         `json:"guard_repairs"`
	AbortCode     int32          `json:"abort_code"`
	Path          string         `json:"-"` // of the segment, or of the node file and the record in it
	startNS       int64          // when it began and ended to work with MPI, since 1970
	endNS         int64
	idleNS        uint64 // alive: time since a call was entered
	alive         bool
	world         int
	group         int // of neighbouring ranks, for bars
}

// Traffic is point-to-point messages.
type Traffic struct {
	SentMessages     uint64 `json:"sent_messages"`
	SentBytes        uint64 `json:"sent_bytes"`
	ReceivedMessages uint64 `json:"received_messages"`
	ReceivedBytes    uint64 `json:"received_bytes"`
}

// RankPeer is the messages of one rank with another. Rank is a world rank, or
// -1 others beyond the table, -2 processes outside MPI_COMM_WORLD, -3 unknown.
type RankPeer struct {
	Rank int32 `json:"rank"`
	Traffic
}

// Requests counts nonblocking operations.
type Requests struct {
	Started   uint64 `json:"started"`
	Completed uint64 `json:"completed"`
	Shared    uint64 `json:"shared"`
	Freed     uint64 `json:"freed"`
	Cancelled uint64 `json:"cancelled"`
	Dropped   uint64 `json:"dropped"`
}

// Current is a call in progress when the segment was read, or when the
// process died.
type Current struct {
	Name    string `json:"name"`
	Site    *Site  `json:"site"`
	SinceNS uint64 `json:"since_ns"` // how long until now, or until the last known moment of a dead job
	Entered string `json:"entered"`  // RFC 3339, UTC
	Comm    string `json:"comm"`     // empty if it has none
	Peer    int32  `json:"peer"`     // rank in Comm, negative if none or any
	Tag     int32  `json:"tag"`      // negative if none or any
	Torn    bool   `json:"torn"`     // could not be read whole
	Thread  uint32 `json:"-"`        // thread id
	comm    *Comm
	call    uint32
	at      int64 // entry, nanoseconds since 1970
}

// Stuck is ranks that wait in the same call, place and communicator.
type Stuck struct {
	Name    string    `json:"name"`
	Site    *Site     `json:"site"`
	Comm    string    `json:"comm"`
	World   string    `json:"world"`
	Ranks   []int     `json:"ranks"`
	Peers   []int32   `json:"peers"` // by entry of ranks, in the communicator
	Tags    []int32   `json:"tags"`
	SinceNS uint64    `json:"since_ns"` // the longest wait
	Entered string    `json:"entered"`  // the earliest
	Missing []Missing `json:"missing"`  // who is waited for, as far as it can be told
	comm    *Comm
	call    uint32
	world   int
	at      int64 // entry of the first, nanoseconds since 1970
}

// Missing is a member of a communicator that others wait for.
type Missing struct {
	Rank  int    `json:"rank"`
	Where string `json:"where"` // what is known of it, as text
}

// Pair is the messages from one rank to another.
type Pair struct {
	World    string `json:"world"`
	From     int    `json:"from"`
	To       int    `json:"to"` // as in RankPeer
	Messages uint64 `json:"messages"`
	Bytes    uint64 `json:"bytes"`
}

// Comm is one communicator over its members.
type Comm struct {
	Name          string `json:"name"`
	Kind          string `json:"kind"`
	ID            string `json:"id"` // hexadecimal, empty if ranks cannot compare it
	Size          int    `json:"size"`
	RemoteSize    int    `json:"remote_size"`
	CreatedBy     string `json:"created_by"`
	Members       int    `json:"members"` // with data
	Calls         uint64 `json:"calls"`
	TimeNS        uint64 `json:"time_ns"`
	SentBytes     uint64 `json:"sent_bytes"`
	ReceivedBytes uint64 `json:"received_bytes"`
	Collectives   uint64 `json:"collectives"`
	members       []member
	ranks         map[int32]int32 // world rank by rank in it, made on demand
}

// member is a rank of a communicator.
type member struct{ commRank, rank int32 }

// Datatype is one datatype over all ranks.
type Datatype struct {
	Name          string `json:"name"`
	Size          int64  `json:"size"`
	CreatedBy     string `json:"created_by"` // empty if predefined
	Instances     uint64 `json:"instances"`
	Calls         uint64 `json:"calls"`
	TimeNS        uint64 `json:"time_ns"`
	SentBytes     uint64 `json:"sent_bytes"`
	ReceivedBytes uint64 `json:"received_bytes"`
}

// Phase is one phase of the program, begun by MPI_Pcontrol.
type Phase struct {
	Level   int32  `json:"level"` // 0: the time outside any phase
	Name    string `json:"name"`
	Ranks   int    `json:"ranks"`
	Entered uint64 `json:"entered"` // over all ranks
	TimeNS  uint64 `json:"time_ns"` // over all ranks
	MPINS   uint64 `json:"mpi_ns"`
	Calls   uint64 `json:"calls"`
	Bytes   uint64 `json:"bytes"`
}

// Module is a program or library that holds call sites.
type Module struct{ Path, BuildID string }
