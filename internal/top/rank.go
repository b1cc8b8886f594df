package top

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/mpitrace/mpitrace/report"
)

// rankPage is one rank in detail.
func (m *Model) rankPage(p painter) page {
	out := page{keys: keysPager}
	i := slices.IndexFunc(m.cur.Ranks, func(r Rank) bool { return r.ID == m.oneID })
	where := fmt.Sprintf("  process %d on %s", m.oneID.PID, m.oneID.Node)
	if m.cur.Job.Worlds > 1 {
		where += ", world " + m.oneID.World
	}
	out.head = append(m.titleLines(p), text(span{strong, fmt.Sprintf("rank %d", m.oneID.Rank)}, span{faint, where}))
	if i < 0 {
		out.setLines(p.wrap(notice, "", "This process is no longer among those of the job."))
		return out
	}
	v := m.view(i)
	out.head = append(out.head, text(span{stateStyle(v.state), v.state}, span{plain, fmt.Sprintf(" · MPI %s now, %s overall · %s calls/s · %s",
		shareText(v.rate.Share), shareText(v.share()), rateText(v.rate.Calls, ""), rateText(v.rate.Bytes, "B/s"))}))
	lines := m.inLines(v.Rank)
	if m.one == nil {
		lines = append(lines, words(faint, "reading ..."))
	} else {
		lines = append(lines, m.requestLines()...)
		lines = append(lines, m.functionLines(p)...)
		lines = append(lines, m.placeLines(p)...)
		lines = append(lines, m.peerLines()...)
	}
	out.setLines(lines)
	return out
}

// inLines is the calls in progress, by thread.
func (m *Model) inLines(r *Rank) []line {
	if len(r.In) == 0 {
		return []line{words(strong, "In progress: no call of MPI")}
	}
	lines := []line{words(strong, "In progress")}
	for i := range r.In {
		c := &r.In[i]
		call := c.Name
		if c.SinceNS > 0 {
			call += " for " + report.Duration(c.SinceNS)
		}
		call += " at " + c.Place
		if c.Comm != "" {
			call += ", " + c.Comm
		}
		if c.Peer >= 0 {
			call += ", peer " + strconv.Itoa(int(c.Peer))
		}
		if c.Tag >= 0 {
			call += ", tag " + strconv.Itoa(int(c.Tag))
		}
		if len(r.In) > 1 {
			call = fmt.Sprintf("thread %d: %s", c.Thread, call)
		}
		lines = append(lines, words(plain, "  %s", call))
	}
	return lines
}

func (m *Model) requestLines() []line {
	q := &m.one.Requests
	if q.Started == 0 {
		return nil
	}
	done := q.Completed + q.Freed + q.Cancelled
	open := uint64(0)
	if q.Started > done {
		open = q.Started - done
	}
	return []line{text(span{strong, "Requests"}, span{plain, fmt.Sprintf("  %s started, %s completed, %s open; %s freed, %s cancelled",
		report.Count(q.Started), report.Count(q.Completed), report.Count(open), report.Count(q.Freed), report.Count(q.Cancelled))})}
}

// oneSeconds is the seconds between the two readings of the rank, 0 if there is but
// one.
func (m *Model) oneSeconds() float64 {
	if m.prevOne == nil {
		return 0
	}
	return m.one.At.Sub(m.prevOne.At).Seconds()
}

func (m *Model) functionLines(p painter) []line {
	seconds := m.oneSeconds()
	before := map[string]report.RankFunction{}
	if m.prevOne != nil {
		for _, f := range m.prevOne.Functions {
			before[f.Name] = f
		}
	}
	lines := []line{words(strong, "%s", p.pad("Functions", 24, false)+"     calls  calls/s      time   now  longest    bytes")}
	for _, f := range m.one.Functions {
		old := before[f.Name]
		now := perSecond(old.TimeNS, f.TimeNS, seconds, 1e12)
		if now >= 0 {
			now = min(1, now/1e9)
		}
		lines = append(lines, words(plain, "  %s %9s %8s %9s %5s %8s %8s", p.pad(f.Name, 22, false), report.Count(f.Calls),
			rateText(perSecond(old.Calls, f.Calls, seconds, callsMax), ""), report.Duration(f.TimeNS), shareText(now), report.Duration(f.MaxNS), report.Bytes(f.Bytes)))
	}
	if len(m.one.Functions) == 0 {
		lines = append(lines, words(faint, "  none has returned yet"))
	}
	return lines
}

func (m *Model) placeLines(p painter) []line {
	if len(m.one.Places) == 0 {
		return nil
	}
	lines := []line{words(strong, "%s", p.pad("Places", 24, false)+"     calls      time  at")}
	for _, s := range m.one.Places {
		lines = append(lines, words(plain, "  %s %9s %9s  %s", p.pad(s.Name, 22, false), report.Count(s.Calls), report.Duration(s.TimeNS), s.Place))
	}
	return lines
}

func (m *Model) peerLines() []line {
	if len(m.one.Peers) == 0 {
		return nil
	}
	before := map[int32]report.RankPeer{}
	if m.prevOne != nil {
		for _, p := range m.prevOne.Peers {
			before[p.Rank] = p
		}
	}
	seconds := m.oneSeconds()
	lines := []line{words(strong, "Peers         messages     sent      B/s  messages received      B/s")}
	for _, p := range m.one.Peers {
		old := before[p.Rank]
		lines = append(lines, words(plain, "  %-10s %9s %8s %8s %9s %8s %8s", peerText(p.Rank), report.Count(p.SentMessages), report.Bytes(p.SentBytes),
			rateText(perSecond(old.SentBytes, p.SentBytes, seconds, bytesMax), ""), report.Count(p.ReceivedMessages), report.Bytes(p.ReceivedBytes),
			rateText(perSecond(old.ReceivedBytes, p.ReceivedBytes, seconds, bytesMax), "")))
	}
	return lines
}

// peerText names the peer of a row as report.RankPeer defines it.
func peerText(rank int32) string {
	switch rank {
	case -1:
		return "others"
	case -2:
		return "outside"
	case -3:
		return "unknown"
	}
	return "rank " + strconv.Itoa(int(rank))
}
