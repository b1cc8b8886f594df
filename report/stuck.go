package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/mpitrace/mpitrace/segment"
)

// hungNS is how long a living job may make no call before it is called hung, and
// a call may wait for its peer before that is part of a deadlock.
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
			if rank, ok := g.comm.worldRank(peer); ok && !slices.Contains(wanted, rank) && len(wanted) < missingKept {
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

// worldRank translates a rank of the communicator.
func (c *Comm) worldRank(peer int32) (int, bool) {
	if peer < 0 {
		return 0, false
	}
	if c.Kind == "world" {
		return int(peer), true
	}
	if c.RemoteSize > 0 {
		return 0, false // the peer is a rank of the other group
	}
	if c.ranks == nil {
		c.ranks = map[int32]int32{}
		for _, m := range c.members {
			c.ranks[m.commRank] = m.rank
		}
	}
	rank, ok := c.ranks[peer]
	return int(rank), ok
}

// rankOf is the row of a rank, nil if it has none.
func (b *builder) rankOf(world, rank int) *Rank {
	i, ok := slices.BinarySearchFunc(b.report.Ranks, rank, func(r *Rank, want int) int {
		return cmp.Or(cmp.Compare(r.world, world), cmp.Compare(r.Rank, want))
	})
	if !ok {
		return nil
	}
	return b.report.Ranks[i]
}

// outside begins what is said of a rank that is in no call: it is the first to
// look at.
const outside = "outside MPI"

// whereIs says what is known of a rank that others wait for.
func (b *builder) whereIs(world, rank int) string {
	r := b.rankOf(world, rank)
	switch {
	case r == nil && b.report.restricted:
		return "not looked at (--rank)"
	case r == nil:
		return "no data: it did not begin MPI, ran without mpitrace, or its node is lost"
	}
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
	waits := map[*Rank]*Rank{}
	for _, r := range b.report.Ranks {
		for i := range r.Current {
			if peer := b.awaited(r, &r.Current[i]); peer != nil {
				waits[r] = peer
			}
		}
	}
	for _, start := range b.report.Ranks {
		ring := []string{strconv.Itoa(start.Rank)}
		for at := waits[start]; at != nil && len(ring) <= 16; at = waits[at] {
			ring = append(ring, strconv.Itoa(at.Rank))
			if at == start {
				return deadlock + " each of these ranks waits for the next: " + strings.Join(ring, " → ")
			}
		}
	}
	return ""
}

// awaited is the rank that a call of r waits for, and has waited for so long that
// this is no message on its way; nil if there is none. A rank that is in the call
// at the other end of the message is not waited for: the message will come.
func (b *builder) awaited(r *Rank, c *Current) *Rank {
	if c.comm == nil || c.SinceNS < hungNS || !needsPeer(c.call) {
		return nil
	}
	rank, ok := c.comm.worldRank(c.Peer)
	if !ok || rank == r.Rank {
		return nil
	}
	peer := b.rankOf(r.world, rank)
	if peer == nil {
		return nil
	}
	for i := range peer.Current {
		if other := &peer.Current[i]; c.matches(other) {
			if back, ok := other.comm.worldRank(other.Peer); ok && back == r.Rank {
				return nil
			}
		}
	}
	return peer
}

// needsPeer tells whether a call cannot return without its peer. One that tests
// can. Calls on several requests have a peer only where they wait for one of them.
func needsPeer(call uint32) bool {
	switch segment.Call(call).Class() {
	case "send", "recv", "sendrecv", "probe", "mprobe", "wait", "waitall", "waitany", "waitsome":
		return true
	}
	return false
}

// matches tells whether a call that sends and one that receives or probes, in
// either order, are of one communicator and tag. MPI_Sendrecv is both, of which
// one may have ended.
func (c *Current) matches(other *Current) bool {
	send, receive := c, other
	if segment.Call(send.call).Class() != "send" {
		send, receive = other, c
	}
	if segment.Call(send.call).Class() != "send" {
		return false
	}
	switch segment.Call(receive.call).Class() {
	case "recv", "probe", "mprobe":
		return send.comm == receive.comm && (receive.Tag < 0 || receive.Tag == send.Tag)
	}
	return false
}
