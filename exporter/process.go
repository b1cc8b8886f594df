package exporter

import "github.com/mpitrace/mpitrace/segment"

// States of a rank, the values of the label state.
const (
	StateRunning  = "running"
	StateFinished = "finished" // MPI_Finalize has returned
	StateExited   = "exited"   // exit() without MPI_Finalize
	StateAborted  = "aborted"  // MPI_Abort
	StateDied     = "died"
)

var rankStates = [...]string{StateRunning, StateFinished, StateExited, StateAborted, StateDied}

// Process is one process of a job at one moment.
type Process struct {
	Counters
	Rank, WorldSize int32
	World           string
	State           string
	BusyNS          uint64 // in MPI, of the thread that is there longest, with the call in progress
	InMPI           bool   // running, and a thread is inside a call
	IdleNS          uint64 // running: time since a call was entered or left
	SegmentBytes    uint64
	PrivateBytes    uint64
	ToAct, Acts     bool                             // it was to carry messages itself; it does
	PinnedBytes     uint64                           // registered now
	PinnedRegions   uint64                           // registrations that this is
	Decisions       [len(tried)][len(decided)]uint64 // communicators and sizes
}

// share is the part of the wall time that is MPI time, as in the report and in
// the live view: a call that has not returned yet counts.
func (p *Process) share() float64 { return ratio(float64(p.BusyNS), float64(p.WallNS)) }

// ProcessOf is what a segment says of its process, for the sections of
// CounterSections. uptimeNS is how long the machine has run; figures that
// cannot be reached in that time are an error that wraps ErrImplausible.
func ProcessOf(s *segment.Segment, uptimeNS uint64) (Process, error) {
	counters, busy, err := countersOf(s, uptimeNS)
	if err != nil {
		return Process{}, err
	}
	h := &s.Header
	p := Process{
		Counters: counters, Rank: h.WorldRank, WorldSize: max(h.WorldSize, 0), World: h.WorldID(), State: stateOf(s),
		SegmentBytes: min(h.FileBytes, maxMemory), PrivateBytes: min(h.PrivateBytes, maxMemory),
	}
	if act := s.Act(); act != nil {
		p.ToAct, p.Acts = true, act.State == segment.ActStateActs
		p.PinnedBytes = min(act.Counts[segment.ActCachePinnedBytes], maxMemory)
		p.PinnedRegions = min(act.Counts[segment.ActCacheRegions], maxMemory)
		p.addDecisions(act.Decisions)
	}
	threads := s.Threads()
	shared := segment.SharedShard(threads)
	for shard, ns := range busy {
		if int64(shard) != shared {
			p.BusyNS = max(p.BusyNS, ns)
		}
	}
	if p.State == StateRunning {
		p.addCurrent(s, threads, shared, busy, uptimeNS)
	}
	p.BusyNS = min(p.BusyNS, p.WallNS)
	return p, nil
}

// addCurrent adds what the threads are doing now: while a rank is stuck in a
// call, its MPI time goes on.
func (p *Process) addCurrent(s *segment.Segment, threads []segment.Thread, shared int64, busy map[uint32]uint64, uptimeNS uint64) {
	h, now, last := &s.Header, s.NowTicks(), s.StartTicks()
	for i := range threads {
		t := &threads[i]
		last = max(last, t.EnterTicks, t.ExitTicks)
		if t.Call == 0 {
			continue
		}
		p.InMPI = true
		if now > t.EnterTicks && !segment.Call(t.Call).Setup() {
			ns := min(h.NS(now-t.EnterTicks), uptimeNS)
			grow(&p.MPINS, ns)
			if int64(t.Shard) != shared {
				p.BusyNS = max(p.BusyNS, busy[t.Shard]+ns)
			}
		}
	}
	if last > 0 && now > last {
		p.IdleNS = min(h.NS(now-last), uptimeNS)
	}
}

// maxMemory bounds what a header may claim: more than any machine has.
const maxMemory = 1 << 50

func stateOf(s *segment.Segment) string {
	switch {
	case s.Header.Ended():
		return StateFinished
	case s.Header.State == segment.StateAborted:
		return StateAborted
	case s.Header.State == segment.StateExitedEarly:
		return StateExited
	case s.Alive:
		return StateRunning
	}
	return StateDied
}
