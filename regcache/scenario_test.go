package regcache

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestScenarios replays testdata/*.txt, which document the behaviour. Addresses
// and lengths are in pages unless they end in "b" for bytes; a bucket has 512
// pages. go test -rewrite writes the expected output anew.
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		s := &scenario{t: t, held: map[string]func() error{}}
		datadriven.RunTest(t, path, s.run)
	})
}

type scenario struct {
	t       *testing.T
	core    *Core
	device  *device
	front   *table
	watched Generations
	none    bool // no monitor
	held    map[string]func() error
	out     strings.Builder
}

func (s *scenario) say(format string, args ...any) { fmt.Fprintf(&s.out, format+"\n", args...) }

func (s *scenario) run(t *testing.T, d *datadriven.TestData) string {
	s.out.Reset()
	commands := map[string]func(*datadriven.TestData){
		"new": s.create, "acquire": s.acquire, "release": s.release, "change": s.change,
		"take": s.take, "monitor": s.monitor, "device": s.setDevice, "index": s.index,
		"stats": s.stats, "maintain": s.maintain,
		"sweep": func(*datadriven.TestData) { s.core.Sweep() },
		"kill":  func(*datadriven.TestData) { s.core.Kill() },
		"close": func(*datadriven.TestData) { s.error(s.core.Close()) },
	}
	command := commands[d.Cmd]
	if command == nil {
		d.Fatalf(t, "no command %q", d.Cmd)
	}
	command(d)
	if s.front != nil && s.front.wrong != "" {
		t.Errorf("%s: %s", d.Pos, s.front.wrong)
	}
	if s.out.Len() == 0 {
		return "ok"
	}
	return s.out.String()
}

func (s *scenario) error(err error) {
	if err != nil {
		s.say("%v", err)
	}
}

// size reads a number of pages, or of bytes.
func (s *scenario) size(text string) uint64 {
	var n uint64
	unit := uint64(page)
	if bytes, ok := strings.CutSuffix(text, "b"); ok {
		text, unit = bytes, 1
	}
	if _, err := fmt.Sscan(text, &n); err != nil {
		s.t.Fatalf("%q is no size", text)
	}
	return n * unit
}

func (s *scenario) arg(d *datadriven.TestData, key string, otherwise uint64) uint64 {
	var text string
	if !d.HasArg(key) {
		return otherwise
	}
	d.ScanArgs(s.t, key, &text)
	return s.size(text)
}

func (s *scenario) create(d *datadriven.TestData) {
	s.device = newDevice()
	s.device.say = s.say
	o := Options{Registrar: s.device, PageSize: page, MaxBytes: s.arg(d, "max", 1<<20*page)}
	o.MaxRegions = int(s.arg(d, "regions", 100*page) / page)
	o.Generations = func() *Generations {
		if s.none {
			return nil
		}
		return &s.watched
	}
	if d.HasArg("front") {
		s.front = newTable()
		o.Front = s.front
	}
	var err error
	if s.core, err = NewCore(o); err != nil {
		s.t.Fatal(err)
	}
}

// acquire NAME at=ADDRESS length=LENGTH
func (s *scenario) acquire(d *datadriven.TestData) {
	r, err := s.core.Acquire(s.arg(d, "at", 0), s.arg(d, "length", page))
	if err != nil {
		s.say("%v", err)
		return
	}
	s.say("%s with %d", pages(r.Start(), r.End()), r.Handle().ID)
	s.held[d.CmdArgs[0].Key] = func() error { return s.core.Release(r) }
}

// take NAME at=ADDRESS length=LENGTH: by a thread, from the front; a miss is
// served at once.
func (s *scenario) take(d *datadriven.TestData) {
	at, length := s.arg(d, "at", 0), s.arg(d, "length", page)
	r, give, ask := s.front.take(&s.watched, at, length)
	if r != nil {
		s.say("%s from the front", pages(r.start, r.end))
		s.held[d.CmdArgs[0].Key] = func() error { give(); return nil }
		return
	}
	s.say("not now")
	if ask {
		s.error(s.core.Promote(at, length, s.watched.Sum(at, at+length)))
	}
}

func (s *scenario) release(d *datadriven.TestData) {
	for _, a := range d.CmdArgs {
		give := s.held[a.Key]
		if give == nil {
			d.Fatalf(s.t, "nobody holds %q", a.Key)
		}
		delete(s.held, a.Key)
		s.error(give())
	}
}

func (s *scenario) change(d *datadriven.TestData) {
	at := s.arg(d, "at", 0)
	change := func() { s.watched.Change(at, at+s.arg(d, "length", page)) }
	if !d.HasArg("during") {
		change()
		return
	}
	left := int(s.arg(d, "during", 0) / page)
	s.device.during = func() {
		if left--; left >= 0 {
			change()
		}
	}
}

// maintain times=NUMBER
func (s *scenario) maintain(d *datadriven.TestData) {
	for range s.arg(d, "times", page) / page {
		s.core.Maintain()
	}
}

func (s *scenario) monitor(d *datadriven.TestData) { s.none = d.HasArg("off") }

// device limit=PAGES, or fails
func (s *scenario) setDevice(d *datadriven.TestData) {
	s.device.limit = s.arg(d, "limit", 0)
	s.device.err = nil
	if d.HasArg("fails") {
		s.device.err = errors.Join(errors.New("no protection domain"), syscall.EINVAL)
	}
}

func (s *scenario) index(*datadriven.TestData) {
	for _, r := range s.core.index {
		s.say("%s references %d", pages(r.start, r.end), r.refs)
	}
	for _, r := range s.core.dying {
		s.say("%s references %d, dead", pages(r.start, r.end), r.refs)
	}
}

func (s *scenario) stats(*datadriven.TestData) {
	v := s.core.Stats()
	s.say("pinned %d pages in %d regions", v.PinnedBytes/page, v.Regions)
	s.say("hits %d, misses %d, merges %d, evictions %d, invalidations %d, refused %d",
		v.Hits, v.Misses, v.Merges, v.Evictions, v.Invalidations, v.Refused)
	for reason, n := range v.RefusedBy {
		if n > 0 {
			s.say("refused, %v: %d", Reason(reason), n)
		}
	}
}
