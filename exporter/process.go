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
	InMPI           bool   // running, and a thread is inside a call
	IdleNS          uint64 // running: time since a call was entered or left
	SegmentBytes    uint64
	PrivateBytes    uint64
}

// ProcessOf is what a segment says of its process, for the sections of
// CounterSections; uptimeNS as for CountersOf.
func ProcessOf(s *segment.Segment, uptimeNS uint64) (Process, error) {
	counters, err := CountersOf(s, uptimeNS)
	if err != nil {
		return Process{}, err
	}
	h := &s.Header
	p := Process{
		Counters: counters, Rank: h.WorldRank, WorldSize: max(h.WorldSize, 0), World: h.WorldID(), State: stateOf(s),
		SegmentBytes: min(h.FileBytes, maxMemory), PrivateBytes: min(h.PrivateBytes, maxMemory),
	}
	if p.State != StateRunning {
		return p, nil
	}
	last := s.StartTicks()
	for _, t := range s.Threads() {
		p.InMPI = p.InMPI || t.Call != 0
		last = max(last, t.EnterTicks, t.ExitTicks)
	}
	if now := s.NowTicks(); last > 0 && now > last {
		p.IdleNS = min(h.NS(now-last), uptimeNS)
	}
	return p, nil
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
