package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
)

// evidence is what the findings of a report rest on.
type evidence struct {
	Job struct {
		MPINS uint64 `json:"mpi_ns"`
	}
	Functions []called
	Ranks     []struct {
		WallNS uint64 `json:"wall_ns"`
		MPINS  uint64 `json:"mpi_ns"`
	}
	Arrivals []arrivals
	Reuse    []struct {
		Path              string
		Accesses, Buffers uint64
		Reused            uint64
	}
	Overlap []struct {
		Function  called
		RequestNS uint64 `json:"request_ns"`
		BeforeNS  uint64 `json:"before_ns"`
		BlockedNS uint64 `json:"blocked_ns"`
		Messages  *struct {
			Matched       uint64
			Sends         uint64
			Receives      uint64
			LateSenders   uint64 `json:"late_senders"`
			LateReceivers uint64 `json:"late_receivers"`
		}
	}
	Trace *struct {
		LateSenderNS   uint64 `json:"late_sender_ns"`
		LateReceiverNS uint64 `json:"late_receiver_ns"`
	}
	Findings []string
}

type called struct {
	Name   string
	Calls  uint64
	TimeNS uint64 `json:"time_ns"`
}

type estimate struct {
	NS    uint64 `json:"ns"`
	Error int64  `json:"error_ns"`
}

type arrivals struct {
	Function                            called
	Operations                          uint64
	Sampled                             uint64
	Blocked, Waiting, Beyond, Unclaimed estimate
	UndecidedNS                         uint64 `json:"undecided_ns"`
	Ranks                               []struct {
		CausedNS uint64  `json:"caused_ns"`
		Share    float64 `json:"last_share"`
	}
}

// advised is the answer of mpitrace advise.
type advised struct {
	MPISeconds      float64 `json:"mpi_seconds"`
	Verdict         string
	Recommendations []struct {
		Technique, Function, Place string
		SavedSeconds               struct{ Low, Expected, High float64 } `json:"saved_seconds"`
	}
}

// readJSON has the mpitrace command print JSON.
func (b *bench) readJSON(into any, args ...string) error {
	var stderr bytes.Buffer
	cmd := exec.Command(b.mpitrace, args...)
	cmd.Stderr = &stderr
	text, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", args[0], err, bytes.TrimSpace(stderr.Bytes()))
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%s: no JSON: %w", args[0], err)
	}
	return nil
}

// rounding is by how much sums of rounded times may be off.
const rounding = 1000

// spent is the time in functions of which a part of the name is given.
func (e *evidence) spent(parts ...string) (ns uint64) {
	for _, f := range e.Functions {
		for _, part := range parts {
			if strings.Contains(strings.ToLower(f.Name), part) {
				ns += f.TimeNS
				break
			}
		}
	}
	return ns
}

// contradictions is what in the figures cannot be.
func (e *evidence) contradictions() []error {
	var out []error
	atMost := func(what string, part, whole uint64) {
		if part > whole+rounding {
			out = append(out, fmt.Errorf("%s: %d ns of %d ns", what, part, whole))
		}
	}
	for i, r := range e.Ranks {
		atMost(fmt.Sprintf("MPI time of rank %d in its time", i), r.MPINS, r.WallNS)
	}
	waiting := map[string]uint64{}
	for i := range e.Arrivals {
		a := &e.Arrivals[i]
		caused, last := a.UndecidedNS, 0.0
		for _, r := range a.Ranks {
			caused += r.CausedNS
			last += r.Share
		}
		atMost("waiting caused in waiting at "+a.Function.Name, caused, a.Waiting.NS)
		atMost("parts in the time blocked in "+a.Function.Name, a.Waiting.NS+a.Beyond.NS+a.Unclaimed.NS, a.Blocked.NS)
		if last > 1.001 {
			out = append(out, fmt.Errorf("%s: shares of the last ranks add up to %v", a.Function.Name, last))
		}
		waiting[a.Function.Name] += a.Waiting.NS
	}
	for _, f := range e.Functions {
		atMost("waiting at "+f.Name+" in the time of its calls", waiting[f.Name], f.TimeNS)
	}
	var blocked uint64
	for _, o := range e.Overlap {
		atMost("parts of the time of requests of "+o.Function.Name, o.BeforeNS+o.BlockedNS, o.RequestNS)
		blocked += o.BlockedNS
		if m := o.Messages; m != nil && (m.LateSenders > m.Receives || m.LateReceivers > m.Sends || m.Matched > m.Sends+m.Receives) {
			out = append(out, fmt.Errorf("%s: %+v", o.Function.Name, *m))
		}
	}
	atMost("blocked for requests in completing calls", blocked, e.spent("wait", "test"))
	if e.Trace != nil {
		atMost("waiting for late senders in receiving calls", e.Trace.LateSenderNS, e.spent("recv", "wait", "test"))
		atMost("waiting for late receivers in sending calls", e.Trace.LateReceiverNS, e.spent("send"))
	}
	for _, r := range e.Reuse {
		if r.Reused > r.Accesses || r.Buffers+r.Reused < r.Accesses {
			out = append(out, fmt.Errorf("%s: %d of %d accesses to %d buffers are uses again", r.Path, r.Reused, r.Accesses, r.Buffers))
		}
	}
	return out
}

// contradictions is what in the advice cannot be.
func (a *advised) contradictions() []error {
	var out []error
	total := 0.0
	for _, r := range a.Recommendations {
		total += r.SavedSeconds.Expected
		if s := r.SavedSeconds; s.Low > s.Expected || s.Expected > s.High || s.High > a.MPISeconds {
			out = append(out, fmt.Errorf("%s at %s would save %+v of %v s", r.Technique, r.Place, s, a.MPISeconds))
		}
	}
	if total > a.MPISeconds {
		out = append(out, fmt.Errorf("%v s could be saved of %v s", total, a.MPISeconds))
	}
	if strings.HasPrefix(a.Verdict, "Nothing to gain") != (len(a.Recommendations) == 0) {
		out = append(out, fmt.Errorf("%d recommendations: %s", len(a.Recommendations), a.Verdict))
	}
	return out
}
