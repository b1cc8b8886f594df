package measure

import (
	"encoding/binary"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/mpitrace/mpitrace/arrival"
	"github.com/mpitrace/mpitrace/internal/launch/harvest"
	"github.com/mpitrace/mpitrace/segment"
	"github.com/mpitrace/mpitrace/test/hosts"
	"github.com/mpitrace/mpitrace/test/mpijob"
)

// otherClock is how the clock of a host is falsified: what was a moment after
// zero is then that much more.
type otherClock struct {
	offsetNS, drift float64
	zeroTicks       uint64
	zeroNS          uint64
	firstNS, lastNS float64 // of its operations, true ns after zero
	ticksPerNS      float64
	isMade          bool
}

// ticks and ns are the same moment on the other clock.
func (c *otherClock) ticks(t uint64) uint64 {
	if t == 0 {
		return 0
	}
	return uint64(int64(t) + int64(math.Round(c.drift*float64(int64(t-c.zeroTicks))+c.offsetNS*c.ticksPerNS)))
}

func (c *otherClock) ns(n uint64) uint64 {
	return uint64(int64(n) + int64(math.Round(c.drift*float64(int64(n-c.zeroNS))+c.offsetNS)))
}

// falsify is the segment as the other clock would have made it.
func (c *otherClock) falsify(t *testing.T, s *segment.Segment) *segment.Segment {
	t.Helper()
	if !c.isMade {
		c.zeroTicks, c.zeroNS, c.ticksPerNS, c.isMade = s.Header.FirstTicks, s.Header.FirstMonotonicNS, s.Header.TicksPerNS, true
		c.firstNS = math.Inf(1)
	}
	rows, _ := s.Arrivals()
	for i := range rows {
		c.firstNS = math.Min(c.firstNS, float64(int64(rows[i].EnterTicks-c.zeroTicks))/c.ticksPerNS)
		c.lastNS = math.Max(c.lastNS, float64(int64(rows[i].ExitTicks-c.zeroTicks))/c.ticksPerNS)
	}
	data := s.Compact()
	change := func(at uintptr, f func(uint64) uint64) {
		binary.LittleEndian.PutUint64(data[at:], f(binary.LittleEndian.Uint64(data[at:])))
	}
	var h segment.RawHeader
	for _, at := range []uintptr{unsafe.Offsetof(h.FirstTicks), unsafe.Offsetof(h.LastTicks), unsafe.Offsetof(h.InitEnterTicks), unsafe.Offsetof(h.InitExitTicks)} {
		change(at, c.ticks)
	}
	for _, at := range []uintptr{unsafe.Offsetof(h.FirstMonotonicNS), unsafe.Offsetof(h.LastMonotonicNS)} {
		change(at, c.ns)
	}
	var section segment.RawSection
	var row segment.RawArrival
	sections := binary.LittleEndian.Uint32(data[unsafe.Offsetof(h.SectionCount):])
	for i := range uintptr(sections) {
		entry := data[segment.SectionsOffset+i*unsafe.Sizeof(section):]
		if binary.LittleEndian.Uint32(entry) != segment.SectionKindArrivals {
			continue
		}
		first := uintptr(binary.LittleEndian.Uint64(entry[unsafe.Offsetof(section.Offset):]))
		used := uintptr(binary.LittleEndian.Uint32(entry[unsafe.Offsetof(section.Used):]))
		for j := range used {
			at := first + j*unsafe.Sizeof(row)
			for _, field := range []uintptr{unsafe.Offsetof(row.EnterTicks), unsafe.Offsetof(row.WaitTicks), unsafe.Offsetof(row.ExitTicks)} {
				change(at+field, c.ticks)
			}
		}
	}
	out, err := segment.Parse(s.Path+" falsified", data)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// onHosts runs clocks.c with two ranks on each of two hosts.
func (m mpi) onHosts(t *testing.T, end string) (ran, *hosts.Hosts) {
	t.Helper()
	program := m.build(t, "clocks")
	h := hosts.New(t, 2)
	r := ran{dir: t.TempDir()}
	const segments = "/dev/shm/mpitrace-truth" // each host has a /dev/shm of its own
	var words []string
	for _, kv := range []string{"LD_PRELOAD=" + strings.Join(append([]string{shim}, m.helpers(t)...), ":"),
		"MPITRACE_JOB_ID=truth", "MPITRACE_OUTPUT=" + r.out(), "MPITRACE_SEGMENT_DIR=" + segments} {
		key, value, _ := strings.Cut(kv, "=")
		if m.Name == "mpich" {
			words = append(words, "-env", key, value)
		} else {
			words = append(words, "-x", kv)
		}
	}
	if m.Name == "mpich" && end == "finalize" {
		end = "exit" // between hosts its MPI_Finalize hangs now and then, see test/launch
	}
	instances := "300"
	if *long {
		instances = "500"
	}
	words = append(words, program, instances, "5000", end)
	env := mpijob.Environ("UCX_TLS=tcp,self", "UCX_DEBUG_SIGNO=0", "OMPI_MCA_mpi_yield_when_idle=1")
	p, err := mpijob.Start(limit, r.dir, env, h.OnIn(0, r.dir, h.Across(m.MPI, words...)...), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	got, err := p.Wait()
	if err != nil || got.TimedOut || got.Status != 0 && end == "finalize" {
		t.Fatalf("status %d, over its limit %v, %v\n%s\n%s", got.Status, got.TimedOut, err, got.Stdout, got.Stderr)
	}
	// The last rank of the other host may still be writing; one that left
	// without MPI_Finalize may have been killed in it, and never does.
	patience := map[string]time.Duration{"finalize": limit, "exit": 3 * time.Second}[end]
	for until := time.Now().Add(patience); time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
		if files, _ := filepath.Glob(filepath.Join(r.out(), "*.mtn")); len(files) == 2 {
			break
		}
	}
	for i, pid := range h.PIDs {
		s, err := harvest.Collect(t.Context(), harvest.Options{Bases: []string{fmt.Sprintf("/proc/%d/root%s", pid, segments)}, Output: func(string) string { return r.out() }, Wait: limit, Writer: "test"})
		if err != nil || s.Damaged != 0 || end == "kill" && s.Processes != 2 || end == "finalize" && s.Processes != 0 {
			t.Fatalf("collecting on host %d: %+v, %v", i, s, err)
		}
	}
	r.ledger = readLedger(t, r.dir)
	return r, h
}

// TestClocks: the clocks of two hosts are compared by the samples alone. In
// truth they are the same; then one of them is falsified.
func TestClocks(t *testing.T) {
	eachMPI(t, func(t *testing.T, m mpi) {
		for _, end := range []string{"finalize", "kill"} {
			t.Run(end, func(t *testing.T) {
				try(t, func() (d deviation) {
					r, h := m.onHosts(t, end)
					for _, c := range []otherClock{{}, {offsetNS: 3.25e9, drift: 80e-6}, {offsetNS: -7.5e9, drift: -45e-6}} {
						d.about(fmt.Sprintf("offset %.2f s, drift %+.0f ppm", c.offsetNS/1e9, c.drift*1e6))
						r.aligned(t, &d, h.Names[1], &c)
					}
					return d
				})
			})
		}
	})
}

// pairSpansSamples demands that at least half of the samples lie before the
// last pair of clocks, also of a killed process.
func pairSpansSamples(d *deviation, s *segment.Segment) {
	rows, _ := s.Arrivals()
	before := 0
	for i := range rows {
		if rows[i].ExitTicks <= s.Header.LastTicks {
			before++
		}
	}
	if len(rows) == 0 || 2*before < len(rows) {
		d.add("rank %d: %d of %d samples lie before the last pair of clocks", s.Header.WorldRank, before, len(rows))
	}
}

// aligned feeds the result with the clock of one host falsified, and demands
// that this is found out.
func (r ran) aligned(t *testing.T, d *deviation, host string, other *otherClock) {
	t.Helper()
	a := arrival.New(arrival.Options{})
	comms := map[string]uint64{}
	r.walk(t, func(s *segment.Segment) {
		for _, c := range s.Comms() {
			comms[segment.Text(c.Name[:])] = c.ID
		}
		pairSpansSamples(d, s)
		if s.Header.NodeName() == host {
			s = other.falsify(t, s)
		}
		a.Add(s)
	})
	result := a.Result()
	if len(result.Clocks) != 2 {
		t.Fatalf("%d clocks: %+v", len(result.Clocks), result.Clocks)
	}
	at := slices.IndexFunc(result.Clocks, func(c arrival.Clock) bool { return c.Status == arrival.StatusAligned })
	if at < 0 || result.Clocks[1-at].Status != arrival.StatusReference || !other.isMade {
		t.Fatalf("clocks %+v", result.Clocks)
	}
	clock := &result.Clocks[at]
	// OffsetNS is the reference less this one.
	sign := -1.0
	if clock.Node != host {
		sign = 1
	}
	middle, span := (other.firstNS+other.lastNS)/2, other.lastNS-other.firstNS
	// Both count the same ticks. How long one is they find out each for itself,
	// a killed process not well: such clocks do drift from the first pair on.
	reference := &result.Clocks[1-at]
	mismatch := clock.TicksPerNS/reference.TicksPerNS - 1
	if most := (clock.RateErrorPPM + reference.RateErrorPPM) * 1e-6; math.Abs(mismatch) > most {
		d.add("the rates differ by %.2f ppm, their errors allow %.2f", mismatch*1e6, most*1e6)
	}
	offset, drift := sign*(other.offsetNS+other.drift*middle)+mismatch*middle, (sign*other.drift+mismatch)*1e6
	freedom := 2 * clock.BoundNS / span * 1e6
	d.near("offset", clock.OffsetNS, offset, 0, clock.BoundNS+clock.ResidualNS+reference.ResidualNS)
	d.near("drift in 1/1000 ppm", 1000*clock.DriftPPM, 1000*drift, 0, 1000*freedom)
	d.near("bound", clock.BoundNS, 0, 0, 1e6)
	if clock.Cuts != 0 {
		d.add("%d cuts", clock.Cuts)
	}
	t.Logf("%s: offset off by %.1f us, drift by %.2f ppm (%.2f may be) in %.1f s, bound %.1f us, rates differ by %.2f ppm, %d operations compared", d.subject,
		math.Abs(clock.OffsetNS-offset)/1e3, math.Abs(clock.DriftPPM-drift), freedom, span/1e9, clock.BoundNS/1e3, mismatch*1e6, clock.Compared)
	operations := r.ledger.operations(t)
	for _, o := range operations {
		c := o.classOf(result, comms)
		if c == nil {
			t.Fatalf("%s is not in the result", o.name())
		}
		o.inOrder(d, result, c)
		var control deviation
		if o.falsified(true).inOrder(&control, result, c); d.holds() && len(control.found) == 0 {
			t.Errorf("%s: a false ledger is accepted", o.name())
		}
	}
	var control deviation
	control.near("offset", clock.OffsetNS, 1.1*offset+3*sign*clock.BoundNS, 0, clock.BoundNS)
	if control.near("drift", clock.DriftPPM, drift+math.Copysign(max(2.1*freedom, 8), drift), 0, freedom); d.holds() && len(control.found[""]) != 2 {
		t.Errorf("a false clock is accepted: offset %.0f, drift %.2f", clock.OffsetNS, clock.DriftPPM)
	}
}

// inOrder demands that whoever arrived last by more than the bound is named,
// that nobody else is, and that omega is right within the bound. The processor
// may be taken away between the moment of the ledger and that of the shim: one
// instance in fifty may differ.
func (o *operation) inOrder(d *deviation, result *arrival.Result, c *arrival.Class) {
	d.equal(o.name()+": sampled", c.Sampled, len(o.instances))
	n := min(c.Sampled, len(o.instances))
	named, wrong, sum, want, slack := 0, 0, 0.0, 0.0, 0.0
	for i := range n {
		in, s := o.instances[i], result.Sample(c, i)
		if s.WorstNS > 0 {
			_, omega := spread(in)
			sum, want, slack = sum+s.WorstNS, want+omega, slack+s.BoundNS
		}
		if last := lastOf(in, s.BoundNS+50_000); last >= 0 {
			named++
			if int(s.Last) != last {
				wrong++
			}
		}
	}
	d.near(o.name()+": omega of all instances", sum, want, 0.02, slack)
	if 2*named < n || 50*wrong > named {
		d.add("%s: of %d instances the ledger knows the last rank of %d, another one is named for %d", o.name(), n, named, wrong)
	}
}
