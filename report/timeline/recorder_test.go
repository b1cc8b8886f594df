package timeline_test

import (
	"context"
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/mpitrace/mpitrace/internal/synth"
	"github.com/mpitrace/mpitrace/report/timeline"
	"github.com/mpitrace/mpitrace/segment"
)

// recorder keeps what it is handed, and checks the promises of Writer.
type recorder struct {
	t        *testing.T
	job      *timeline.Job
	messages []timeline.Message
	samples  []timeline.Sample
	calls    []timeline.Call
	gaps     map[int32][]timeline.Gap
	rank     *timeline.Rank
	open     map[int][]timeline.Call
	last     map[int]int64
	ended    bool
}

func (r *recorder) Begin(j *timeline.Job) error {
	r.job, r.gaps = j, map[int32][]timeline.Gap{}
	return nil
}

func (r *recorder) Message(m *timeline.Message) error {
	r.messages = append(r.messages, *m)
	return nil
}

func (r *recorder) Sample(s *timeline.Sample) error {
	r.samples = append(r.samples, *s)
	if s.WaitNS < s.EnterNS || s.ExitNS < s.WaitNS {
		r.t.Errorf("a sample that runs backward: %+v", s)
	}
	return nil
}

func (r *recorder) BeginRank(k *timeline.Rank) error {
	r.rank, r.open, r.last = k, map[int][]timeline.Call{}, map[int]int64{}
	return nil
}

func (r *recorder) step(c *timeline.Call, ns int64) {
	if ns < r.last[c.Track] || c.Rank != r.rank || c.EndNS < c.BeginNS {
		r.t.Fatalf("%s of rank %d at %d after %d, from %d to %d", c.Name, c.Rank.Rank, ns, r.last[c.Track], c.BeginNS, c.EndNS)
	}
	r.last[c.Track] = ns
}

func (r *recorder) Enter(c *timeline.Call) error {
	r.step(c, c.BeginNS)
	r.open[c.Track] = append(r.open[c.Track], *c)
	r.calls = append(r.calls, *c)
	return nil
}

func (r *recorder) Leave(c *timeline.Call) error {
	r.step(c, c.EndNS)
	open := r.open[c.Track]
	if len(open) == 0 || open[len(open)-1].ID != c.ID {
		r.t.Fatalf("call %d is left, open are %d", c.ID, len(open))
	}
	r.open[c.Track] = open[:len(open)-1]
	return nil
}

func (r *recorder) EndRank(k *timeline.Rank) error {
	for track, open := range r.open {
		if len(open) > 0 {
			r.t.Errorf("%d calls of track %d of rank %d stay open", len(open), track, k.Rank)
		}
	}
	r.gaps[k.Rank] = append(r.gaps[k.Rank], k.Gaps...)
	return nil
}

func (r *recorder) End(*timeline.Summary) error {
	r.ended = true
	return nil
}

// export exports a result into a recorder.
func export(t *testing.T, dir string, o timeline.Options) (*recorder, *timeline.Summary) {
	t.Helper()
	r := &recorder{t: t}
	summary, err := timeline.Export(context.Background(), dir, r, o)
	if err != nil {
		t.Fatal(err)
	}
	if !r.ended {
		t.Error("End was not called")
	}
	return r, summary
}

// plain is what a trace holds, read without any thought: the dumb twin.
type plain struct {
	calls, sends, receives, bytes, received uint64
	ticks                                   uint64
}

func readPlain(t *testing.T, dir string) plain {
	t.Helper()
	var p plain
	take := func(events []segment.RawEvent) {
		for i := range events {
			switch e := &events[i]; e.Kind {
			case segment.EventKindCall:
				p.calls++
				p.bytes += e.Bytes
				p.ticks += e.ExitTicks - e.EnterTicks
			case segment.EventKindSend:
				p.sends++
			case segment.EventKindReceive:
				p.receives++
				p.received += e.Bytes
			}
		}
	}
	if _, err := segment.WalkTrace(dir, func(_ segment.RawTraceFile, events []segment.RawEvent) error { take(events); return nil }); err != nil {
		t.Fatal(err)
	}
	r, err := segment.ReadResult(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range r.Segments {
		take(s.BeyondTrace(dir).Events())
	}
	return p
}

// writeTraced writes the result of a traced solver.
func writeTraced(t *testing.T, j synth.Job, steps int) string {
	t.Helper()
	dir := t.TempDir()
	if err := j.WriteTraced(dir, steps); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestBlock: the size of a block is that of the shim.
func TestBlock(t *testing.T) {
	text, err := os.ReadFile("../../c/probe/shard.h")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`MT_EVENT_ROWS = (\d+)`).FindSubmatch(text)
	if m == nil || string(m[1]) != strconv.Itoa(timeline.TraceBlock) {
		t.Errorf("MT_EVENT_ROWS is %s, the blocks of this package are of %d events", m, timeline.TraceBlock)
	}
}
