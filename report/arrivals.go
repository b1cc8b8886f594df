package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/mpitrace/mpitrace/arrival"
	"github.com/mpitrace/mpitrace/segment"
)

// Arrival is how ranks arrived at one collective function of one communicator,
// or of several that were made alike, that was called from one place. Times are nanoseconds; sums are over ranks
// and extrapolated from the sampled operations to all.
type Arrival struct {
	Function   SiteFunction `json:"function"` // with the totals of the place
	Site       *Site        `json:"site"`     // in the lowest rank
	Comm       string       `json:"comm"`
	CommID     string       `json:"comm_id"`               // of several, the one sampled first
	Comms      int          `json:"communicators_sampled"` // made alike: of the same ranks, in the same way
	World      string       `json:"world"`
	Size       int          `json:"size"`
	RanksSeen  int          `json:"ranks_seen"` // if less than size, spread and waiting are lower bounds
	Dependency string       `json:"dependency"` // who needs whom, as in package arrival
	Operations uint64       `json:"operations"` // from this place, all of them
	Sampled    int          `json:"sampled"`
	Incomplete int          `json:"incomplete"` // of the class, left out: ranks missing
	Unaligned  int          `json:"unaligned"`  // ... clocks cannot be compared
	Impossible int          `json:"impossible"` // ... left before they were entered

	Average  Distribution `json:"average_ns"` // mean distance from the mean arrival (Qian 2010, Eq. 6.1 and 6.2)
	Worst    Distribution `json:"worst_ns"`   // last arrival less first (Eq. 6.3)
	Factors  *Factors     `json:"factors"`    // null without network
	Balanced int          `json:"balanced"`   // sampled operations whose ranks arrived within the bound
	BoundNS  uint64       `json:"bound_ns"`   // mean of what two arrivals may be off against each other
	BoundMax uint64       `json:"bound_max_ns"`

	Blocked     Estimate `json:"blocked"`   // = waiting + beyond + unclaimed
	Waiting     Estimate `json:"waiting"`   // for the last rank that it depends on
	Beyond      Estimate `json:"beyond"`    // the operation itself
	Unclaimed   Estimate `json:"unclaimed"` // waiting that the bound may explain
	WithoutCost int      `json:"without_cost"`

	Ranks       []ArrivalRank  `json:"ranks"` // by waiting caused, at most arrivalRanks
	Undecided   int            `json:"undecided"`
	UndecidedNS uint64         `json:"undecided_ns"`
	Pattern     ArrivalPattern `json:"pattern"`
	call        segment.Call
	spentNS     uint64  // counted in the calls of its place, on all communicators; 0: not known
	rooted      bool    // the root is waited for, not the last
	others      []*Site // where ranks called it from that did not call it at Site
}

// arrivalRanks is how many ranks are kept of each place.
const arrivalRanks = 64

// Distribution of a figure over the sampled operations, in nanoseconds.
type Distribution struct {
	Mean uint64 `json:"mean"`
	P50  uint64 `json:"p50"`
	P95  uint64 `json:"p95"`
	Max  uint64 `json:"max"`
}

// Estimate is an extrapolated sum in nanoseconds and its standard error; an
// error of -1 is not known: one sample of many tells nothing of it.
type Estimate struct {
	NS      uint64 `json:"ns"`
	ErrorNS int64  `json:"error_ns"`
}

// Factors relate the spread to the time of one message of the same payload.
type Factors struct {
	Average float64 `json:"average"`
	Worst   float64 `json:"worst"`
}

// ArrivalRank is the part of one rank.
type ArrivalRank struct {
	Rank      int     `json:"rank"`
	Last      int     `json:"last"`       // sampled operations that it was the last to enter
	Share     float64 `json:"last_share"` // of all sampled ones
	CausedNS  uint64  `json:"caused_ns"`  // waiting of others for it
	WaitingNS uint64  `json:"waiting_ns"` // its own
	BlockedNS uint64  `json:"blocked_ns"`
	site      *Site   // where this rank calls it
}

// ArrivalPattern tells whether who is late can be foretold.
type ArrivalPattern struct {
	Persistent  bool    `json:"persistent"`
	Predicted   int     `json:"predicted_rank"` // -1 for none
	ByPrevious  bool    `json:"by_previous"`    // better foretold by who was last before than by who is last most often
	Confidence  float64 `json:"confidence"`     // lower end of the 95 % interval of right predictions
	Repeat      float64 `json:"repeat"`         // share of consecutive samples with the same last rank
	Chance      float64 `json:"chance"`         // what repeat would be without any order
	Correlation float64 `json:"correlation"`    // of the order of arrival with that before
}

// wholeNS rounds nanoseconds for output; what is no number is 0.
func wholeNS(v float64) uint64 {
	if !(v > 0) {
		return 0
	}
	return uint64(math.Round(min(v, 1<<62)))
}

// boundNS rounds a bound up: it must stay one.
func boundNS(v float64) uint64 { return wholeNS(math.Ceil(v)) }

// number rounds to six places, more than such figures have; 0 where JSON has
// no way to write it.
func number(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	if math.Abs(v) > 1e9 {
		return v
	}
	return math.Round(v*1e6) / 1e6
}

func distributionOf(d arrival.Distribution) Distribution {
	return Distribution{wholeNS(d.Mean), wholeNS(d.P50), wholeNS(d.P95), wholeNS(d.Max)}
}

func estimateOf(t arrival.Total) Estimate {
	if t.ErrorNS < 0 {
		return Estimate{wholeNS(t.NS), -1}
	}
	return Estimate{wholeNS(t.NS), int64(wholeNS(t.ErrorNS))}
}

