package otf2

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/mpitrace/mpitrace/report/timeline"
	"github.com/mpitrace/mpitrace/segment"
)

// definitions is what events refer to, in the order of their numbers.
type definitions struct {
	strings map[string]uint32
	texts   []string
	regions map[regionKey]uint32
	listed  []region
	byWorld map[string]*communicator // all ranks of a world, by world rank
	byComm  []*communicator          // by Comm.Index
	written []*communicator
	worldOf map[worldSeat]int32
	nodes   []string
	nodeOf  map[string]uint32
}

type worldSeat struct {
	world string
	rank  int32
}

// regionKey is a function at a place, or something of our own.
type regionKey struct {
	place *timeline.Place
	name  string
}

type region struct{ name, description, role, file, line uint32 }

func newDefinitions() *definitions {
	d := &definitions{strings: map[string]uint32{}, regions: map[regionKey]uint32{}, byWorld: map[string]*communicator{}, worldOf: map[worldSeat]int32{}, nodeOf: map[string]uint32{}}
	d.text("")
	return d
}

// text is the number of a text.
func (d *definitions) text(s string) uint32 {
	if len(s) > textMax {
		s = strings.ToValidUTF8(s[:textMax], "") + "…"
	}
	s = strings.ReplaceAll(s, "\x00", "?")
	n, ok := d.strings[s]
	if !ok {
		n = uint32(len(d.texts))
		d.texts = append(d.texts, s)
		d.strings[s] = n
	}
	return n
}

// Roles of regions, from OTF2_Definitions.h.
const (
	roleFunction    = 1
	roleArtificial  = 31
	roleBarrier     = 15
	roleOneToAll    = 23
	roleAllToOne    = 24
	roleAllToAll    = 25
	roleOther       = 26
	roleFile        = 27
	rolePointTo     = 28
	roleOneSided    = 29
	groupLocations  = 4
	groupCommunicat = 5
	groupSelf       = 6
)

// operations is the collective operations of OTF2 (OTF2_Events.h), and the
// role of their regions.
var operations = map[string]struct{ op, role uint32 }{
	"barrier": {0, roleBarrier}, "bcast": {1, roleOneToAll}, "gather": {2, roleAllToOne}, "gatherv": {3, roleAllToOne},
	"scatter": {4, roleOneToAll}, "scatterv": {5, roleOneToAll}, "allgather": {6, roleAllToAll}, "allgatherv": {7, roleAllToAll},
	"alltoall": {8, roleAllToAll}, "alltoallv": {9, roleAllToAll}, "alltoallw": {10, roleAllToAll}, "allreduce": {11, roleAllToAll},
	"reduce": {12, roleAllToOne}, "reduce_scatter": {13, roleAllToAll}, "scan": {14, roleOther}, "exscan": {15, roleOther},
	"reduce_scatter_block": {16, roleAllToAll},
}

// baseName is a function without its prefix and large-count suffix, in small
// letters.
func baseName(call segment.Call) string {
	return strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(call.String(), "MPI_"), "_c"))
}

// collective is the operation of a blocking collective call on a communicator
// that is known. (Of others OTF2 has no operation, or the trace no end.)
func collective(c *timeline.Call) (op uint32, ok bool) {
	if c.Call.Class() != "coll" || c.Comm == nil || c.Open {
		return 0, false
	}
	known, ok := operations[baseName(c.Call)]
	return known.op, ok
}

func roleOf(call segment.Call) uint32 {
	class := call.Class()
	switch known, ok := operations[baseName(call)]; {
	case ok:
		return known.role
	case strings.Contains(class, "coll"):
		return roleOther
	case strings.Contains(class, "send"), strings.Contains(class, "recv"), strings.HasPrefix(class, "wait"), strings.HasPrefix(class, "test"):
		return rolePointTo
	case strings.HasPrefix(class, "rma"):
		return roleOneSided
	case strings.HasPrefix(class, "file"):
		return roleFile
	}
	return roleFunction
}

// region is the region of a call: the function at its place.
func (d *definitions) region(c *timeline.Call) uint32 {
	if c.Place == nil {
		return d.own(c.Name)
	}
	key := regionKey{place: c.Place}
	n, ok := d.regions[key]
	if !ok {
		site := c.Place.Site
		file := site.File
		if file == "" {
			file = site.Module
		}
		description := c.Place.Location
		if site.Symbol != "" {
			description += " in " + site.Symbol
		}
		n = d.add(key, region{d.text(c.Name), d.text(description), roleOf(c.Call), d.text(file), uint32(max(0, site.Line))})
	}
	return n
}

// own is a region of ours.
func (d *definitions) own(name string) uint32 {
	key := regionKey{name: name}
	n, ok := d.regions[key]
	if !ok {
		n = d.add(key, region{d.text(name), 0, roleArtificial, 0, 0})
	}
	return n
}

func (d *definitions) add(key regionKey, r region) uint32 {
	n := uint32(len(d.listed))
	d.listed = append(d.listed, r)
	d.regions[key] = n
	return n
}

