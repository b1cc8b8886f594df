package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/mpitrace/mpitrace/segment"
)

// hungNS is how long a living job may make no call before it is called hung.
const hungNS = 10_000_000_000

// missingKept bounds the list of ranks that others wait for.
const missingKept = 64

// findStuck groups the calls in progress and finds out who is waited for.
func (b *builder) findStuck() {
	type key struct {
		world int
		site  siteKey
		comm  *Comm
	}
	groups := map[key]*Stuck{}
	b.waiting = map[waitKey]map[int]bool{}
	for _, r := range b.report.Ranks {
		for i := range r.Current {
			c := &r.Current[i]
			if !r.alive && c.at > 0 && b.endNS > c.at {
				c.SinceNS = uint64(b.endNS - c.at)
			}
			k := key{r.world, c.Site.key, c.comm}
			g := groups[k]
			if g == nil {
				g = &Stuck{Name: c.Name, Site: c.Site, Comm: c.Comm, World: r.World, Entered: c.Entered,
					Missing: []Missing{}, comm: c.comm, call: c.call, world: r.world, at: c.at}
				groups[k] = g
			}
			wait := waitKey{r.world, c.comm, c.call}
			if b.waiting[wait] == nil {
				b.waiting[wait] = map[int]bool{}
			}
			b.waiting[wait][r.Rank] = true
			g.Ranks = append(g.Ranks, r.Rank)
			g.Peers = append(g.Peers, c.Peer)
			g.Tags = append(g.Tags, c.Tag)
			g.SinceNS = max(g.SinceNS, c.SinceNS)
			g.at = min(g.at, c.at)
			if c.Entered != "" && (g.Entered == "" || c.Entered < g.Entered) {
				g.Entered = c.Entered
			}
		}
	}
	for _, g := range groups {
		b.findMissing(g)
		b.report.Stuck = append(b.report.Stuck, *g)
	}
	// By entry, not by SinceNS: living ranks are read one after the other, so the
	// time until now differs from reading to reading by more than entries do.
	sortBy(b.report.Stuck, func(x, y Stuck) int {
		return cmp.Or(cmp.Compare(x.at, y.at), -cmp.Compare(len(x.Ranks), len(y.Ranks)), slices.Compare(x.Ranks, y.Ranks),
			strings.Compare(x.Name, y.Name), cmp.Compare(x.Site.Offset, y.Site.Offset))
	})
}

// waitKey is one call of one communicator, wherever it is made.
type waitKey struct {
	world int
	comm  *Comm
	call  uint32
}

// collective tells whether all members of the communicator must make the call.
func collective(call uint32) bool {
	switch segment.Call(call).Class() {
	case "coll", "comm_new", "comm_free", "win_new", "win_free":
		return true
	}
	return false
}

// findMissing finds the ranks that a group waits for: the other members of
// the communicator of a collective call, or the peers of a message.
func (b *builder) findMissing(g *Stuck) {
	if g.comm == nil {
		return
	}
	var wanted []int
	switch {
	case collective(g.call):
		here := b.waiting[waitKey{g.world, g.comm, g.call}]
		for _, rank := range b.membersOf(g) {
			if !here[rank] {
				wanted = append(wanted, rank)
			}
		}
	default:
		for _, peer := range g.Peers {
			if rank, ok := b.worldRank(g, peer); ok && !slices.Contains(wanted, rank) && len(wanted) < missingKept {
				wanted = append(wanted, rank)
			}
		}
	}
	slices.Sort(wanted)
	for _, rank := range wanted[:min(len(wanted), missingKept)] {
		g.Missing = append(g.Missing, Missing{rank, b.whereIs(g.world, rank)})
	}
	if rest := len(wanted) - missingKept; rest > 0 {
		g.Missing = append(g.Missing, Missing{wanted[missingKept], fmt.Sprintf("and %d more", rest-1)})
	}
}

// membersOf is the world ranks of the group's communicator: all of the world,
// or those that have shown themselves as members.
func (b *builder) membersOf(g *Stuck) []int {
	var out []int
	if g.comm.Kind == "world" || g.comm.Size == b.worldSize[g.world] {
		for rank := range min(b.worldSize[g.world], maxWorld) {
			out = append(out, rank)
		}
		return out
	}
	for _, m := range g.comm.members {
		out = append(out, int(m.rank))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// maxWorld bounds what is believed of the size of a world.
const maxWorld = 1 << 20

// worldRank translates a rank of the group's communicator.
func (b *builder) worldRank(g *Stuck, peer int32) (int, bool) {
	if peer < 0 {
		return 0, false
	}
	if g.comm.Kind == "world" {
		return int(peer), true
	}
	if g.comm.RemoteSize > 0 {
		return 0, false // the peer is a rank of the other group
	}
	if g.comm.ranks == nil {
		g.comm.ranks = map[int32]int32{}
		for _, m := range g.comm.members {
			g.comm.ranks[m.commRank] = m.rank
		}
	}
	rank, ok := g.comm.ranks[peer]
	return int(rank), ok
}

// outside begins what is said of a rank that is in no call: it is the first to
// look at.
const outside = "outside MPI"

// whereIs says what is known of a rank that others wait for.
func (b *builder) whereIs(world, rank int) string {
	i, ok := slices.BinarySearchFunc(b.report.Ranks, rank, func(r *Rank, want int) int {
		return cmp.Or(cmp.Compare(r.world, world), cmp.Compare(r.Rank, want))
	})
	if !ok {
		if b.report.restricted {
			return "not looked at (--rank)"
		}
		return "no data: it did not begin MPI, ran without mpitrace, or its node is lost"
	}
	r := b.report.Ranks[i]
	switch r.State {
	case StateFinished:
		return "has left MPI"
	case StateAborted:
		return fmt.Sprintf("called MPI_Abort(%d)", r.AbortCode)
	case StateExited:
		return "left by exit() without MPI_Finalize"
	}
	if len(r.Current) > 0 {
		c := &r.Current[0]
		text := "in " + c.Name + " at " + b.report.place(c.Site)
		if c.Peer >= 0 {
			text += " with peer " + strconv.Itoa(int(c.Peer))
		}
		return text
	}
	if r.State == StateRunning {
		return outside + ", no call for " + duration(r.idleNS)
	}
	return outside + " when it ended"
}

// deadlock begins the finding that ranks wait for each other.
const deadlock = "deadlock:"

// findCycle looks for ranks that wait for each other's messages in a ring and
// describes the first it finds.
func (b *builder) findCycle() string {
	type node struct{ world, rank int }
	waits := map[node]node{}
	for i := range b.report.Stuck {
		g := &b.report.Stuck[i]
		if g.comm == nil || collective(g.call) {
			continue
		}
		for j, rank := range g.Ranks {
			if target, ok := b.worldRank(g, g.Peers[j]); ok && target != rank {
				waits[node{g.world, rank}] = node{g.world, target}
			}
		}
	}
	for _, r := range b.report.Ranks {
		start := node{r.world, r.Rank}
		ring := []string{strconv.Itoa(r.Rank)}
		for at, ok := waits[start]; ok && len(ring) <= 16; at, ok = waits[at] {
			ring = append(ring, strconv.Itoa(at.rank))
			if at == start {
				return deadlock + " each of these ranks waits for the next: " + strings.Join(ring, " → ")
			}
		}
	}
	return ""
}
