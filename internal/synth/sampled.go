package synth

import (
	"math/bits"

	"github.com/mpitrace/mpitrace/segment"
)

// What a default run keeps of the reductions of the solver.
const (
	steps        = 10_000
	stepNS       = wallNS / steps
	arrivalLevel = 5  // leaves about 300 of the steps, as a table of 512 rows does
	classSlots   = 65 // rows of ARRIVAL_CLASSES, most of them empty
	gridID       = 0x300 * 77
	gridKin      = 0x300 * 79 // what it shares with communicators made alike
	reduceAt     = 0x13a0
	otherLast    = 14 // in one step of so many another rank than LateRank is the last
)

// LateRank is the rank that is last at most of the reductions of a Sampled job.
func (j Job) LateRank() int {
	late := 0
	for rank := range j.Ranks {
		if j.slow(rank) < j.slow(late) {
			late = rank
		}
	}
	return late
}

// addSampled adds what a default run records beyond calls and times: arrivals
// at the reduction, message buffers, and the times of requests.
func (j Job) addSampled(s *Segment, rank, neighbours int) {
	late := j.LateRank()
	for step := range uint32(steps) {
		if keeps(step) {
			s.Arrivals = append(s.Arrivals, j.arrival(rank, late, step))
		}
	}
	s.ArrivalClasses = make([]segment.RawArrivalClass, classSlots)
	s.ArrivalClasses[9] = segment.RawArrivalClass{Kin: gridKin, Call: uint16(ID("MPI_Allreduce")), Level: arrivalLevel,
		Kept: uint32(len(s.Arrivals)), Instances: steps}
	s.addBuffers(neighbours)
	s.addRequests(neighbours)
}

// keeps tells whether a step is sampled: a copy of arrival.Hash in few words,
// which this package must not import.
func keeps(step uint32) bool {
	return mix(gridID^(uint64(step)+1)*0x9e3779b97f4a7c15)<<(64-arrivalLevel) == 0
}

// mix is the finaliser of SplitMix64.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// arrival is one step: ranks that are in the reduction for longer have come
// earlier, all leave together.
func (j Job) arrival(rank, late int, step uint32) segment.RawArrival {
	chance := mix(uint64(step) + 99)
	before := uint64(250_000 * (j.slow(rank) - j.slow(late))) // the late one
	if other := int(chance>>8) % j.Ranks; chance%otherLast == 0 {
		switch rank {
		case other:
			before = 0
		case late:
			before = 20_000
		default:
			before += 20_000
		}
	}
	last := uint64(step)*stepNS + 1_000_000
	enter, exit := Ticks(last-before), Ticks(last+2_000+chance>>16%200_000)
	return segment.RawArrival{CommID: gridID, Kin: gridKin, Sequence: step, EnterTicks: enter, WaitTicks: enter, ExitTicks: exit, Bytes: 8,
		Address: ModuleBase + reduceAt, Root: -1, Rank: int32(rank), Size: int32(j.Ranks), Call: uint16(ID("MPI_Allreduce"))}
}

// addBuffers: each neighbour has one buffer to send from and one to receive
// into, used in every step.
func (s *Segment) addBuffers(neighbours int) {
	s.Reuse = make([]segment.RawReuse, segment.PathPaths)
	for path := range s.Reuse {
		s.Reuse[path].Path = uint32(path)
	}
	bin := bits.Len64(haloBytes)
	for path := range segment.PathOrigin {
		for i := range neighbours {
			s.Buffers = append(s.Buffers, segment.RawBuffer{Address: 0x7f00_0000_0000 + uint64(path*neighbours+i)*16384, Bytes: haloBytes,
				Accesses: steps, Last: uint32(2 * neighbours * steps), Path: uint16(path)})
		}
		all := steps * uint64(neighbours)
		r := &s.Reuse[path]
		r.Accesses[bin], r.Reused[bin] = all, all-uint64(neighbours)
		r.Distances[bits.Len(uint(2*neighbours))] = all - uint64(neighbours)
	}
}

// addRequests: the halo exchange waits at once for what it started.
func (s *Segment) addRequests(neighbours int) {
	if neighbours == 0 {
		return
	}
	wait := s.site("MPI_Waitall").Ticks / steps
	for _, name := range []string{"MPI_Isend", "MPI_Irecv"} {
		site := s.site(name)
		site.RequestTicks = site.Calls * (wait + 20_000*ticksPerNS)
		site.BeforeTicks = site.Calls * 20_000 * ticksPerNS
		site.BlockedTicks = site.Calls * wait / uint64(2*neighbours)
		for i := range s.Functions {
			if f := &s.Functions[i]; f.Call == ID(name) {
				f.Completed, f.CompletedTicks = site.Calls, site.RequestTicks
				f.BeforeTicks, f.BlockedTicks = site.BeforeTicks, site.BlockedTicks
			}
		}
	}
}

// site is the first call site of a function.
func (s *Segment) site(name string) *segment.RawSite {
	for i := range s.Sites {
		if uint32(s.Sites[i].Call) == ID(name) {
			return &s.Sites[i]
		}
	}
	return &segment.RawSite{}
}
