package report

import (
	"github.com/mpitrace/mpitrace/internal/advise"
)

// AdviceInput is what package advise wants to know of the job. Without Costs in
// the options of Load there are no predictions on buffers.
func (r *Report) AdviceInput() advise.Input {
	in := advise.Input{Ranks: len(r.Ranks), MPINS: r.Job.MPINS, EagerLimit: r.options.EagerLimit, Reuse: r.predictions,
		ReuseKnown: r.options.Costs != nil && len(r.Reuse) > 0}
	if c := r.options.Costs; c != nil {
		in.CostsStandIn = c.StandIn
	}
	if n := r.options.Network; n != nil && n.NSPerByte > 0 {
		in.TransferBytesPerNS = 1 / n.NSPerByte
	}
	waiting := r.adviceWaiting()
	index := map[placeKey]int{}
	for _, s := range r.Sites {
		if setup(s.key.call) || s.Other {
			continue
		}
		key := placeKey{s.key.offset, s.key.call, s.key.module}
		i, ok := index[key]
		if !ok {
			i = len(in.Sites)
			index[key] = i
			in.Sites = append(in.Sites, advise.Site{Function: s.Function.Name, Place: r.location(s), Names: r.ruleNames(s), Waiting: waiting[key]})
		}
		addAdvice(&in.Sites[i], s)
	}
	for _, o := range r.Overlap {
		if i, ok := index[o.key]; ok && o.RequestNS > 0 {
			in.Sites[i].Requests = o.Requests
			in.Sites[i].RequestNS = o.BlockedNS + o.BeforeNS
		}
	}
	for _, f := range r.Functions {
		for _, b := range f.Sizes {
			in.Sizes = append(in.Sizes, advise.SizeClass{Function: f.Name, Size: classText(b.From, b.To), From: b.From, To: b.To, Messages: b.Count,
				Requests: f.Completed, RequestNS: f.BlockedNS + f.BeforeNS, BlockedNS: f.BlockedNS})
		}
	}
	return in
}

// addAdvice adds one row of a place: places differ in phase and callers too.
func addAdvice(into *advise.Site, s *Site) {
	into.Calls += s.Calls
	into.Peerless += s.Peerless
	into.Bytes += s.Bytes
	into.TimeNS += s.TimeNS
	into.RequestNS += s.RequestNS
	into.BlockedNS += s.BlockedNS
}

// adviceWaiting is the waiting at collectives by place, all communicators
// together; what is steady is weighted by waiting.
func (r *Report) adviceWaiting() map[placeKey]*advise.Waiting {
	out := map[placeKey]*advise.Waiting{}
	for _, group := range r.arrivalGroups() {
		w := &advise.Waiting{}
		var sampled, weight float64
		for i, a := range group {
			if i == 0 {
				w.Processes = a.Size // rows are sorted by waiting
			}
			w.Operations += a.Operations
			w.WaitingNS += a.Waiting.NS
			w.WorkNS += a.Beyond.NS
			sampled += float64(a.Sampled)
			weight += a.Pattern.Confidence * float64(a.Waiting.NS)
		}
		if w.WaitingNS > 0 {
			w.Persistence = weight / float64(w.WaitingNS)
		}
		if w.Operations > 0 {
			w.Coverage = min(1, sampled/float64(w.Operations))
		}
		key := group[0].Site.key
		out[placeKey{key.offset, key.call, key.module}] = w
	}
	return out
}
