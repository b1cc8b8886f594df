package advise

import (
	"fmt"
	"math"

	"github.com/mpitrace/mpitrace/internal/figures"
)

// DefaultBytesPerNS is what a large message is taken to move per ns if it is
// not known: 10 GB/s, a link of 100 Gbit/s. On a slower one transfers take
// longer, and hiding them saves more.
const DefaultBytesPerNS = 10

// readRendezvous is the time blocked in completing calls that messages of
// rendezvous size would not have needed, had they moved while the program
// computed: by RDMA Read, started by an event instead of the next call of MPI
// (Sur, Jin, Chai, Panda, PPoPP 2006).
//
// A request can hide no more than its window, the time between its start and
// its completing call, and no more than it was blocked. Of what it was blocked,
// only the transfer can be moved into the window; the rest is a partner that
// came late.
func readRendezvous(in *Input) ([]Recommendation, []string) {
	var out []Recommendation
	var late float64
	for i := range in.Sites {
		s := &in.Sites[i]
		if k := s.kind(); k != startSend && k != startSync && k != startReceive || s.Mean() <= in.EagerLimit || s.BlockedNS == 0 {
			continue
		}
		most := seconds(min(s.BlockedNS, s.windowNS()))
		transfer := transferSeconds(in, s)
		explained := math.Min(1, transfer/seconds(s.BlockedNS))
		expected := math.Min(most, transfer)
		late += seconds(s.BlockedNS) - math.Min(seconds(s.BlockedNS), transfer)
		if expected <= 0 {
			continue
		}
		r := Recommendation{Function: s.Function, Place: s.Place, SavedSeconds: ordered(expected*explained, expected, most), Assumptions: rendezvousAssumptions(in, s)}
		r.Confidence, r.Reason = rendezvousConfidence(in, s, explained)
		out = append(out, r)
	}
	if late >= MinSeconds && late >= MinShare*seconds(in.MPINS) {
		why := "partners came late, which no protocol changes"
		if in.TransferBytesPerNS == 0 {
			why += ", or messages move more slowly (--network)"
		}
		return out, []string{fmt.Sprintf("%s: %s in completing calls is more than the transfers take at %.3g GB/s: %s", ReadRendezvous, secondsText(late), in.rate(), why)}
	}
	return out, nil
}

// transferSeconds is the time that the messages of a site take on the network.
func transferSeconds(in *Input, s *Site) float64 {
	return float64(s.requests()) * float64(s.Mean()) / in.rate() / 1e9
}

// rate is the speed of large messages in bytes per ns.
func (in *Input) rate() float64 {
	if in.TransferBytesPerNS == 0 {
		return DefaultBytesPerNS
	}
	return in.TransferBytesPerNS
}

func rendezvousAssumptions(in *Input, s *Site) []string {
	rate := fmt.Sprintf("messages move at %.3g GB/s", in.TransferBytesPerNS)
	if in.TransferBytesPerNS == 0 {
		rate = fmt.Sprintf("messages move at %d GB/s, which was not measured", DefaultBytesPerNS)
	}
	return []string{
		fmt.Sprintf("all messages are of the mean size, %d bytes, above the eager limit of %d", s.Mean(), in.EagerLimit),
		rate,
		"the partner has posted when the request is started, and each request has the mean window",
	}
}

func rendezvousConfidence(in *Input, s *Site, explained float64) (degree, reason string) {
	switch {
	case s.Mean() < 2*in.EagerLimit:
		return Low, "the mean size is so near the eager limit that many messages may be eager"
	case explained < 0.1:
		return Low, fmt.Sprintf("the transfers explain only %s of the time blocked", figures.Percent(explained))
	case in.TransferBytesPerNS == 0:
		return Medium, "the speed of the network was not measured"
	case explained < 0.5:
		return Medium, fmt.Sprintf("the transfers explain %s of the time blocked", figures.Percent(explained))
	}
	return High, fmt.Sprintf("the transfers explain %s of the time blocked", figures.Percent(explained))
}
