package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Views lists what View.By may be.
func Views() []string {
	return []string{"call", "site", "peer", "comm", "type", "rank", "phase", "arrival", "reuse", "overlap"}
}

// table makes the table of a view.
func (r *Report) table(by string) (*table, error) {
	switch by {
	case "call":
		return r.callTable(r.Functions), nil
	case "site":
		return r.siteTable(r.Sites), nil
	case "peer":
		if r.restricted {
			return r.rankPeerTable(), nil
		}
		return r.peerTable(r.Pairs), nil
	case "comm":
		return r.commTable(), nil
	case "type":
		return r.typeTable(), nil
	case "rank":
		return r.rankTable(), nil
	case "phase":
		return r.phaseTable(), nil
	case "arrival":
		return r.arrivalTable(r.Arrivals), nil
	case "reuse":
		return r.reuseTable(), nil
	case "overlap":
		return r.overlapTable(started(r.Overlap)), nil
	}
	return nil, fmt.Errorf("--by %s: choose one of %s", by, strings.Join(Views(), ", "))
}

// wallNS is the wall time of all ranks together.
func (r *Report) wallNS() uint64 {
	var sum uint64
	for _, rank := range r.Ranks {
		sum += rank.WallNS
	}
	return sum
}

// shareOf is a share of the wall time; there is none of MPI_Init and
// MPI_Finalize, which lie outside it.
func shareOf(ns, wall uint64, setup bool) any {
	if setup {
		return ""
	}
	return ratio(ns, wall)
}

// mean is a/b, 0 if b is 0.
func mean(a, b uint64) uint64 {
	if b == 0 {
		return 0
	}
	return a / b
}

func (r *Report) callTable(functions []*Function) *table {
	t := &table{title: "Functions", order: map[string]int{"name": 0, "calls": 1, "time": 2, "bytes": 7}, empty: "no calls were counted", spare: []string{"longest", "mean", "by rank"},
		columns: []column{{"function", "function", unitText, false}, {"calls", "calls", unitCount, false}, {"time", "time_ns", unitNS, false},
			{"of run", "share", unitShare, false}, {"by rank", "", unitSpark, false}, {"mean", "mean_ns", unitNS, false}, {"longest", "max_ns", unitNS, false},
			{"bytes", "bytes", unitBytes, false}, {"", "min_rank_ns", unitNS, false}, {"", "max_rank_ns", unitNS, false},
			{"", "max_rank", unitRank, false}, {"", "errors", unitCount, false}, {"", "ranks", unitCount, false}}}
	wall := r.wallNS()
	for _, f := range functions {
		share := shareOf(f.TimeNS, wall, f.setup)
		if f.Estimated && f.TimeNS > 0 {
			t.note = "time of the quickest functions, such as " + f.Name + ", is estimated from one call in 16"
		}
		t.rows = append(t.rows, []any{f.Name, f.Calls, f.TimeNS, share, r.groupMeans(&f.Spread), mean(f.TimeNS, f.Calls), f.MaxNS, f.Bytes,
			f.Spread.MinNS, f.Spread.MaxNS, f.Spread.MaxRank, f.Errors, uint64(f.Spread.Ranks)})
	}
	return t
}

func (r *Report) siteTable(sites []*Site) *table {
	t := &table{title: "Call sites", order: map[string]int{"name": 0, "calls": 3, "time": 4, "bytes": 8}, empty: "no calls were counted", spare: []string{"by rank", "in"},
		columns: []column{{"function", "function", unitText, false}, {"place", "place", unitText, true}, {"in", "symbol", unitText, true},
			{"calls", "calls", unitCount, false}, {"time", "time_ns", unitNS, false}, {"of run", "share", unitShare, false}, {"by rank", "", unitSpark, false},
			{"", "max_ns", unitNS, false}, {"bytes", "bytes", unitBytes, false}, {"", "file", unitText, false}, {"", "line", unitRank, false},
			{"", "module", unitText, false}, {"", "offset", unitText, false}, {"", "phase", unitRank, false}, {"", "ranks", unitCount, false},
			{"", "max_rank", unitRank, false}, {"", "max_rank_ns", unitNS, false}}}
	wall := r.wallNS()
	for _, s := range sites {
		share := shareOf(s.TimeNS, wall, setup(s.key.call))
		symbol := r.symbol(s)
		if len(r.Phases) > 1 && s.Phase > 0 {
			symbol += " [" + r.phaseName(s.Phase) + "]"
		}
		t.rows = append(t.rows, []any{s.Function.Name, r.location(s), symbol, s.Calls, s.TimeNS, share, r.groupMeans(&s.Spread), s.MaxNS, s.Bytes,
			s.File, s.Line, s.Module, fmt.Sprintf("%#x", s.Offset), s.Phase, uint64(s.Spread.Ranks), s.Spread.MaxRank, s.Spread.MaxNS})
	}
	return t
}

