package arrival

import "github.com/mpitrace/mpitrace/segment"

// Result is what an Analysis found.
type Result struct {
	Clocks   []Clock
	Classes  []*Class // by extrapolated waiting, most first
	Messages Messages
	Skipped  Skipped

	analysis *Analysis
}

// Clock is the ranks of one node that share a clock, and how it was aligned.
// Ranks of a node whose samples contradict that they share one come apart.
type Clock struct {
	Node, BootID string
	Source       uint32 // ClockSource* of segment
	Ranks        int
	Component    int // clocks with the same can be compared; index of its reference clock
	Status       Status

	TicksPerNS    float64
	RateErrorPPM  float64 // of TicksPerNS, from the distance of the pairs to the fit
	ResidualNS    float64 // largest distance of a pair that was used from the fit
	ErrorNS       float64 // of comparing two ranks of this clock
	PairsRejected int     // pairs of (ticks, monotonic clock) that run backward or are impossible
	Violations    uint64  // operations left by one rank before another one entered, as long as they were taken to share this clock

	// Of an aligned clock:
	Via      int     // the clock it was compared with, index into Result.Clocks; -1 for none
	OffsetNS float64 // clock of Via less this one, halfway through their common operations
	DriftPPM float64 // how fast that grows, where the bounds leave most room
	BoundNS  float64 // how far a moment may be off against the reference: largest of first, middle and last common operation
	Compared int     // common operations used
	Cuts     int     // times that the clock was set or jumped
}

// Distribution of a figure over the sampled instances, in ns.
type Distribution struct{ Mean, P50, P95, Max float64 }

// Total is a sum over all instances of a class, extrapolated from the sampled
// ones, in ns.
type Total struct {
	NS      float64
	ErrorNS float64 // standard error of the extrapolation; -1 if one sample of many tells nothing of it
}

// Factors relate imbalance to the time of one message of the same payload:
// means over the sampled instances (Qian 2010, 6.3 and Table 6.1).
type Factors struct {
	Average float64 // average-case imbalance factor, mean distance / T
	Worst   float64 // worst-case imbalance factor, omega / T
}

// Class is all operations of one collective function on one communicator, or
// on several that were made alike: of the same processes, in the same way, from
// such a parent. A program that makes one anew in every iteration has one
// class. Blocking, nonblocking and persistent forms are classes of their own.
type Class struct {
	World      string
	CommID     uint64 // of several, the one sampled first
	Comms      int    // communicators that were sampled
	Call       segment.Call
	Dependency Dependency
	Size       int // ranks of a communicator
	RanksSeen  int // whose samples are there; if less, spread and waiting are lower bounds
	Level      uint16

	Instances     uint64 // completed on every rank seen: what totals refer to
	InstancesMost uint64 // completed on the rank that completed most
	Dropped       uint64 // samples that found no place on some rank
	Incomplete    int    // sampled instances left out: ranks missing
	Unaligned     int    // ... clocks cannot be compared
	Impossible    int    // ... left before they were entered

	Figures
	WorstNS []float64 // last arrival less first of each sampled instance, ascending: what Worst is the distribution of

	Sites []*Site // by waiting, most first; the lowest rank tells where an instance was called

	sampled []uint32
}

// Site is the part of a class that was called from one place, as told by the
// lowest rank; others may have called from elsewhere (RankShare.Addresses).
type Site struct {
	Address uint64 // return address in the lowest rank seen
	Rank    int32  // world rank in whose address space it lies
	Figures
}

// Figures of a class or of one of its call sites.
type Figures struct {
	Sampled int // instances that the figures come from

	// Spread. An instance whose ranks arrived within the bound is balanced:
	// 0 is taken for both figures.
	Average  Distribution // mean distance from the mean arrival (Qian 2010, Eq. 6.1 and 6.2)
	Worst    Distribution // omega: last arrival less first (Qian 2010, Eq. 6.3)
	Factors  *Factors     // nil: no model of T
	Balanced int          // instances within the bound
	BoundNS  float64      // mean over instances of what two arrivals may be off against each other
	BoundMax float64

	// Cost, summed over ranks: Blocked = Waiting + Beyond + Unclaimed.
	Blocked     Total // time inside the completing calls
	Waiting     Total // of it, until the last rank that it depends on had arrived
	Beyond      Total // of it, after that: the operation itself
	Unclaimed   Total // of it, waiting that the bound may explain
	WithoutCost int   // instances of which no waiting is claimed: dependencies not known, or root not seen

	Ranks       []RankShare // by waiting caused, most first
	Undecided   int         // instances whose last rank the bound leaves open
	UndecidedNS float64     // extrapolated waiting whose cause the bound leaves open
	Pattern     Pattern
}

// RankShare is the part of one rank; times are extrapolated ns.
type RankShare struct {
	Rank      int32 // in MPI_COMM_WORLD
	CommRank  int32
	Last      int     // sampled instances that it was the last to enter
	Share     float64 // of all sampled instances
	CausedNS  float64 // waiting of others for this rank
	WaitingNS float64 // own waiting
	BlockedNS float64 // own time inside the completing calls
	BeyondNS  float64 // of it, neither waiting nor unclaimed
	// Addresses are the rank's call sites in its own address space: ranks may
	// call the same operation from different places.
	Addresses []uint64

	sites []uint16 // of the process, as Addresses
}

