package synth

import (
	"fmt"
	"math"
	"strings"

	"github.com/mpitrace/mpitrace/segment"
)

// Fixed points of all synthetic jobs, so that reports of them never change.
const (
	ticksPerNS = 2.0
	firstTicks = 1_000_000_000
	start      = 1_767_346_200_000_000_000 // 2026-01-02 09:30:00 UTC
	wallNS     = 60_000_000_000
	haloBytes  = 8192
	// ModuleBase is the load address of the program, so that a call site at
	// ModuleBase+0x1234 has offset 0x1234.
	ModuleBase = 0x5555_5555_0000
	// ProgramPath is the path of the program; no such file exists.
	ProgramPath = "/opt/heat/bin/heat"
)

// Ticks converts nanoseconds after MPI_Init to the clock of the segments.
func Ticks(ns uint64) uint64 { return firstTicks + ns*ticksPerNS }

// Job describes a synthetic job: a 2-D heat solver that exchanges halos with
// up to four neighbours and reduces a norm each step.
type Job struct {
	ID           string
	Ranks        int
	RanksPerNode int // default 64
	// Further rows beyond those of the solver, to make segments of a given
	// size: call sites, functions and peers of each rank.
	ExtraSites, ExtraFunctions, ExtraPeers int
	// Sampled ranks have arrivals, buffers and times of requests, as a default
	// run leaves them.
	Sampled bool
	// Mutate may change what a rank has measured; nil to remove it.
	Mutate func(rank int, s *Segment) *Segment
}

// Scale is a job whose ranks use 64 KiB of their segments each, with all that a
// default run records.
func Scale(ranks int) Job {
	return Job{ID: "scale", Ranks: ranks, Sampled: true, ExtraSites: 120, ExtraFunctions: 11, ExtraPeers: 150}
}

// solverSites is the call sites of the solver: function, offset in the
// program, calls, time per call in ns, bytes per call.
var solverSites = []struct {
	name         string
	offset       uint64
	calls        uint64
	callNS       uint64
	bytes        uint64
	line         int
	perNeighbour bool
}{
	{"MPI_Init_thread", 0x1100, 1, 80_000_000, 0, 31, false},
	{"MPI_Comm_rank", 0x1120, 2, 20, 0, 33, false},
	{"MPI_Cart_create", 0x1180, 1, 90_000, 0, 40, false},
	{"MPI_Irecv", 0x1240, 10_000, 300, haloBytes, 88, true},
	{"MPI_Isend", 0x12c0, 10_000, 900, haloBytes, 91, true},
	{"MPI_Waitall", 0x1310, 10_000, 400_000, 0, 97, false},
	{"MPI_Allreduce", 0x13a0, 10_000, 250_000, 8, 121, false},
	{"MPI_Bcast", 0x1460, 4, 30_000, 4096, 54, false},
	{"MPI_Finalize", 0x1600, 1, 2_000_000, 0, 160, false},
}

// Segment is what a rank of the job has measured, after Mutate.
func (j Job) Segment(rank int) *Segment {
	s := j.plain(rank)
	if j.Mutate != nil {
		return j.Mutate(rank, s)
	}
	return s
}

func (j Job) plain(rank int) *Segment {
	s := &Segment{Header: j.header(rank)}
	j.addModules(s)
	j.addComms(s, rank)
	neighbours := j.neighbours(rank)
	slow := j.slow(rank)
	for _, site := range solverSites {
		calls := site.calls
		if site.perNeighbour {
			calls *= uint64(len(neighbours))
		}
		ns := uint64(float64(site.callNS) * slow)
		if strings.HasPrefix(site.name, "MPI_Init") || site.name == "MPI_Finalize" {
			ns = site.callNS
		}
		s.addSite(site.name, site.offset, calls, ns, site.bytes)
	}
	for _, peer := range neighbours {
		s.Peers = append(s.Peers, segment.RawPeer{Rank: int32(peer), SentMessages: 10_000, SentBytes: 10_000 * 8192,
			ReceivedMessages: 10_000, ReceivedBytes: 10_000 * 8192})
	}
	if j.Sampled {
		j.addSampled(s, rank, len(neighbours))
	}
	j.fill(s, rank)
	started := 20_000 * uint64(len(neighbours))
	s.Threads = []segment.RawThread{{TID: s.Header.PID, RequestsStarted: started, RequestsCompleted: started, ThreadsServed: 1}}
	s.Phases = []segment.RawPhase{{Entered: 1, Ticks: wallNS * ticksPerNS}}
	return s
}

