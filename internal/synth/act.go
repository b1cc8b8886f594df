package synth

import "github.com/mpitrace/mpitrace/segment"

// Act is the sections of a process that carries messages itself.
func Act(a segment.Act) []Section {
	raw := segment.RawAct{State: a.State}
	if a.Torn {
		raw.Sequence = 1
	}
	copy(raw.Policy[:], a.Policy)
	copy(raw.Reason[:], a.Reason)
	out := []Section{NewSection(segment.SectionKindAct, 0, raw)}
	if a.Counted {
		out = append(out, NewSection(segment.SectionKindActCounts, 0, a.Counts.Rows()...), NewSection(segment.SectionKindActDecisions, 0, a.Decisions...))
	}
	return out
}

// Decision is a row of a job that has tried writing messages against reading
// them, and keeps it or not.
func Decision(from, messages, bytes uint64, kept bool) segment.RawActDecision {
	d := segment.RawActDecision{From: from, To: 2 * from, Change: 0.01, JudgedPairs: 64, Pairs: 64, Messages: messages, NewcomerMessages: messages / 2, Bytes: bytes}
	chosen, other, state, reason := "read", "write", "retreated", "no-gain"
	if kept {
		chosen, other, state, reason, d.Change = "write", "read", "kept", "faster", -0.25
	}
	copy(d.Communicator[:], "MPI_COMM_WORLD")
	copy(d.Chosen[:], chosen)
	copy(d.RunnerUp[:], other)
	copy(d.Newcomer[:], "write")
	copy(d.State[:], state)
	copy(d.Reason[:], reason)
	return d
}
