package presence

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"time"
)

const testWait = 30 * time.Second

// script feeds steps to worlds; connections are numbers.
type script struct {
	t    *testing.T
	ws   *worlds[int]
	now  time.Time
	told map[int][]string
}

func newScript(t *testing.T) *script {
	return &script{t: t, ws: newWorlds[int](testWait), now: time.Unix(1000, 0), told: map[int][]string{}}
}

func (s *script) hear(answers []answer[int]) {
	for _, a := range answers {
		s.told[a.to] = append(s.told[a.to], a.text)
	}
}

func (s *script) report(link int, r Report)       { s.hear(s.ws.report(link, r, s.now)) }
func (s *script) loaded(link int, refused string) { s.hear(s.ws.loaded(link, refused)) }
func (s *script) gone(link int)                   { s.hear(s.ws.gone(link)) }

func (s *script) after(d time.Duration) time.Time {
	s.now = s.now.Add(d)
	answers, next := s.ws.expire(s.now)
	s.hear(answers)
	return next
}

// want checks what each of the links was told last, and how often it was told.
func (s *script) want(text string, times int, links ...int) {
	s.t.Helper()
	for _, link := range links {
		told := s.told[link]
		if len(told) != times || times > 0 && told[times-1] != text {
			s.t.Errorf("link %d was told %q, want %d lines, the last %q", link, told, times, text)
		}
	}
}

func TestAct(t *testing.T) {
	s := newScript(t)
	for _, rank := range []int{2, 0, 3} {
		s.report(rank, sample(rank))
	}
	s.want("", 0, 0, 2, 3)
	s.report(1, sample(1))
	s.want("go", 1, 0, 1, 2, 3)
	for _, rank := range []int{3, 1, 2} {
		s.loaded(rank, "")
	}
	s.want("go", 1, 0, 1, 2, 3)
	s.loaded(0, "")
	s.want("go", 2, 0, 1, 2, 3)
	for rank := range 4 {
		s.gone(rank)
	}
	s.after(time.Hour)
	s.want("go", 2, 0, 1, 2, 3)
	if want := []Verdict{{World: "job.1", Ranks: 4, Policy: "cc", Act: true}}; !slices.Equal(s.ws.decided, want) {
		t.Errorf("verdicts %+v, want %+v", s.ws.decided, want)
	}
}

// TestObserve: one rank is not as the others, or does not do as they do; all
// observe, and the reason names it.
func TestObserve(t *testing.T) {
	change := func(rank int, f func(*Report)) Report {
		r := sample(rank)
		f(&r)
		return r
	}
	for name, c := range map[string]struct {
		last   Report
		reason string
	}{
		"policy":   {change(3, func(r *Report) { r.Policy = "dd" }), "the policy is cc for rank 0 on nodea, and dd for rank 3 on noded"},
		"shim":     {change(3, func(r *Report) { r.Shim = "0.2.0 aa" }), "libmpishim.so is 0.1.0 aa for rank 0 on nodea, and 0.2.0 aa for rank 3 on noded"},
		"runtime":  {change(3, func(r *Report) { r.Runtime = "b2" }), "libmpishim-rt.so is bb for rank 0 on nodea, and b2 for rank 3 on noded"},
		"protocol": {change(3, func(r *Report) { r.Protocol = "2" }), "the protocol is 1 for rank 0 on nodea, and 2 for rank 3 on noded"},
		"size":     {change(3, func(r *Report) { r.Size = 5 }), "MPI_COMM_WORLD has size 4 for rank 0 on nodea, and 5 for rank 3 on noded"},
		"refused":  {change(3, func(r *Report) { r.Refused, r.Runtime = "no room", "" }), "rank 3 on noded: no room"},
		"twice":    {change(0, func(r *Report) { r.PID = 7 }), "rank 0 on nodea (process 100) reported, and rank 0 on nodea (process 7) did: MPI_COMM_WORLD cannot be told apart"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t)
			for rank := range 3 {
				s.report(rank, sample(rank))
			}
			s.report(9, c.last)
			s.want("observe "+c.reason, 1, 0, 1, 2, 9)
			if got := s.ws.decided; len(got) != 1 || got[0].Act || got[0].Reason != c.reason {
				t.Errorf("verdicts %+v", got)
			}
		})
	}
}

func TestMissing(t *testing.T) {
	s := newScript(t)
	s.report(0, sample(0))
	s.report(2, sample(2))
	if next := s.after(testWait - 1); next != s.now.Add(1) {
		t.Errorf("looks again at %v, want %v", next, s.now.Add(1))
	}
	s.want("", 0, 0, 2)
	s.after(1)
	const reason = "observe ranks 1, 3 of 4 did not report within 30s: do they run with libmpishim.so, and can they reach this host?"
	s.want(reason, 1, 0, 2)
	s.report(1, sample(1)) // late
	s.want(reason, 1, 0, 1, 2)
	if next := s.after(time.Hour); !next.IsZero() {
		t.Errorf("still waits until %v", next)
	}
}

func TestGone(t *testing.T) {
	s := newScript(t)
	s.report(0, sample(0))
	s.report(1, sample(1))
	s.gone(1)
	s.want("observe rank 1 on nodeb went away before all ranks were there", 1, 0)
	s.gone(77) // never reported
	s.loaded(77, "")
	if len(s.ws.decided) != 1 {
		t.Errorf("verdicts %+v", s.ws.decided)
	}
}

