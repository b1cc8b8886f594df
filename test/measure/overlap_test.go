package measure

import (
	"fmt"
	"slices"
	"testing"

	"github.com/mpitrace/mpitrace/segment"
)

// request is all requests started at one place, times in ns.
type request struct {
	function      string
	n             uint64
	whole, before float64
	blocked       float64
}

// requestsOf reads the lines "request" of a rank.
func (l ledger) requestsOf(t *testing.T, rank int) (out []request) {
	t.Helper()
	for _, line := range l.of(rank, "request") {
		out = append(out, request{line[0], uint64(line.number(t, 1)), line.number(t, 2), line.number(t, 3), line.number(t, 4)})
	}
	return out
}

// requests is how many a place has, slackNS what their sum may be off besides two
// in a hundred: each is completed after a pause.
const (
	requests = 50
	slackNS  = requests * pausedNS
)

// agrees finds the call site of the requests and compares its times.
func (q request) agrees(d *deviation, s *segment.Segment) {
	sites := s.Sites()
	at := slices.IndexFunc(sites, func(site segment.RawSite) bool {
		return segment.Call(site.Call).String() == "MPI_"+q.function && site.Calls == q.n
	})
	if at < 0 {
		d.add("no call site of MPI_%s was called %d times", q.function, q.n)
		return
	}
	d.near("whole", float64(s.Header.NS(sites[at].RequestTicks)), q.whole, 0.02, slackNS)
	d.near("before", float64(s.Header.NS(sites[at].BeforeTicks)), q.before, 0.02, slackNS)
	d.near("blocked", float64(s.Header.NS(sites[at].BlockedTicks)), q.blocked, 0.02, slackNS)
}

// TestOverlap: how long requests were under way, and how long a rank was
// blocked for them.
func TestOverlap(t *testing.T) {
	for _, test := range []struct {
		mode           string
		compute, delay int // us
	}{
		{"receive", 1000, 3000}, // the sender is late in any case
		{"receive", 3000, 1000}, // the message is there when it is waited for
		{"send", 1000, 3000},
		{"send", 3000, 1000},
		{"waitall", 1000, 4000},
		{"collective", 1000, 3000},
	} {
		t.Run(fmt.Sprintf("%s %d %d", test.mode, test.compute, test.delay), func(t *testing.T) {
			eachMPI(t, func(t *testing.T, m mpi) {
				try(t, func() (d deviation) {
					r := m.run(t, job{program: "overlap", args: []string{test.mode, fmt.Sprint(requests), fmt.Sprint(test.compute), fmt.Sprint(test.delay)}, ranks: 2})
					compared := 0
					r.walk(t, func(s *segment.Segment) {
						rank := int(s.Header.WorldRank)
						for i, q := range r.ledger.requestsOf(t, rank) {
							compared++
							d.about(fmt.Sprintf("rank %d, request %d", rank, i))
							if q.agrees(&d, s); !d.holds() {
								continue
							}
							var control deviation
							longer := request{q.function, q.n, 1.1 * q.whole, 1.1*q.before + 2*slackNS, 1.1*q.blocked + 2*slackNS}
							if longer.agrees(&control, s); len(control.found[""]) != 3 {
								t.Errorf("rank %d, request %d: a false ledger is accepted", rank, i)
							}
						}
					})
					if compared == 0 {
						t.Error("nothing was compared")
					}
					return d
				})
			})
		})
	}
}

// TestBlockedSum: the blocked times of all places are the time in completing calls,
// also where many requests have one handle.
func TestBlockedSum(t *testing.T) {
	eachMPI(t, func(t *testing.T, m mpi) {
		try(t, func() (d deviation) {
			const computeUS, delayUS = 500, 3000
			r := m.run(t, job{program: "overlap", args: []string{"shared", fmt.Sprint(requests), fmt.Sprint(computeUS), fmt.Sprint(delayUS)}, ranks: 2})
			want := r.ledger.of(1, "completing")[0].number(t, 0)
			r.walk(t, func(s *segment.Segment) {
				if s.Header.WorldRank != 1 {
					return
				}
				got := 0.0
				for _, site := range s.Sites() {
					got += float64(s.Header.NS(site.BlockedTicks))
				}
				d.about("blocked")
				d.near("the sum", got, want, 0.02, 2*slackNS)
				if want < requests*(delayUS-computeUS)*1000 {
					t.Errorf("the ledger has no waiting: %.0f ns", want)
				}
			})
			return d
		})
	})
}