// slow is the waiting of a rank: the work, and so the waiting, differs smoothly
// from rank to rank.
func (j Job) slow(rank int) float64 {
	return 1 + 0.6*math.Sin(float64(rank)*2*math.Pi/float64(max(j.Ranks, 2)))
}

func (j Job) header(rank int) segment.RawHeader {
	h := segment.RawHeader{
		VersionMajor: segment.VersionMajor, VersionMinor: segment.VersionMinor, LayoutHash: segment.LayoutHash,
		HeaderBytes: 4096, SectionEntryBytes: 64,
		State: segment.StateExited, MPIFamily: segment.MPIFamilyOpenMPI,
		WorldRank: int32(rank), WorldSize: int32(j.Ranks), PID: uint32(4000 + rank), PIDStart: 7000, PIDNamespace: 1,
		ThreadLevel: 1, ClockSource: segment.ClockSourceTSC, TicksPerNS: ticksPerNS, ClockResolutionTicks: 2 * 18,
		FirstTicks: firstTicks, FirstMonotonicNS: 5_000_000_000, FirstRealtimeNS: start,
		LastTicks: Ticks(wallNS + 3_000_000), LastMonotonicNS: 5_000_000_000 + wallNS + 3_000_000,
		InitEnterTicks: Ticks(0) - 160_000_000, InitExitTicks: Ticks(0),
		FinalizeEnterTicks: Ticks(wallNS), FinalizeExitTicks: Ticks(wallNS + 2_000_000), ExitTicks: Ticks(wallNS + 3_000_000),
		OwnInitNS: 900_000, OwnFinalizeNS: 200_000, OwnCallNS: 17, OwnMessageNS: 26,
		PrivateBytes: 180_000, MemoryHighKiB: 120_000 + uint64(rank%7)*1000,
		Measuring: 1, Shards: 1, ThreadsSeen: 1, FunctionsAvailable: 415, FunctionsIntercepted: 415,
	}
	copy(h.Magic[:], "MPITRSEG")
	SetText(h.BootID[:], "11111111-2222-3333-4444-555555555555")
	SetText(h.Node[:], j.node(rank))
	SetText(h.Job[:], j.ID)
	SetText(h.World[:], "world-0")
	SetText(h.Launcher[:], "openmpi")
	SetText(h.MPIVersion[:], "Open MPI v4.1.4, package: Debian OpenMPI")
	SetText(h.ShimVersion[:], "0.1.0")
	SetText(h.Executable[:], ProgramPath)
	SetText(h.Command[:], ProgramPath+" 4096 4096 10000")
	return h
}

func (j Job) perNode() int {
	if j.RanksPerNode > 0 {
		return j.RanksPerNode
	}
	return 64
}

func (j Job) node(rank int) string { return fmt.Sprintf("node%03d", rank/j.perNode()) }

// neighbours is the ranks around a rank in a grid without wrap-around.
func (j Job) neighbours(rank int) []int {
	width := max(1, int(math.Sqrt(float64(j.Ranks))))
	var out []int
	if rank-width >= 0 {
		out = append(out, rank-width)
	}
	if rank%width > 0 {
		out = append(out, rank-1)
	}
	if (rank+1)%width != 0 && rank+1 < j.Ranks {
		out = append(out, rank+1)
	}
	if rank+width < j.Ranks {
		out = append(out, rank+width)
	}
	return out
}
