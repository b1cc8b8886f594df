package exporter

import "github.com/mpitrace/mpitrace/segment"

// protocols are the values of the label protocol, and their counts.
var protocols = [...]struct {
	name            string
	messages, bytes int
}{
	{"eager", segment.ActEagerMessages, segment.ActEagerBytes},
	{"read", segment.ActReadMessages, segment.ActReadBytes},
	{"written", segment.ActWrittenMessages, segment.ActWrittenBytes},
	{"fragments", segment.ActFragmentMessages, segment.ActFragmentBytes},
}

// actCollector: what jobs in act mode carry themselves. All series of such a job
// are shown: a wrong message must not be missed because its series is new.
type actCollector struct{}

func (actCollector) Update(p *Page, out *sink) {
	for i := range p.Jobs {
		j := &p.Jobs[i]
		toAct, acts, pinned, regions := false, 0, uint64(0), uint64(0)
		for r := range j.Ranks {
			rank := &j.Ranks[r]
			toAct = toAct || rank.ToAct
			if rank.Acts {
				acts++
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
		s.job(jobActProtocolMessages, j, float64(c[way.messages]), way.name)
		s.job(jobActProtocolBytes, j, float64(c[way.bytes]), way.name)
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
