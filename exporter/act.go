package exporter

import (
	"slices"

	"github.com/mpitrace/mpitrace/segment"
)

// protocols are the values of the label protocol, and their counts; eager has those of
// reuse in it.
var protocols = [...]struct {
	name            string
	messages, bytes int
}{
	{"eager", segment.ActEagerMessages, segment.ActEagerBytes},
	{"reuse", segment.ActZeroCopyMessages, segment.ActZeroCopyBytes},
	{"read", segment.ActReadMessages, segment.ActReadBytes},
	{"written", segment.ActWrittenMessages, segment.ActWrittenBytes},
	{"fragments", segment.ActFragmentMessages, segment.ActFragmentBytes},
}

// outcomes are the values of the label outcome, and their counts.
var outcomes = [...]struct {
	name  string
	count int
}{
	{"used", segment.ActRtrUsed},
	{"crossed", segment.ActRtrCrossed},
	{"mispredicted", segment.ActRtrMispredicted},
	{"revoked", segment.ActRtrRevoked},
}

// tried and decided are the values of the labels tried and decision.
var (
	tried   = [...]string{"write", "receiver", "reuse"}
	decided = [...]string{"trying", "kept", "retreated"}
)

func (p *Process) addDecisions(decisions []segment.RawActDecision) {
	for i := range decisions {
		d := &decisions[i]
		what, state := slices.Index(tried[:], segment.Text(d.Newcomer[:])), slices.Index(decided[:], segment.Text(d.State[:]))
		if what >= 0 && state >= 0 {
			p.Decisions[what][state]++
		}
	}
}

// actCollector: what jobs in act mode carry themselves. All series of such a job
// are shown: a wrong message must not be missed because its series is new.
type actCollector struct{}

func (actCollector) Update(p *Page, out *sink) {
	for i := range p.Jobs {
		j := &p.Jobs[i]
		toAct, acts, pinned, regions := false, 0, uint64(0), uint64(0)
		var decisions [len(tried)][len(decided)]uint64
		for r := range j.Ranks {
			rank := &j.Ranks[r]
			toAct = toAct || rank.ToAct
			if rank.Acts {
				acts++
			}
			for what := range tried {
				for state := range decided {
					decisions[what][state] += rank.Decisions[what][state]
				}
			}
			if rank.State == StateRunning {
				grow(&pinned, rank.PinnedBytes)
				grow(&regions, rank.PinnedRegions)
			}
		}
		if toAct {
			out.job(jobActRanks, j, float64(acts))
			out.job(jobActPinnedBytes, j, float64(pinned))
			out.job(jobActPinnedRegions, j, float64(regions))
			for what := range tried {
				for state := range decided {
					out.job(jobActDecisions, j, float64(decisions[what][state]), tried[what], decided[state])
				}
			}
			out.carried(j)
		}
	}
}

// carried are the counts of a job in act mode.
func (s *sink) carried(j *Job) {
	c := &j.Total.Act
	sum := func(m metric, counts ...int) {
		total := 0.0
		for _, i := range counts {
			total += float64(c[i])
		}
		s.job(m, j, total)
	}
	sum(jobActMessages, segment.ActEagerMessages, segment.ActRendezvousMessages)
	sum(jobActBytes, segment.ActEagerBytes, segment.ActRendezvousBytes)
	for _, way := range protocols {
		messages, bytes := c[way.messages], c[way.bytes]
		if way.name == "eager" {
			messages -= min(messages, c[segment.ActZeroCopyMessages])
			bytes -= min(bytes, c[segment.ActZeroCopyBytes])
		}
		s.job(jobActProtocolMessages, j, float64(messages), way.name)
		s.job(jobActProtocolBytes, j, float64(bytes), way.name)
	}
	for _, o := range outcomes {
		s.job(jobActAskedReceives, j, float64(c[o.count]), o.name)
	}
	s.job(jobActLeftMessages, j, float64(c[segment.ActMessagesOfCommunicators]), "communicator")
	s.job(jobActLeftMessages, j, float64(c[segment.ActMessagesByArguments]), "arguments")
	sum(jobActLeftBytes, segment.ActBytesOfCommunicators)
	sum(jobActUnexpectedMessages, segment.ActUnexpectedMessages)
	sum(jobActCopiedBytes, segment.ActCopiedBytes)
	sum(jobActCreditStalls, segment.ActCreditStalls)
	sum(jobActFallBacks, segment.ActFallBacks)
	sum(jobActVerifiedMessages, segment.ActVerifiedMessages)
	sum(jobActWrongMessages, segment.ActWrongMessages)
	sum(jobActQuarantinedPaths, segment.ActQuarantinedPaths)
	sum(jobActCacheHits, segment.ActCacheHits)
	sum(jobActCacheMisses, segment.ActCacheMisses)
	sum(jobActCacheRegistrations, segment.ActCacheRegistrations)
	sum(jobActCacheEvictions, segment.ActCacheEvictions)
	sum(jobActCacheInvalidations, segment.ActCacheInvalidations)
	sum(jobActCacheRefused, segment.ActCacheRefused)
}
