package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/mpitrace/mpitrace/internal/advise"
	"github.com/mpitrace/mpitrace/policy"
	"github.com/mpitrace/mpitrace/reusetrack"
)

// Explanation is what the policy would do with the messages of a job.
type Explanation struct {
	Schema int      `json:"schema"`
	Hash   string   `json:"policy_hash"`
	Node   string   `json:"calibration_node"`
	Device string   `json:"calibration_device"`
	Sites  []*Site  `json:"sites"` // in the order of the input
	Sizes  []*Class `json:"sizes"` // the same
	Notes  []string `json:"notes"`
}

// Site is one call site. Times are ns of one message, as its end of the message
// notices them.
type Site struct {
	Function   string      `json:"function"`
	Place      string      `json:"place"`
	Messages   uint64      `json:"messages"`
	MeanBytes  uint64      `json:"mean_bytes"`
	Setting    string      `json:"setting"` // eager or rendezvous
	Candidates []Candidate `json:"candidates"`
	Chosen     string      `json:"chosen"`
	RunnerUp   string      `json:"runner_up,omitempty"`
	Pinned     bool        `json:"pinned"` // by the policy: not searched
	Rule       string      `json:"rule,omitempty"`
	Reason     string      `json:"reason"`
	Job        string      `json:"job,omitempty"` // what a job does that is left the choice
	Inputs     Inputs      `json:"inputs"`
}

// Class is the messages of a function of one size, wherever it is called: a Site
// without a place, whose size is the middle of the class.
type Class struct {
	Size string `json:"size"`
	From uint64 `json:"from"`
	To   uint64 `json:"to"` // less than; 0: no limit
	Site
}

// Candidate is a protocol and what it is predicted to cost.
type Candidate struct {
	Name  string  `json:"name"`
	NS    float64 `json:"ns"`
	Known bool    `json:"known"` // false: there is nothing to predict from
	Note  string  `json:"note,omitempty"`
}

// Inputs is what the predictions of a site were made from, at its mean size.
type Inputs struct {
	CopyNS     float64 `json:"copy_ns"`     // Cm
	RegisterNS float64 `json:"register_ns"` // Rm
	LookUpNS   float64 `json:"lookup_ns"`   // V
	ExposedNS  float64 `json:"exposed_ns"`  // Lm, 0 where it is hidden
	TransferNS float64 `json:"transfer_ns"` // T
	ControlNS  float64 `json:"control_ns"`  // T of the shortest message
	WindowNS   float64 `json:"window_ns"`   // between the start and the completing call
	Uses       float64 `json:"uses"`        // of a buffer of this size
}

// earlyShare is the share of receives that are posted before the message's
// start arrives. Observe mode does not count it without a trace.
const earlyShare = 0.5

// operations are the conditions' names of what calls do.
var operations = map[string]string{
	"Send": "send", "Bsend": "send", "Ssend": "send", "Rsend": "send",
	"Isend": "isend", "Ibsend": "isend", "Issend": "isend", "Irsend": "isend",
	"Sendrecv": "sendrecv", "Sendrecv_replace": "sendrecv", "Isendrecv": "sendrecv", "Isendrecv_replace": "sendrecv",
	"Recv": "recv", "Mrecv": "recv", "Irecv": "irecv", "Imrecv": "irecv",
}

// operation is the name of what a function does, "" if it is none of these.
func operation(function string) string {
	return operations[strings.TrimSuffix(strings.TrimPrefix(function, "MPI_"), "_c")]
}

// Explain costs the candidates of each site. in must have been made with the
// costs of c and with the eager limit of p.
func Explain(in *advise.Input, c *Calibration, p *policy.Effective) *Explanation {
	e := &Explanation{Schema: 1, Hash: p.Hash(), Node: c.Node, Device: c.Device, Sites: []*Site{}, Sizes: []*Class{}}
	left := uint64(0)
	for i := range in.Sites {
		s := &in.Sites[i]
		switch {
		case operation(s.Function) != "" && s.Bytes > 0 && s.Calls > 0:
			e.Sites = append(e.Sites, explain(s, in.Reuse, c, p))
		case s.Function == "MPI_Start" || s.Function == "MPI_Startall":
			left += s.Calls
		}
	}
	for i := range in.Sizes {
		s := &in.Sizes[i]
		if operation(s.Function) != "" && s.From > 0 && s.Messages > 0 {
			e.Sizes = append(e.Sizes, class(s, in.Reuse, c, p))
		}
	}
	e.note(in, c, p, left)
	return e
}

func receiving(operation string) bool { return operation == "recv" || operation == "irecv" }