// Pattern tells whether who is late can be foretold from call to call. It is
// about consecutive sampled instances, which may be many calls apart.
type Pattern struct {
	Pairs  int     // consecutive sampled instances with decided last ranks
	Repeat float64 // share of Pairs with the same last rank
	Chance float64 // what Repeat would be if the order of instances meant nothing: sum of squared shares

	OrderPairs  int     // consecutive sampled instances compared in order
	Correlation float64 // mean lag-1 rank correlation of the order of arrival (Spearman 1904)

	// Persistent: the better of two predictors, "the rank that is last most
	// often" and "the rank that was last before", is right more often than
	// not. Confidence is the lower end of the 95 % interval of its hits
	// (Wilson 1927).
	Persistent bool
	Predicted  int32 // world rank expected to be last next time, -1 for none
	ByPrevious bool  // the second predictor is the better one
	Confidence float64
}

// Sample is one sampled instance.
type Sample struct {
	CommID          uint64
	Sequence, Start uint32
	Bytes           uint64 // largest share of a rank
	Root            int32  // in the communicator, negative without one
	AverageNS       float64
	WorstNS         float64
	BoundNS         float64
	Last            int32 // world rank, -1 if the bound leaves it open
	Arrivals        []Arrival
}

// Arrival is one rank in a sample. Times are ns of the reference clock of its
// component.
type Arrival struct {
	Rank, CommRank          int32
	EnterNS, WaitNS, ExitNS int64
	BoundNS                 float64 // against the reference clock
	Address                 uint64  // call site in the rank's own address space
}

// Sample is instance i of the Sampled ones of a class, in the order of calls.
func (r *Result) Sample(c *Class, i int) Sample {
	a := r.analysis
	in := &a.instances[c.sampled[i]]
	members, origin, _ := a.members(in, nil)
	s := Sample{CommID: in.comm, Sequence: in.sequence, Start: in.start, Bytes: in.bytes, Root: in.root, Last: -1}
	s.AverageNS, s.WorstNS, s.BoundNS = a.imbalance(members)
	if last := a.lastOf(members); last >= 0 {
		s.Last = a.processes[members[last].process].rank
	}
	for _, m := range members {
		p := &a.processes[m.process]
		s.Arrivals = append(s.Arrivals, Arrival{
			Rank: p.rank, CommRank: m.rank, EnterNS: origin + int64(m.enter), WaitNS: origin + int64(m.wait),
			ExitNS: origin + int64(m.exit), BoundNS: m.bound, Address: p.sites[m.site],
		})
	}
	return s
}

// SamplesOf is the numbers of those sampled instances of a class that were
// called from one of its sites, in the order of calls.
func (r *Result) SamplesOf(c *Class, s *Site) []int {
	a := r.analysis
	var out []int
	for i, n := range c.sampled {
		lowest := a.rows.at(a.rowsOf(&a.instances[n])[0])
		if p := &a.processes[lowest.process]; p.rank == s.Rank && p.sites[lowest.site] == s.Address {
			out = append(out, i)
		}
	}
	return out
}

// Result ends the analysis. Asked again, it gives the same.
func (a *Analysis) Result() *Result {
	if a.result != nil {
		return a.result
	}
	a.makeDomains()
	a.sortRows()
	a.align()
	r := &Result{analysis: a, Clocks: a.clocks()}
	r.Classes = a.measureClasses()
	r.Messages = a.measureMessages()
	r.Skipped = a.skipped
	a.result = r
	return r
}

// clocks tells of all domains.
func (a *Analysis) clocks() []Clock {
	out := make([]Clock, len(a.domains))
	for i := range a.domains {
		d := &a.domains[i]
		c := Clock{
			Node: d.node, BootID: d.boot, Source: d.source, Ranks: len(d.processes), Component: int(d.component), Status: d.status,
			TicksPerNS: 1 / d.nsPerTick, RateErrorPPM: d.rateError * 1e6, ResidualNS: d.residual, ErrorNS: d.errorNS,
			PairsRejected: d.rejected, Violations: d.violations, Via: int(d.parent),
		}
		if d.link != nil {
			a.tellLink(&c, int32(i))
		}
		out[i] = c
	}
	return out
}

func (a *Analysis) tellLink(c *Clock, domain int32) {
	d := &a.domains[domain]
	from, to := d.link.span()
	c.Compared, c.Cuts = d.link.brackets, len(d.link.stretches)-1
	c.DriftPPM = d.link.drift() * 1e6
	if d.inverse {
		// The span is told in the parent's time.
		shift := func(ns int64) int64 { difference, _ := d.link.at(ns); return ns + difference }
		from, to, c.DriftPPM = shift(from), shift(to), -c.DriftPPM
	}
	for _, ns := range []int64{from, from + (to-from)/2, to} {
		_, bound := a.reference(domain, ns)
		c.BoundNS = max(c.BoundNS, bound)
	}
	difference, _ := d.difference(from + (to-from)/2)
	c.OffsetNS = float64(difference)
}