// finishArrivals takes over what the analysis found.
func (b *builder) finishArrivals() {
	if b.options.Network == nil {
		b.options.Network = b.stored()
	}
	b.report.Network, b.report.options.Network = b.options.Network, b.options.Network
	result := b.arrivals.Result()
	names := b.commNames()
	sources := map[*Arrival]arrivalSource{}
	for _, c := range result.Classes {
		for _, s := range c.Sites {
			a := b.arrival(c, s, names)
			sources[a] = arrivalSource{c, s}
			b.report.Arrivals = append(b.report.Arrivals, a)
		}
		b.report.unaligned += c.Unaligned
	}
	b.measured.tornRanks = result.Skipped.TornRanks
	b.settleArrivals(result.Classes)
	sortBy(b.report.Arrivals, func(x, y *Arrival) int {
		return cmp.Or(-cmp.Compare(x.Waiting.NS, y.Waiting.NS), -cmp.Compare(x.Blocked.NS, y.Blocked.NS),
			strings.Compare(x.Function.Name, y.Function.Name), cmp.Compare(x.Site.Offset, y.Site.Offset), strings.Compare(x.CommID, y.CommID))
	})
	b.finishRasters(result, sources)
	b.report.Clocks = clocksOf(result.Clocks)
	b.finishMessages(&result.Messages)
	if b.options.visit != nil {
		b.found = result
	}
	b.arrivals = nil // holds all samples
}

// commNames is the names of communicators by id.
func (b *builder) commNames() map[uint64]string {
	names := map[uint64]string{}
	for key, c := range b.comms {
		if key.id != 0 && (names[key.id] == "" || c.Name < names[key.id]) {
			names[key.id] = c.Name
		}
	}
	return names
}

// arrival is the row of one place of a class.
func (b *builder) arrival(c *arrival.Class, s *arrival.Site, names map[uint64]string) *Arrival {
	site := b.placeSite(b.placeOf(c.World, s.Rank, s.Address, uint32(c.Call)))
	out := &Arrival{
		Function: SiteFunction{c.Call.String(), site.Totals}, Site: site, World: c.World,
		Comm: commText(c, names), Comms: c.Comms, CommID: fmt.Sprintf("%016x", c.CommID),
		Size: c.Size, RanksSeen: c.RanksSeen, Dependency: c.Dependency.String(), call: c.Call, rooted: c.Dependency == arrival.DependencyOneToAll,
		Operations: uint64(math.Round(float64(c.Instances) * float64(s.Sampled) / float64(max(1, c.Sampled)))),
		Sampled:    s.Sampled, Incomplete: c.Incomplete, Unaligned: c.Unaligned, Impossible: c.Impossible,
		Average: distributionOf(s.Average), Worst: distributionOf(s.Worst), Balanced: s.Balanced, BoundNS: boundNS(s.BoundNS), BoundMax: boundNS(s.BoundMax),
		Blocked: estimateOf(s.Blocked), Waiting: estimateOf(s.Waiting), Beyond: estimateOf(s.Beyond), Unclaimed: estimateOf(s.Unclaimed),
		WithoutCost: s.WithoutCost, Ranks: []ArrivalRank{}, Undecided: s.Undecided, UndecidedNS: wholeNS(s.UndecidedNS),
		Pattern: ArrivalPattern{s.Pattern.Persistent, int(s.Pattern.Predicted), s.Pattern.ByPrevious, number(s.Pattern.Confidence),
			number(s.Pattern.Repeat), number(s.Pattern.Chance), number(s.Pattern.Correlation)},
	}
	if s.Factors != nil {
		out.Factors = &Factors{number(s.Factors.Average), number(s.Factors.Worst)}
	}
	for i := range s.Ranks {
		r := &s.Ranks[i]
		site := b.addPlaces(out, c, r)
		if i < arrivalRanks {
			out.Ranks = append(out.Ranks, ArrivalRank{int(r.Rank), r.Last, number(r.Share), wholeNS(r.CausedNS), wholeNS(r.WaitingNS), wholeNS(r.BlockedNS), site})
		}
	}
	return out
}

// commText names the communicator of a class.
func commText(c *arrival.Class, names map[uint64]string) string {
	if c.Comms > 1 {
		return fmt.Sprintf("communicators of %d, made alike", c.Size)
	}
	return cmp.Or(names[c.CommID], fmt.Sprintf("communicator of %d", c.Size))
}

// addPlaces notes where a rank called the operations from; the first place is
// the answer.
func (b *builder) addPlaces(a *Arrival, c *arrival.Class, r *arrival.RankShare) *Site {
	first := a.Site
	for i, address := range r.Addresses {
		site := b.placeSite(b.placeOf(c.World, r.Rank, address, uint32(c.Call)))
		if i == 0 {
			first = site
		}
		if site != a.Site && !slices.Contains(a.others, site) {
			a.others = append(a.others, site)
		}
	}
	return first
}

// lastRank is the rank that is last most often; false if none is known to be.
func (a *Arrival) lastRank() (ArrivalRank, bool) {
	if len(a.Ranks) == 0 {
		return ArrivalRank{}, false
	}
	most := slices.MaxFunc(a.Ranks, func(x, y ArrivalRank) int { return cmp.Or(cmp.Compare(x.Last, y.Last), -cmp.Compare(x.Rank, y.Rank)) })
	return most, most.Last > 0
}

// balanced tells that no sample shows a spread beyond the error of the clocks.
func (a *Arrival) balanced() bool { return a.Balanced == a.Sampled }