func (e *Explanation) note(in *advise.Input, c *Calibration, p *policy.Effective, left uint64) {
	e.Notes = append(e.Notes, "messages of a site are taken to be of its mean size, and a receive to be posted before the message half of the time: an observed job does not tell",
		"the price of an event is not measured")
	if slices.ContainsFunc(e.Sites, func(s *Site) bool { return operation(s.Function) == "sendrecv" }) {
		e.Notes = append(e.Notes, "MPI_Sendrecv is costed as its send")
	}
	if !in.ReuseKnown {
		e.Notes = append(e.Notes, "the reuse of buffers was not recorded")
	} else {
		e.Notes = append(e.Notes, "uses of a buffer are known by size, not by call site")
	}
	if len(e.Sizes) > 0 {
		e.Notes = append(e.Notes, "by function and size, messages are taken to be as long as the middle of their class, and to hide as much as those of all sizes, and rules that name a site are passed over")
	}
	if left > 0 {
		e.Notes = append(e.Notes, fmt.Sprintf("%d starts of persistent requests are left out: whether they send is not known by call site", left))
	}
	if p.Text("transport") == "ud-first" {
		e.Notes = append(e.Notes, fmt.Sprintf("with transport=ud-first a rank reaches another one by datagrams until %s messages went to it, and all but the busiest %s for good; long messages go there in fragments, which are not costed, whatever is chosen here",
			p.Text("rc_after"), p.Text("rc_peers")))
	}
	for i := range p.Rules {
		for _, name := range []string{"communicator", "communicator_size", "peer"} {
			if p.Rules[i].When[name] != "" {
				e.Notes = append(e.Notes, fmt.Sprintf("rule %d is passed over: %s is not known by call site", i+1, name))
			}
		}
	}
	if c.Costs.StandIn {
		e.Notes = append(e.Notes, "registration was priced by locking memory, which is cheaper")
	}
	e.Notes = append(e.Notes, c.Costs.Notes...)
}

func class(s *advise.SizeClass, reuse []reusetrack.Prediction, c *Calibration, p *policy.Effective) *Class {
	middle := s.From
	if s.To > s.From {
		middle += (s.To - s.From) / 2
	}
	site := explain(&advise.Site{Function: s.Function, MeanBytes: middle, Calls: s.Messages,
		Requests: s.Requests, RequestNS: s.RequestNS, BlockedNS: s.BlockedNS}, reuse, c, p)
	site.Messages = s.Messages
	return &Class{Size: s.Size, From: s.From, To: s.To, Site: *site}
}

func explain(s *advise.Site, reuse []reusetrack.Prediction, c *Calibration, p *policy.Effective) *Site {
	out := &Site{Function: s.Function, Place: s.Place, Messages: s.Messages(), MeanBytes: s.Mean()}
	op := operation(s.Function)
	bytes := out.MeanBytes
	in := &out.Inputs
	in.CopyNS, in.RegisterNS, in.LookUpNS = c.Costs.Copy.At(bytes), c.Costs.Register.At(bytes), c.Costs.LookUpNS(bytes)
	in.TransferNS, in.ControlNS = c.Transfer.At(bytes), c.Transfer.At(0)
	if (op == "isend" || op == "irecv") && s.Requests > 0 && s.RequestNS > s.BlockedNS {
		in.WindowNS = float64(s.RequestNS-s.BlockedNS) / float64(s.Requests)
	}
	if lm := c.Costs.Exposed.At(bytes); in.WindowNS < lm {
		in.ExposedNS = lm
	}
	in.Uses = uses(reuse, bytes)
	m := &policy.Message{Operation: op, Bytes: int64(bytes), Sites: s.Names}
	setting := "eager"
	if int64(bytes) > p.EagerLimit(m, c.Device) {
		setting = "rendezvous"
	}
	out.Setting = setting
	choice := p.Choose(setting, m)
	if choice.Rule >= 0 {
		out.Rule = p.Rules[choice.Rule].Name
	}
	for _, name := range choice.Values() {
		candidate := Candidate{Name: name, Known: true}
		if setting == "eager" {
			out.eager(&candidate, c, p, m)
		} else {
			candidate.NS = rendezvous(name, op, in)
		}
		out.Candidates = append(out.Candidates, candidate)
	}
	out.choose()
	if len(out.Candidates) > 1 {
		out.Job = out.inJob(op, c.Device, p.Text("proof") == "on")
	}
	return out
}

// inJob is what a rank does that is left the choice; "" where it is what is chosen.
func (s *Site) inJob(operation, device string, proof bool) string {
	has := func(names ...string) bool {
		return slices.ContainsFunc(s.Candidates, func(c Candidate) bool { return slices.Contains(names, c.Name) })
	}
	switch {
	case s.Setting == "eager" && s.Chosen == "reuse" && proof:
		return "tries both, where its own measurements say the same, and keeps what is faster"
	case s.Setting == "eager" && s.Chosen == "reuse":
		return "copies"
	case s.Setting == "eager":
		return ""
	case receiving(operation) && has("receiver") && proof:
		return "tries asking first and not, and keeps what is faster"
	case receiving(operation):
		return "leaves it to the sender"
	case has("write") && has("read", "read-event") && proof && operation == "send" && !s.buffered() && strings.HasPrefix(device, "iwarp:"):
		return "writes, for over TCP that is done when the system has a copy"
	case has("write") && has("read", "read-event") && proof:
		return "tries reading and writing, and keeps what is faster"
	case has("read", "read-event"):
		return "reads"
	}
	return "writes"
}

