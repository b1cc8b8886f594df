package synth

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/mpitrace/mpitrace/segment"
)

// What a traced step of the solver takes; traces are of fewer and longer steps
// than the totals of the segments.
const (
	traceStepNS = 1_000_000
	traceTag    = 7
	waitAt      = 0x1310
	receiveAt   = 0x1240
	sendAt      = 0x12c0
)

// TraceFile is the head of the trace file of a process.
func TraceFile(h *segment.RawHeader) segment.RawTraceFile {
	head := segment.RawTraceFile{VersionMajor: segment.VersionMajor, VersionMinor: segment.VersionMinor, LayoutHash: segment.LayoutHash,
		PID: h.PID, EventBytes: 64, PIDStart: h.PIDStart, BootID: h.BootID, Node: h.Node, Job: h.Job}
	copy(head.Magic[:], "MPITRTRC")
	return head
}

// WriteTrace writes a trace file of a process into a result directory: each
// hands out its events.
func WriteTrace(dir string, h *segment.RawHeader, each func(add func(segment.RawEvent))) error {
	f, err := os.Create(filepath.Join(dir, fmt.Sprintf("%s.%d.%d%s", h.NodeName(), h.PID, h.PIDStart, segment.TraceFileSuffix)))
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	_, err = w.Write(segment.Encode(TraceFile(h)))
	each(func(e segment.RawEvent) {
		if err == nil {
			_, err = w.Write(segment.Encode(e))
		}
	})
	return errors.Join(err, w.Flush(), f.Close())
}

// Trace hands out the events that a rank records in so many steps, in the
// order in which it does. In each step a rank posts a receive from each
// neighbour, sends to each, waits for all and takes part in a reduction.
func (j Job) Trace(rank, steps int, add func(segment.RawEvent)) {
	neighbours := j.neighbours(rank)
	serial := uint32(0)
	late := uint64(rank%7) * 10_000
	for step := range steps {
		at := uint64(step)*traceStepNS + 1_000_000 + late
		var posts []uint64
		for range neighbours {
			add(traceCall("MPI_Irecv", receiveAt, at, at+300, gridID, 0))
			posts = append(posts, Ticks(at))
			at += 400
		}
		for i, peer := range neighbours {
			serial := serial + uint32(i) + 1
			call := traceCall("MPI_Isend", sendAt, at, at+900, gridID, haloBytes)
			call.Peer, call.Tag = int32(peer), traceTag
			message := call
			message.Kind, message.Flags, message.Serial = segment.EventKindSend, segment.EventFlagNonblocking, serial
			add(message)
			add(call)
			at += 1000
		}
		end := uint64(step)*traceStepNS + 1_400_000
		wait := traceCall("MPI_Waitall", waitAt, at, end, 0, 0)
		for i, peer := range neighbours {
			message := wait
			message.Kind, message.Flags, message.Serial = segment.EventKindReceive, segment.EventFlagNonblocking, serial+uint32(i)+1
			message.Call, message.Address, message.PostTicks = uint16(ID("MPI_Irecv")), ModuleBase+receiveAt, posts[i]
			message.CommID, message.Bytes, message.Peer, message.Tag = gridID, haloBytes, int32(peer), traceTag
			add(message)
		}
		add(wait)
		serial += uint32(len(neighbours))
		add(traceCall("MPI_Allreduce", reduceAt, end+1000+late, end+100_000, gridID, 8))
	}
}

// traceCall is the event of a call between two moments in ns.
func traceCall(name string, offset, from, to, comm, bytes uint64) segment.RawEvent {
	return segment.RawEvent{Kind: segment.EventKindCall, Call: uint16(ID(name)), EnterTicks: Ticks(from), ExitTicks: Ticks(to), PostTicks: Ticks(from),
		Address: ModuleBase + offset, CommID: comm, Bytes: bytes, Peer: segment.PeerUnknown, Tag: -1}
}

// WriteTraced is Write with a trace of so many steps: all but the last events
// of each rank are in its trace file.
func (j Job) WriteTraced(dir string, steps int) error {
	const last = 100
	plain := j.Mutate
	var failed error
	j.Mutate = func(rank int, s *Segment) *Segment {
		total := 0
		j.Trace(rank, steps, func(segment.RawEvent) { total++ })
		if plain != nil {
			if s = plain(rank, s); s == nil {
				return nil
			}
		}
		n := 0
		err := WriteTrace(dir, &s.Header, func(add func(segment.RawEvent)) {
			j.Trace(rank, steps, func(e segment.RawEvent) {
				if n++; n > total-last {
					s.Events = append(s.Events, e)
					return
				}
				add(e)
			})
		})
		failed = errors.Join(failed, err)
		return s
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return errors.Join(j.Write(dir), failed)
}
