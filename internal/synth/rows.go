package synth

import (
	"math/bits"

	"github.com/mpitrace/mpitrace/segment"
)

func (j Job) addModules(s *Segment) {
	program := segment.RawModule{Base: ModuleBase, Start: ModuleBase, End: ModuleBase + 0x10000, BuildIDBytes: 20}
	for i := range 20 {
		program.BuildID[i] = byte(0xa0 + i)
	}
	SetText(program.Path[:], ProgramPath)
	library := segment.RawModule{Base: 0x7fff_0000_0000, Start: 0x7fff_0000_0000, End: 0x7fff_0100_0000, Flags: segment.ModuleFlagMPI}
	SetText(library.Path[:], "/usr/lib/x86_64-linux-gnu/libmpi.so.40.30.4")
	s.Modules = []segment.RawModule{program, library}
}

func (j Job) addComms(s *Segment, rank int) {
	comm := func(kind uint32, handle uint64, size int, name string) segment.RawComm {
		c := segment.RawComm{Handle: handle, ID: handle * 77, Parent: -1, Kind: kind, Size: int32(size), Rank: int32(rank), Comparable: 1}
		SetText(c.Name[:], name)
		return c
	}
	cart := comm(segment.CommKindCreated, 0x300, j.Ranks, "grid")
	cart.Parent, cart.CreatedBy = 1, ID("MPI_Cart_create")
	s.Comms = []segment.RawComm{
		comm(segment.CommKindOther, 0, 0, ""),
		comm(segment.CommKindWorld, 0x100, j.Ranks, "MPI_COMM_WORLD"),
		comm(segment.CommKindSelf, 0x200, 1, "MPI_COMM_SELF"),
		cart,
	}
	n := uint64(len(j.neighbours(rank)))
	s.CommTotals = []segment.RawTotal{{},
		{Calls: 10_007, Ticks: 5_000_000_000, SentBytes: 80_000, ReceivedBytes: 80_000, Collectives: 10_005}, {},
		{Calls: 20_000 * n, Ticks: 24_000_000 * n, SentBytes: 81_920_000 * n, ReceivedBytes: 81_920_000 * n},
	}
	double := segment.RawDatatype{Handle: 0x900, Size: 8, Instances: 1}
	SetText(double.Name[:], "MPI_DOUBLE")
	s.Types = []segment.RawDatatype{{}, double}
	s.TypeTotals = []segment.RawTotal{{}, {Calls: 30_004, Ticks: 5_100_000_000, SentBytes: 81_920_000 * n, ReceivedBytes: 81_920_000 * n, Collectives: 10_004}}
}

// addSite adds a call site and its share of the distributions.
func (s *Segment) addSite(name string, offset, calls, callNS, bytes uint64) {
	id := ID(name)
	ticks := callNS * ticksPerNS
	s.Sites = append(s.Sites, segment.RawSite{Address: ModuleBase + offset, Call: uint16(id), Module: 1,
		Calls: calls, Ticks: calls * ticks, Bytes: calls * bytes, MaxTicks: 9 * ticks})
	for i := range s.Functions {
		if s.Functions[i].Call == id {
			count(&s.Functions[i], calls, ticks, bytes)
			return
		}
	}
	f := segment.RawFunction{Call: id}
	count(&f, calls, ticks, bytes)
	s.Functions = append(s.Functions, f)
}

// count puts calls of one duration and size into the distributions.
func count(f *segment.RawFunction, calls, ticks, bytes uint64) {
	f.TimeBins[min(bits.Len64(ticks), segment.TimeBins-1)] += calls
	if bytes > 0 {
		f.Messages += calls
		f.SizeBins[min(bits.Len64(bytes), segment.SizeBins-1)] += calls
	}
}

// fill adds the further rows that the job asks for.
func (j Job) fill(s *Segment, rank int) {
	send := ID("MPI_Send")
	for i := range j.ExtraSites {
		s.Sites = append(s.Sites, segment.RawSite{Address: ModuleBase + 0x2000 + uint64(i)*16, Call: uint16(send), Module: 1,
			Calls: 10, Ticks: 20_000, Bytes: 640, MaxTicks: 4000})
	}
	for i := range j.ExtraFunctions {
		f := segment.RawFunction{Call: send + 1 + uint32(i)}
		count(&f, 3, 400, 0)
		s.Functions = append(s.Functions, f)
	}
	for i := range min(j.ExtraPeers, j.Ranks-1) {
		peer := (rank + 5 + i) % j.Ranks
		s.Peers = append(s.Peers, segment.RawPeer{Rank: int32(peer), SentMessages: 2, SentBytes: 128, ReceivedMessages: 2, ReceivedBytes: 128})
	}
}
