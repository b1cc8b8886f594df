package report

import (
	"fmt"
	"slices"

	"github.com/mpitrace/mpitrace/segment"
)

// clean makes text from files safe to print.
func clean(text string) string { return segment.CleanText(text) }

// findings says in sentences what a reader should know, most important first.
func (b *builder) findings() []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	r := b.report
	if r.Job.State != StateFinished {
		if cycle := b.findCycle(); cycle != "" {
			out = append(out, cycle)
		}
	}
	out = append(out, b.wrongMessages()...)
	out = append(out, b.endings()...)
	for world := range r.Job.Worlds {
		if missing := b.missingOf(world); len(missing) > 0 {
			where := ""
			if len(r.Job.Worlds) > 1 {
				where = " of " + r.worldName(world)
			}
			add("no data of %s%s: killed before MPI_Init returned, run without the library, or on a node whose file is not here", ranksText(missing), where)
		}
	}
	if n := len(r.Job.Worlds); n > 1 {
		add("the job holds %d separate MPI_COMM_WORLDs (several programs, singletons or spawned processes); sums are over all of them", n)
	}
	out = append(out, b.crowded()...)
	out = append(out, b.balance()...)
	out = append(out, b.measuredFindings()...)
	out = append(out, b.conservation()...)
	return append(out, b.noteFindings()...)
}

// wrongMessages says that verification found messages which are not what was sent.
func (b *builder) wrongMessages() []string {
	a := b.report.Act
	if a == nil || len(a.wrong) == 0 {
		return nil
	}
	by := slices.DeleteFunc(slices.Clone(b.report.Ranks), func(r *Rank) bool { return !a.wrong[actKey(r.World, r.Rank)] })
	return []string{fmt.Sprintf("%s of %s verified were not what was sent, received by %s: the program changes buffers while they are being sent, or the way there damages data; each rank named its first one on stderr",
		countText(a.Counts[segment.ActWrongMessages]), plural(int(min(a.Counts[segment.ActVerifiedMessages], 1<<62)), "message"), b.names(by))}
}

// endings names the ranks that did not come to MPI_Finalize.
func (b *builder) endings() []string {
	by := map[string][]*Rank{}
	var out []string
	for _, r := range b.report.Ranks {
		if r.State == StateAborted {
			if len(by[StateAborted]) < 3 {
				out = append(out, fmt.Sprintf("%s called MPI_Abort(%d)", b.names([]*Rank{r}), r.AbortCode))
			}
		}
		by[r.State] = append(by[r.State], r)
	}
	if n := len(by[StateAborted]); n > 3 {
		out = append(out, fmt.Sprintf("%d ranks in all called MPI_Abort: %s", n, b.names(by[StateAborted])))
	}
	if died := by[StateDied]; len(died) > 0 {
		out = append(out, fmt.Sprintf("incomplete: %s ended without MPI_Finalize and without exit() (a signal, a crash, or MPI_Abort of another rank)", b.names(died)))
	}
	if exited := by[StateExited]; len(exited) > 0 {
		out = append(out, fmt.Sprintf("incomplete: %s left by exit() without MPI_Finalize", b.names(exited)))
	}
	return out
}

// crowded says that ranks share processors, as far as that is known: of the
// node that the job was launched on, if it had no other.
func (b *builder) crowded() []string {
	job, n := &b.report.Job, atOnce(b.report.Ranks)
	if len(job.Nodes) != 1 || job.Nodes[0] != clean(b.launchHost) || b.processors <= 0 || n <= b.processors {
		return nil
	}
	return []string{fmt.Sprintf("%d ranks share the %s of %s: they take turns, and what looks like waiting for a rank or a message may be waiting for a processor",
		n, plural(b.processors, "processor"), job.Nodes[0])}
}

// atOnce is how many of the ranks there were at the same time: a script may
// start one program after the other.
func atOnce(ranks []*Rank) int {
	starts, ends := make([]int64, len(ranks)), make([]int64, len(ranks))
	for i, r := range ranks {
		starts[i], ends[i] = r.startNS, r.endNS
	}
	slices.Sort(starts)
	slices.Sort(ends)
	most, ended := 0, 0
	for i, start := range starts {
		for ends[ended] < start {
			ended++
		}
		most = max(most, i+1-ended)
	}
	return most
}

// balance says who waits and who is waited for, if they differ much.
func (b *builder) balance() []string {
	world, share := b.report.uneven()
	if b.report.Job.State == StateHung || share.Max < 0.1 || share.Max-share.Min < 0.15 {
		return nil
	}
	where := ""
	if len(b.report.Job.Worlds) > 1 {
		where = " of " + b.report.worldName(world)
	}
	return []string{fmt.Sprintf("unbalanced: rank %d%s is in MPI for %s of its time, rank %d for %s: the ranks with little MPI time are the ones that the others wait for",
		share.MaxRank, where, percent(share.Max), share.MinRank, percent(share.Min))}
}

// conservation checks that what was sent has arrived.
func (b *builder) conservation() []string {
	job := &b.report.Job
	m := job.Messages
	if job.State != StateFinished || b.report.restricted || len(job.MissingRanks) > 0 || len(job.Worlds) > 1 ||
		m.SentBytes == m.ReceivedBytes && m.SentMessages == m.ReceivedMessages {
		return nil
	}
	return []string{fmt.Sprintf("%s in %s messages were sent and %s in %s received: the rest was cancelled, freed, never received, or came over paths that are not counted",
		bytesText(m.SentBytes), countText(m.SentMessages), bytesText(m.ReceivedBytes), countText(m.ReceivedMessages))}
}