// peerName names a rank or the special rows of the peer table.
func peerName(rank int) string {
	switch rank {
	case -1:
		return "others"
	case -2:
		return "outside"
	case -3:
		return "unknown"
	}
	return strconv.Itoa(rank)
}

func (r *Report) peerTable(pairs []Pair) *table {
	t := &table{title: "Heaviest pairs", order: map[string]int{"calls": 2, "bytes": 3}, empty: "no point-to-point messages",
		columns: []column{{"from rank", "from", unitRank, false}, {"to rank", "to", unitRank, false}, {"messages", "messages", unitCount, false},
			{"bytes", "bytes", unitBytes, false}, {"", "", unitBar, false}, {"mean size", "mean_bytes", unitBytes, false}, {"", "world", unitText, true}}}
	top := uint64(0)
	for _, p := range pairs {
		top = max(top, p.Bytes)
	}
	for _, p := range pairs {
		t.rows = append(t.rows, []any{p.From, peerName(p.To), p.Messages, p.Bytes, ratio(p.Bytes, top), mean(p.Bytes, p.Messages), p.World})
	}
	return t
}

// rankPeerTable is both directions, for the ranks that the user asked for.
func (r *Report) rankPeerTable() *table {
	t := &table{title: "Peers", order: map[string]int{"name": 0, "calls": 2, "bytes": 3}, empty: "no point-to-point messages",
		columns: []column{{"rank", "rank", unitRank, false}, {"peer", "peer", unitRank, false}, {"sent messages", "sent_messages", unitCount, false},
			{"sent", "sent_bytes", unitBytes, false}, {"received messages", "received_messages", unitCount, false}, {"received", "received_bytes", unitBytes, false}}}
	for _, rank := range r.Ranks {
		for _, p := range rank.Peers {
			t.rows = append(t.rows, []any{rank.Rank, peerName(int(p.Rank)), p.SentMessages, p.SentBytes, p.ReceivedMessages, p.ReceivedBytes})
		}
	}
	return t
}

// groupMeans is the mean time of the ranks in each group.
func (r *Report) groupMeans(s *Spread) []float64 {
	var out []float64
	for i, ranks := range r.groupRanks {
		if ranks > 0 {
			out = append(out, float64(s.groups[i])/float64(ranks))
		}
	}
	return out
}

func (r *Report) commTable() *table {
	t := &table{title: "Communicators", order: map[string]int{"name": 0, "calls": 3, "time": 5, "bytes": 8}, empty: "no communicators were seen", spare: []string{"collective"},
		columns: []column{{"communicator", "name", unitText, true}, {"size", "size", unitRank, false}, {"made by", "created_by", unitText, true},
			{"calls", "calls", unitCount, false}, {"collective", "collectives", unitCount, false}, {"time", "time_ns", unitNS, false},
			{"sent", "sent_bytes", unitBytes, false}, {"received", "received_bytes", unitBytes, false}, {"", "bytes", unitBytes, false},
			{"", "id", unitText, false}, {"", "members", unitRank, false}}}
	for _, c := range r.Comms {
		t.rows = append(t.rows, []any{c.Name, c.Size, c.CreatedBy, c.Calls, c.Collectives, c.TimeNS, c.SentBytes, c.ReceivedBytes,
			c.SentBytes + c.ReceivedBytes, c.ID, c.Members})
	}
	return t
}