// buffered sends are of a copy.
func (s *Site) buffered() bool { return strings.Contains(strings.ToLower(s.Function), "bsend") }

// uses is how often a buffer of this size is used on average, 0 if that is not
// known.
func uses(reuse []reusetrack.Prediction, bytes uint64) float64 {
	i := slices.IndexFunc(reuse, func(p reusetrack.Prediction) bool {
		return p.Path == "send" && p.From <= bytes && (bytes < p.To || p.To == 0) && p.Buffers > 0
	})
	if i < 0 {
		return 0
	}
	return float64(reuse[i].Accesses) / float64(reuse[i].Buffers)
}

// number is a whole number in canonical form.
func number(text string) uint64 {
	n := uint64(0)
	fmt.Sscan(text, &n)
	return n
}

// eager costs one message: with copies at both ends, or at the receiver only,
// where the buffer is registered after as many uses as the policy says.
func (s *Site) eager(out *Candidate, c *Calibration, p *policy.Effective, m *policy.Message) {
	in := &s.Inputs
	copied := 2*in.CopyNS + in.TransferNS
	switch {
	case receiving(m.Operation):
		out.NS, out.Note = copied, "the sender decides"
		if out.Name == "reuse" {
			out.Known = false
		}
		return
	case out.Name == "copy":
		out.NS = copied
		return
	case s.buffered():
		out.Known, out.Note = false, "a buffered send is always copied"
		return
	case p.Text("engine") == "inline" && policy.Software(c.Device):
		out.Known, out.Note = false, "with engine=inline the sender does the work of "+c.Device+": always copied"
		return
	case s.MeanBytes < number(p.Choose("reuse_from", m).Text):
		out.Known, out.Note = false, "below reuse_from: always copied"
		return
	case in.Uses == 0:
		out.Known, out.Note = false, "how often its buffers are used is not known"
		return
	}
	followed := copied + c.Costs.UsageLookUp.At(s.MeanBytes)
	at, pays := c.Costs.Threshold(s.MeanBytes, in.ExposedNS, reusetrack.Speculation(float64(number(p.Choose("speculation", m).Text))/100))
	switch {
	case !pays:
		out.NS, out.Note = followed, "no number of uses pays: copied, after a look-up"
	case in.Uses < float64(at):
		out.NS, out.Note = followed, fmt.Sprintf("registered at use %d, which a buffer does not reach: copied, after a look-up", at)
	default:
		direct := in.Uses - float64(at) + 1
		each := in.CopyNS + in.TransferNS + in.LookUpNS + in.ExposedNS
		out.NS = (float64(at-1)*followed + direct*each + in.RegisterNS) / in.Uses
		out.Note = fmt.Sprintf("registered at use %d of %.0f", at, in.Uses)
	}
}

// rendezvous is what one end waits for a message above the eager limit. The engine's
// thread goes on by events at either end, whoever moves the data, so all of it hides
// behind other work; where a receiver asks first, its sender need not ask.
func rendezvous(name, operation string, in *Inputs) float64 {
	hidden := func(ns float64) float64 { return max(0, ns-in.WindowNS) }
	data, control := in.TransferNS, in.ControlNS
	switch {
	case receiving(operation):
		return hidden(control + data)
	case name == "receiver":
		return earlyShare*hidden(control+data) + (1-earlyShare)*hidden(2*control+data)
	}
	return hidden(2*control + data)
}

// choose takes the cheapest, and of equal ones the first.
func (s *Site) choose() {
	if len(s.Candidates) == 1 {
		s.Chosen, s.Pinned, s.Reason = s.Candidates[0].Name, true, "pinned by the policy"
		return
	}
	order := slices.DeleteFunc(slices.Clone(s.Candidates), func(c Candidate) bool { return !c.Known })
	slices.SortStableFunc(order, func(a, b Candidate) int { return cmp.Compare(a.NS, b.NS) })
	switch len(order) {
	case 0:
		s.Chosen, s.Reason = s.Candidates[0].Name, "nothing is known of any: the first"
		return
	case 1:
		s.Chosen, s.Reason = order[0].Name, "nothing is known of the others"
		return
	}
	s.Chosen, s.RunnerUp = order[0].Name, order[1].Name
	if order[0].NS < order[1].NS {
		s.Reason = fmt.Sprintf("%.0f ns a message less than %s", order[1].NS-order[0].NS, s.RunnerUp)
	} else {
		s.Reason = "costs as much as " + s.RunnerUp + ", and comes first"
	}
}