// communicator is one with its group.
type communicator struct {
	number  uint32
	name    string
	members []uint64 // ranks of the job
	kind    uint32
	ranks   map[int32]uint32 // made when it is first used
}

// rankOf is the rank in a communicator of a rank of the job.
func (c *communicator) rankOf(index int32) (uint32, bool) {
	if c.ranks == nil {
		c.ranks = make(map[int32]uint32, len(c.members))
		for i, m := range c.members {
			c.ranks[int32(m)] = uint32(i)
		}
	}
	rank, ok := c.ranks[index]
	return rank, ok
}

// comms prepares the communicators of a job.
func (d *definitions) comms(job *timeline.Job) {
	for _, r := range job.Ranks {
		w := d.byWorld[r.World]
		if w == nil {
			w = &communicator{}
			d.byWorld[r.World] = w
		}
		w.members = append(w.members, uint64(r.Index))
		d.worldOf[worldSeat{r.World, r.Rank}] = int32(r.Index)
		if _, ok := d.nodeOf[r.Node]; !ok {
			d.nodeOf[r.Node] = uint32(len(d.nodes))
			d.nodes = append(d.nodes, r.Node)
		}
	}
	d.byComm = make([]*communicator, len(job.Comms))
	for _, c := range job.Comms {
		if c.Name == "MPI_COMM_WORLD" { // viewers look for it
			d.communicator(c)
		}
	}
}

// worldRank is the rank of the job that is a rank in the world of another one,
// -1 if there is none.
func (d *definitions) worldRank(of *timeline.Rank, rank int32) int32 {
	if index, ok := d.worldOf[worldSeat{of.World, rank}]; ok {
		return index
	}
	return -1
}

// communicator is the definition of a communicator. One whose members are not
// all known has the ranks of its world instead, so that a rank in it is a rank
// in MPI_COMM_WORLD; its name says so.
func (d *definitions) communicator(c *timeline.Comm) *communicator {
	if known := d.byComm[c.Index]; known != nil {
		return known
	}
	out := &communicator{number: uint32(len(d.written)), name: c.Name, kind: groupCommunicat}
	if c.Whole {
		for _, m := range c.Members {
			out.members = append(out.members, uint64(m))
		}
	} else {
		out.name += " (ranks of MPI_COMM_WORLD: not all members are known)"
		world := d.byWorld[c.World]
		out.members, out.ranks = world.members, world.ranks
	}
	if c.Self {
		out.kind = groupSelf
	}
	d.byComm[c.Index] = out
	d.written = append(d.written, out)
	return out
}

// define writes all definitions. Texts are gathered first: they come first.
func (d *definitions) define(w *Writer) {
	type record struct {
		typ    uint32
		fields []any
	}
	var list []record
	add := func(typ uint32, fields ...any) { list = append(list, record{typ, fields}) }
	add(recNode, d.text("job "+w.job.Report.Job.ID), d.text("machine"), uint32(none))
	for _, n := range d.nodes {
		if n == "" {
			n = "(not known)"
		}
		add(recNode, d.text(n), d.text("node"), uint32(0))
	}
	for _, r := range w.job.Ranks {
		add(recProcess, d.text("MPI "+r.String()), d.nodeOf[r.Node]+1)
	}
	for _, l := range w.locations {
		add(recLocation, d.text(l.name), uint32(l.rank.Index))
	}
	for _, r := range d.listed {
		add(recRegion, r.name, r.description, r.role, r.file, r.line)
	}
	all := make([]uint64, len(w.job.Ranks))
	for i := range all {
		all[i] = uint64(i)
	}
	add(recGroup, d.text("MPI"), uint32(groupLocations), all)
	for i, c := range d.written {
		add(recGroup, d.text(""), c.kind, c.members)
		add(recComm, d.text(c.name), uint32(i+1))
	}
	for _, r := range w.job.Ranks {
		for _, p := range properties(r) {
			add(recProperty, uint32(r.Index), d.text("mpitrace::"+p[0]), d.text(p[1]))
		}
	}
	w.record(recClock, uint64(1_000_000_000), uint64(0), w.last+1, uint64(max(0, w.job.StartRealtimeNS)))
	for _, s := range d.texts {
		w.record(recString, s)
	}
	for _, r := range list {
		w.record(r.typ, r.fields...)
	}
}

// properties is what else is known of a rank.
func properties(r *timeline.Rank) [][2]string {
	if r.Missing {
		return [][2]string{{"state", "no data"}}
	}
	clock := strconv.FormatUint(r.BoundNS, 10)
	if !r.Aligned {
		clock = "not known: placed by the wall clock"
	}
	out := [][2]string{{"state", r.State}, {"pid", fmt.Sprint(r.PID)}, {"clock_error_ns", clock}}
	if r.Dropped > 0 {
		out = append(out, [2]string{"events_not_kept", fmt.Sprint(r.Dropped)})
	}
	return out
}
