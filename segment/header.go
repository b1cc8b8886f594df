package segment

import (
	"math"
)

// magicSegment begins every segment.
const magicSegment = "MPITRSEG"

// Process says which process wrote a segment; no two processes share it.
type Process struct {
	Node, BootID string
	PID          uint32
	PIDStart     uint64 // clock ticks after boot
}

// Process is the identity of the process that wrote the segment.
func (h *RawHeader) Process() Process {
	return Process{Text(h.Node[:]), Text(h.BootID[:]), h.PID, h.PIDStart}
}

// NodeName is the host the process ran on.
func (h *RawHeader) NodeName() string { return Text(h.Node[:]) }

// JobID names the job.
func (h *RawHeader) JobID() string { return Text(h.Job[:]) }

// WorldID tells apart several MPI_COMM_WORLDs of one job.
func (h *RawHeader) WorldID() string { return Text(h.World[:]) }

// rate is ticks per nanosecond, or false when the field holds no usable rate
// (a process that died before it was calibrated, or a damaged file).
func (h *RawHeader) rate() (float64, bool) {
	r := h.TicksPerNS
	if math.IsNaN(r) || r < 1e-4 || r > 1e4 {
		return 1, false
	}
	return r, true
}

// NS converts a span of clock ticks to nanoseconds, at most the longest
// time.Duration.
func (h *RawHeader) NS(ticks uint64) uint64 {
	r, _ := h.rate()
	ns := float64(ticks) / r
	if ns >= math.MaxInt64 {
		return math.MaxInt64
	}
	return uint64(ns)
}

// RealtimeNS converts a moment of the clock to nanoseconds since 1970, 0 if
// it cannot be told.
func (h *RawHeader) RealtimeNS(ticks uint64) int64 {
	if ticks == 0 || h.FirstRealtimeNS == 0 || h.FirstRealtimeNS > math.MaxInt64/2 {
		return 0
	}
	base := int64(h.FirstRealtimeNS)
	if ticks >= h.FirstTicks {
		ahead := h.NS(ticks - h.FirstTicks)
		if ahead > math.MaxInt64/2 {
			return 0
		}
		return base + int64(ahead)
	}
	return base - int64(min(h.NS(h.FirstTicks-ticks), uint64(base)))
}

// Ended tells whether the process said goodbye to MPI in an orderly way.
func (h *RawHeader) Ended() bool {
	return h.State == StateFinalized || h.State == StateExited
}
