package advise

import (
	"strings"

	"github.com/mpitrace/mpitrace/reusetrack"
)

// Input is what was observed of a job, summed over its ranks. Times are ns.
type Input struct {
	Ranks int
	MPINS uint64 // time inside MPI, setup left out
	// EagerLimit is the largest payload that the MPI library sends at once, in
	// bytes; 0: reusetrack.DefaultEagerLimit.
	EagerLimit uint64
	// TransferBytesPerNS is what one large message moves per ns (GB/s); 0: not
	// known, DefaultBytesPerNS is taken.
	TransferBytesPerNS float64
	Sites              []Site
	Sizes              []SizeClass // of the functions, in their order
	// Reuse is what the cost model says of the buffers, nil if it was not
	// followed or there are no costs.
	Reuse []reusetrack.Prediction
	// ReuseKnown: buffers were followed and there are costs, so that what is
	// not in Reuse did not happen.
	ReuseKnown bool
	// CostsStandIn: the costs behind Reuse have a stand-in for registration.
	CostsStandIn bool
}

// Site is one call site.
type Site struct {
	Function  string   // name in MPI
	Place     string   // for people: "heat.c:91"
	Names     []string // by which rules of a policy name it: "exchange", "heat+0x1234"
	Calls     uint64
	Peerless  uint64 // of them, those with MPI_PROC_NULL for a peer
	Bytes     uint64 // payload of all calls
	MeanBytes uint64 // per message; 0: Bytes / Requests or Calls that have a peer
	TimeNS    uint64 // inside the calls
	Requests  uint64 // started here; 0: Calls
	RequestNS uint64 // their time from the return of the start call to that of the completing call
	BlockedNS uint64 // of it, inside completing calls
	// Waiting is set for a collective whose arrivals were sampled.
	Waiting *Waiting
}

// SizeClass is the messages of a function of one size.
type SizeClass struct {
	Function  string
	Size      string // for people: "4-8 KiB"
	From, To  uint64 // payload, From to less than To; 0: no limit
	Messages  uint64
	Requests  uint64 // of the function, of all sizes: those that completed
	RequestNS uint64 // .. as in Site
	BlockedNS uint64
}

// Waiting is how ranks arrived at a collective of one site.
type Waiting struct {
	Operations uint64 // seen, on all communicators
	Processes  int    // of the communicator; of several the usual number
	WaitingNS  uint64 // from own arrival to that of the last rank, summed over ranks and scaled to all operations
	WorkNS     uint64 // time of the calls beyond it
	// Persistence is how often the ranks that come late are the same, 0 to 1.
	Persistence float64
	// Coverage is the share of operations that was sampled, 0 to 1.
	Coverage float64
}

// kind is what a function does, as far as the techniques care.
type kind int

const (
	other        kind = iota
	send              // returns when the buffer may be used again
	startSend         // nonblocking, also a start of persistent requests
	startSync         // nonblocking synchronous send: a rendezvous whatever its size
	startReceive      // nonblocking
	alltoall          // collectives that PAP-aware algorithms exist for
	allgather
	collective // other collectives
	put
	get
)

// kinds by function. Ssend is always a rendezvous and Bsend copies by
// definition: neither gains from zero-copy eager.
var kinds = map[string]kind{
	"MPI_Send": send, "MPI_Rsend": send, "MPI_Sendrecv": send,
	"MPI_Isend": startSend, "MPI_Irsend": startSend, "MPI_Issend": startSync, "MPI_Isendrecv": startSend,
	"MPI_Start": startSend, "MPI_Startall": startSend,
	"MPI_Irecv": startReceive, "MPI_Imrecv": startReceive,
	"MPI_Alltoall": alltoall, "MPI_Alltoallv": alltoall, "MPI_Alltoallw": alltoall,
	"MPI_Allgather": allgather, "MPI_Allgatherv": allgather,
	"MPI_Barrier": collective, "MPI_Bcast": collective, "MPI_Reduce": collective, "MPI_Allreduce": collective,
	"MPI_Gather": collective, "MPI_Gatherv": collective, "MPI_Scatter": collective, "MPI_Scatterv": collective,
	"MPI_Reduce_scatter": collective, "MPI_Reduce_scatter_block": collective, "MPI_Scan": collective, "MPI_Exscan": collective,
	"MPI_Put": put, "MPI_Rput": put, "MPI_Get": get, "MPI_Rget": get,
}

// kind is what the site does; large-count functions are like their elders.
func (s *Site) kind() kind { return kinds[strings.TrimSuffix(s.Function, "_c")] }

// requests is the number of requests started at the site.
func (s *Site) requests() uint64 {
	if s.Requests > 0 {
		return s.Requests
	}
	return s.Calls
}

// Messages is the number of messages that the site began, of which a call that
// sends and receives has two: those with MPI_PROC_NULL are none.
func (s *Site) Messages() uint64 {
	begun := s.requests()
	if strings.Contains(s.Function, "endrecv") {
		begun *= 2
	}
	return begun - min(s.Peerless, begun)
}

// Mean is the mean payload of a message, 0 if there was none.
func (s *Site) Mean() uint64 {
	if s.MeanBytes > 0 || s.Messages() == 0 {
		return s.MeanBytes
	}
	return s.Bytes / s.Messages()
}

// windowNS is the time in which requests of the site were under way while the
// program was not in a completing call.
func (s *Site) windowNS() uint64 { return s.RequestNS - min(s.BlockedNS, s.RequestNS) }

// windowPerRequest is its mean, in ns.
func (s *Site) windowPerRequest() float64 {
	return float64(s.windowNS()) / float64(max(1, s.requests()))
}