// TestLoading: the second step.
func TestLoading(t *testing.T) {
	for name, c := range map[string]struct {
		step   func(*script)
		reason string
	}{
		"refused": {func(s *script) { s.loaded(3, "cannot allocate memory in static TLS block") }, "rank 3 on noded: cannot allocate memory in static TLS block"},
		"never":   {func(s *script) { s.after(testWait) }, "rank 3 did not load libmpishim-rt.so within 30s"},
		"gone":    {func(s *script) { s.gone(3) }, "rank 3 on noded went away before all ranks were there"},
		"twice":   {func(s *script) { s.loaded(2, "") }, "rank 2 on nodec spoke out of turn"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t)
			for rank := range 4 {
				s.report(rank, sample(rank))
			}
			for rank := range 3 {
				s.loaded(rank, "")
			}
			c.step(s)
			s.want("observe "+c.reason, 2, 0, 1, 2)
		})
	}
	s := newScript(t)
	s.report(0, sample(0))
	s.loaded(0, "") // before all are there
	s.want("observe rank 0 on nodea spoke out of turn", 1, 0)
}

// TestForgotten: of very many jobs what is kept is their verdicts; and worlds of which
// a rank may still come, which must hear theirs.
func TestForgotten(t *testing.T) {
	s := newScript(t)
	for n := range 100 {
		for rank := range 4 {
			r := sample(rank)
			r.World = fmt.Sprint("job.", n)
			s.report(10*n+rank, r)
		}
		for rank := range 4 {
			s.loaded(10*n+rank, "")
		}
		for rank := range 4 {
			if len(s.ws.open) != 1 {
				t.Fatalf("%d worlds before rank %d of job %d has gone", len(s.ws.open), rank, n)
			}
			s.gone(10*n + rank)
		}
	}
	s.report(5000, sample(0))
	s.gone(5000)
	s.report(5001, sample(1))
	s.want("observe rank 0 on nodea went away before all ranks were there", 1, 5001)
	s.gone(5001)
	if len(s.ws.open) != 1 || len(s.ws.seats) != 0 || len(s.ws.decided) != 101 {
		t.Errorf("%d worlds, %d connections, %d verdicts", len(s.ws.open), len(s.ws.seats), len(s.ws.decided))
	}
}

// TestWorlds: two at once, and one after the other of the same name.
func TestWorlds(t *testing.T) {
	s := newScript(t)
	other := func(rank int) Report {
		r := sample(rank)
		r.World, r.Size, r.Policy = "job.2", 2, "zz"
		return r
	}
	s.report(0, sample(0))
	s.report(10, other(0))
	s.report(11, other(1))
	s.want("go", 1, 10, 11)
	s.want("", 0, 0)
	for rank := 1; rank < 4; rank++ {
		s.report(rank, sample(rank))
	}
	s.want("go", 1, 0, 1, 2, 3)
	s.loaded(10, "")
	s.loaded(11, "")
	for link := range 4 {
		s.loaded(link, "")
	}
	s.want("go", 2, 0, 1, 2, 3, 10, 11)
	for rank := range 4 { // a second mpirun that is given the first one's name
		s.gone(rank)
		r := sample(rank)
		r.Policy = "new"
		s.report(20+rank, r)
	}
	s.want("go", 1, 20, 21, 22, 23)
	s.want("go", 2, 0, 1, 2, 3)
}

// TestAgreement: whatever happens in whatever order, no rank is told to act
// while another is told, or left, to observe: the dumb statement of what the
// package is for.
func TestAgreement(t *testing.T) {
	acted, observed := 0, 0
	for seed := range int64(2000) {
		rng := rand.New(rand.NewSource(seed))
		s := newScript(t)
		ranks := rng.Perm(4)
		loaded := 0
		for step := 0; step < 14; step++ {
			switch n := rng.Intn(40); {
			case n == 0:
				s.after(testWait)
			case n == 1:
				s.gone(rng.Intn(4))
			case n == 2:
				s.loaded(rng.Intn(4), "no")
			case n == 3:
				r := sample(rng.Intn(4))
				r.Policy = "other"
				s.report(50+step, r)
			case len(ranks) > 0:
				s.report(ranks[0], sample(ranks[0]))
				ranks = ranks[1:]
			case loaded < 4:
				s.loaded(loaded, "")
				loaded++
			}
		}
		s.after(2 * testWait)
		var act, watch []string
		for link, told := range s.told {
			if len(told) == 2 && told[0] == "go" && told[1] == "go" {
				act = append(act, fmt.Sprint(link))
			} else if !strings.HasPrefix(told[len(told)-1], "observe ") {
				t.Errorf("seed %d: link %d was left with %q", seed, link, told)
			} else {
				watch = append(watch, fmt.Sprint(link))
			}
		}
		slices.Sort(act)
		if len(act) > 0 {
			acted++
			// others may have come with the name of a world that is decided
			if strings.Join(act, "") != "0123" {
				t.Errorf("seed %d: %v act, %v observe", seed, act, watch)
			}
		} else {
			observed++
		}
	}
	if acted < 100 || observed < 100 {
		t.Errorf("%d acted, %d observed: the test does not try both", acted, observed)
	}
}
