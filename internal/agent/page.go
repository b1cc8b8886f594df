package agent

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/mpitrace/mpitrace/exporter"
)

// viewer is who reads a page, and so what it may show.
type viewer struct {
	all bool   // the jobs of all users
	uid uint32 // else those of this one
}

func (v viewer) sees(uid uint32) bool { return v.all || v.uid == uid }

// page shows the jobs that a viewer may see, as they are now. delivered is to be
// called when the viewer has it.
func (k *keeper) page(v viewer, names *users, node string, worst int) (page *exporter.Page, delivered func()) {
	k.read(freshFor)
	name := k.names(v, names)
	k.mu.Lock()
	defer k.mu.Unlock()
	page = &exporter.Page{Node: node, Worst: worst, Agent: k.stats}
	page.Agent.Held = k.heldAll()
	page.Agent.Refused, page.Agent.Errors = clone(k.stats.Refused), clone(k.stats.Errors)
	for uid, total := range k.totals {
		if v.sees(uid) {
			page.Total.Add(&total.Counters)
			page.Total.Jobs += total.Jobs
			page.Total.Ranks += total.Ranks
		}
	}
	var ended []*job
	for _, j := range k.jobs {
		if !v.sees(j.key.uid) || !j.good() {
			continue
		}
		page.Jobs = append(page.Jobs, j.show(cmp.Or(name[j.key.uid], strconv.Itoa(int(j.key.uid))), node))
		if !j.ended.IsZero() {
			ended = append(ended, j)
		}
	}
	slices.SortFunc(page.Jobs, func(a, b exporter.Job) int { return cmp.Or(cmp.Compare(a.User, b.User), cmp.Compare(a.Run, b.Run)) })
	return page, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		for _, j := range ended {
			j.scraped = true
		}
	}
}

// names finds the names of the users on the page, without a lock: the directory
// service may be slow. Users whose names look the same as labels go by number, but for
// one that a job has been shown with already.
func (k *keeper) names(v viewer, names *users) map[uint32]string {
	k.mu.Lock()
	uids, taken := map[uint32]bool{}, map[string]uint32{}
	for key, j := range k.jobs {
		if j.named {
			taken[j.user] = key.uid
		}
		if v.sees(key.uid) {
			uids[key.uid] = true
		}
	}
	k.mu.Unlock()
	out := map[uint32]string{}
	for uid := range uids {
		name := names.name(uid)
		if other, twice := taken[name]; twice && other != uid {
			delete(out, other)
			continue
		}
		out[uid], taken[name] = name, uid
	}
	return out
}

// good tells that some process of the job has been read.
func (j *job) good() bool {
	return slices.ContainsFunc(j.segments, func(h *held) bool { return h.good })
}

// show is the job as the page has it. From now on its labels stay.
func (j *job) show(user, node string) exporter.Job {
	if !j.named {
		j.named, j.user = true, user
	}
	out := exporter.Job{
		ID: cmp.Or(j.origin.id, j.key.run), Step: j.origin.step, User: j.user, Node: node, Run: j.key.run,
		Scheduler: j.origin.scheduler, Launcher: j.about.launcher, MPI: j.about.mpi, Program: j.about.program,
		Start: j.start, Ended: !j.ended.IsZero(), Total: j.total, Arrivals: j.arrivals,
	}
	for _, h := range j.segments {
		if h.good {
			out.Ranks = append(out.Ranks, h.process)
		}
	}
	slices.SortFunc(out.Ranks, func(a, b exporter.Process) int {
		return cmp.Or(cmp.Compare(a.World, b.World), cmp.Compare(a.Rank, b.Rank))
	})
	return out
}

func clone(counts map[string]uint64) map[string]uint64 {
	out := make(map[string]uint64, len(counts))
	for name, n := range counts {
		out[name] = n
	}
	return out
}