func (r *Report) typeTable() *table {
	t := &table{title: "Datatypes", order: map[string]int{"name": 0, "calls": 4, "time": 5, "bytes": 8}, empty: "no datatypes were seen", spare: []string{"instances"},
		columns: []column{{"datatype", "name", unitText, true}, {"bytes each", "size", unitText, false}, {"made by", "created_by", unitText, true},
			{"instances", "instances", unitCount, false}, {"calls", "calls", unitCount, false}, {"time", "time_ns", unitNS, false},
			{"sent", "sent_bytes", unitBytes, false}, {"received", "received_bytes", unitBytes, false}, {"", "bytes", unitBytes, false}}}
	for _, d := range r.Types {
		t.rows = append(t.rows, []any{d.Name, strconv.FormatInt(d.Size, 10), d.CreatedBy, d.Instances, d.Calls, d.TimeNS, d.SentBytes, d.ReceivedBytes,
			d.SentBytes + d.ReceivedBytes})
	}
	return t
}

func (r *Report) rankTable() *table {
	t := &table{title: "Ranks", order: map[string]int{"name": 0, "calls": 8, "time": 4, "bytes": 9}, empty: "no ranks", spare: []string{"memory", "bytes"},
		columns: []column{{"rank", "rank", unitRank, false}, {"node", "node", unitText, true}, {"state", "state", unitText, false},
			{"wall", "wall_ns", unitNS, false}, {"in MPI", "mpi_ns", unitNS, false}, {"of run", "mpi_share", unitShare, false}, {"", "", unitBar, false},
			{"in call", "current", unitText, true}, {"calls", "calls", unitCount, false}, {"bytes", "bytes", unitBytes, false},
			{"memory", "memory_high_bytes", unitBytes, false}, {"", "pid", unitRank, false}, {"", "own_cost_ns", unitNS, false}, {"", "world", unitText, false}}}
	stuck := slices.ContainsFunc(r.Ranks, func(rank *Rank) bool { return len(rank.Current) > 0 })
	if !stuck {
		t.columns[7].head = ""
	}
	for _, rank := range r.Ranks {
		current := ""
		if len(rank.Current) > 0 {
			current = rank.Current[0].Name
		}
		t.rows = append(t.rows, []any{rank.Rank, rank.Node, rank.State, rank.WallNS, rank.MPINS, rank.Share, rank.Share, current, rank.Calls, rank.Bytes,
			rank.MemoryHigh, int(rank.PID), rank.OwnCostNS, rank.World})
	}
	return t
}

// phaseName names an entry of Phases.
func (r *Report) phaseName(index int) string {
	if index < 0 || index >= len(r.Phases) {
		return ""
	}
	p := r.Phases[index]
	if p.Level == 0 {
		return cmp.Or(p.Name, "outside any phase")
	}
	return cmp.Or(p.Name, "phase "+strconv.Itoa(int(p.Level)))
}

func (r *Report) phaseTable() *table {
	t := &table{title: "Phases", order: map[string]int{"name": 0, "calls": 6, "time": 2, "bytes": 7},
		empty: "no phases: the program may begin one with MPI_Pcontrol(level), level 3 or more",
		columns: []column{{"phase", "name", unitText, true}, {"entered", "entered", unitCount, false}, {"time", "time_ns", unitNS, false},
			{"in MPI", "mpi_ns", unitNS, false}, {"of it", "share", unitShare, false}, {"", "", unitBar, false}, {"calls", "calls", unitCount, false},
			{"bytes", "bytes", unitBytes, false}, {"", "level", unitRank, false}, {"", "ranks", unitRank, false}}}
	for i, p := range r.Phases {
		share := ratio(p.MPINS, p.TimeNS)
		t.rows = append(t.rows, []any{r.phaseName(i), p.Entered, p.TimeNS, p.MPINS, share, share, p.Calls, p.Bytes, int(p.Level), p.Ranks})
	}
	return t
}
