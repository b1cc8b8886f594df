package reusetrack

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestSenderScenarios replays testdata/sender. -rewrite writes the expected
// output anew.
//
//	new [from=BYTES] [speculation=PERCENT] [room=N] [most=N]
//	costs bytes=N copy=NS [register=NS]    eight measurements of a size
//	looks table=NS cache=NS [times=N]      eight, or so many, of both look-ups
//	send N address=A bytes=N site=S [exposed=NS] [cache=NS] [refuse] [apart=N]
//	                                       N messages from a buffer, or each from
//	                                       one apart bytes behind the last; what
//	                                       leaves straight and is timed waits so long,
//	                                       and its look-up takes so long, if wanted
//	random N seed=S buffers=N              N messages from so many buffers
//	state
//
// c/test/reuse_model_test.c replays the same files on the version of the ranks.
func TestSenderScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata/sender", func(t *testing.T, path string) {
		var s *Sender
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			number := func(name string) (v uint64) {
				d.MaybeScanArgs(t, name, &v)
				return v
			}
			switch d.Cmd {
			case "new":
				s = NewSender(SenderOptions{
					From: number("from"), Speculation: Speculation(float64(number("speculation")) / 100),
					Room: int(number("room")), MaxRows: int(number("most")),
				})
			case "costs":
				for range SenderLook {
					s.Copied(number("bytes"), number("copy"))
				}
				s.Register(number("bytes"), float64(number("register")))
			case "looks":
				for range cmp.Or(number("times"), SenderLook) {
					s.LookedUp(number("table"))
					s.Borrowed(number("cache"))
				}
			case "send":
				n, _ := strconv.Atoi(d.CmdArgs[0].Key)
				return sendMany(s, n, number("address"), number("bytes"), number("site"), number("exposed"), number("cache"), number("apart"), d.HasArg("refuse"))
			case "random":
				n, _ := strconv.Atoi(d.CmdArgs[0].Key)
				return sendRandom(s, n, number("seed"), number("buffers"))
			case "state":
				return fmt.Sprintf("%d buffers, %d frequent, stopped %t, %d messages untracked, %d places, %d retreats\n",
					len(s.rows), s.frequent, s.stopped, s.untracked, min(len(s.sites), SenderSites), s.retreats)
			default:
				d.Fatalf(t, "unknown command %s", d.Cmd)
			}
			return ""
		})
	})
}

// runs are messages that left the same way, one behind the other.
type runs struct {
	text  strings.Builder
	count int // of the latest
	way   string
	all   int
}

func (r *runs) add(way string) {
	if way != r.way {
		r.end()
	}
	r.way, r.count = way, r.count+1
}

func (r *runs) end() {
	if r.count > 0 && r.all < 12 {
		fmt.Fprintf(&r.text, "%d %s\n", r.count, r.way)
	}
	if r.count > 0 {
		r.all++
	}
	r.count = 0
}

func sendMany(s *Sender, n int, address, bytes, site, exposed, cache, apart uint64, refuse bool) string {
	var out runs
	for i := range n {
		at := address + uint64(i)*apart
		sent := s.Send(at, bytes, site)
		switch {
		case sent.Straight && refuse:
			s.Refused(at, bytes, site)
			out.add("refused")
		case sent.Straight:
			if sent.Timed {
				s.Exposed(bytes, site, exposed)
			}
			if sent.Looks {
				s.Borrowed(cache)
			}
			out.add("straight")
		default:
			out.add("copied")
		}
	}
	out.end()
	if out.all > 12 {
		fmt.Fprintf(&out.text, ".. %d runs\n", out.all)
	}
	return out.text.String()
}

// sendRandom sends messages of all sizes, with costs that vary, and tells how
// many left straight, were timed and refused.
func sendRandom(s *Sender, n int, random, buffers uint64) string {
	next := func(below uint64) uint64 {
		random = random*6364136223846793005 + 1442695040888963407
		return random >> 33 % below
	}
	var straight, timed, refused uint64
	for range n {
		b := next(buffers)
		b = next(b + 1) // some much more often than others
		address, bytes, site := 0x7f0000000000+b*832, 64+next(1+next(16384)), 1+next(1+next(400))
		sent := s.Send(address, bytes, site)
		switch {
		case sent.Straight && next(20) == 0:
			s.Refused(address, bytes, site)
			refused++
		case sent.Straight:
			straight++
			if sent.Timed {
				timed++
				s.Exposed(bytes, site, next(1+site*8))
			}
		case sent.Timed:
			timed++
			s.Copied(bytes, 20+bytes/8+next(50))
		}
		if next(64) == 0 {
			s.LookedUp(20 + next(20))
			s.Borrowed(30 + next(20))
		}
	}
	return fmt.Sprintf("%d straight, %d timed, %d refused\n", straight, timed, refused)
}

// TestSenderCosts: what a Sender registers a buffer at is what the model says.
func TestSenderCosts(t *testing.T) {
	for _, p := range []Speculation{Quarter, Half, Full} {
		costs := Costs{Copy: Curve{{1, 900}}, Register: Curve{{1, 31_000}}, UsageLookUp: Curve{{1, 40}}, CacheLookUp: Curve{{1, 60}}}
		s := NewSender(SenderOptions{Speculation: p})
		for range SenderLook {
			s.Copied(4096, 900)
			s.LookedUp(40)
			s.Borrowed(60)
		}
		s.Register(4096, 31_000)
		want, ok := costs.Threshold(4096, 0, p)
		got := uint64(1)
		for ; !s.Send(0x1000, 4096, 1).Straight; got++ {
		}
		if !ok || got != want {
			t.Errorf("by %v: registered at use %d, the model says %d (%v)", p, got, want, ok)
		}
	}
}
