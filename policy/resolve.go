package policy

import (
	"maps"
	"slices"
	"strings"
)

// BuiltIn is the source of what nobody has stated.
const BuiltIn = "built-in"

// Value is a setting in effect.
type Value struct {
	Text   string // canonical
	Source string
}

// Effective is the policy of a job: all settings, and rules of which the first
// that matches and states a setting decides it. What no rule states comes from
// Settings.
type Effective struct {
	Settings map[string]Value
	Rules    []Rule

	layers map[string]*Layer // that state Settings, by name
}

// Resolve lays sources over each other, the strongest first (environment, job
// file, site file; nil is left out), with the built-in values below. A setting
// at the top level of one source is stronger than any rule of a weaker one, and a
// rule that stronger sources leave nothing is dropped. The error is a Problems about
// what does not go together.
func Resolve(layers ...*Layer) (*Effective, error) {
	layers = slices.DeleteFunc(slices.Clone(layers), func(l *Layer) bool { return l == nil })
	e := lay(layers)
	problems := e.drop(layers)
	if err := append(problems, e.check(layers)...).orNil(); err != nil {
		return nil, err
	}
	return e, nil
}

// lay is Resolve without a look at what goes together.
func lay(layers []*Layer) *Effective {
	e := &Effective{Settings: map[string]Value{}, layers: map[string]*Layer{}}
	for _, l := range layers {
		for _, rule := range l.Rules {
			rule.Use = maps.Clone(rule.Use)
			maps.DeleteFunc(rule.Use, func(name, _ string) bool { return e.layers[name] != nil })
			if len(rule.Use) > 0 {
				e.Rules = append(e.Rules, rule)
			}
		}
		for name, text := range l.Settings {
			if e.layers[name] == nil {
				e.Settings[name] = Value{text, l.Source}
				e.layers[name] = l
			}
		}
	}
	built := builtIn()
	for name, text := range built.Settings {
		if e.layers[name] == nil {
			e.Settings[name] = Value{text, BuiltIn}
			e.layers[name] = built
		}
	}
	return e
}

func builtIn() *Layer {
	l := &Layer{Source: BuiltIn, Settings: map[string]string{}}
	for i := range settings {
		// A default that is not allowed is refused by a test.
		l.Settings[settings[i].Name], _ = settings[i].canonical(settings[i].Default)
	}
	return l
}

// Text is the canonical value of a setting at the top level; "" if there is no
// such setting.
func (e *Effective) Text(name string) string { return e.Settings[name].Text }

// Number is the value of a setting that is a size or a whole number; 0 for auto.
func (e *Effective) Number(name string) int64 {
	n, _ := rangeOf(e.Text(name) + "..")
	return n
}

// SharedMemory is the device inside one node, and what begins with iwarp uses sockets.
const (
	SharedMemory = "shm"
	iwarp        = "iwarp"
)

// Eager limits in bytes that devices have (MT_ACT_EAGER_... of c/act/policy.c).
const (
	eagerSharedMemory = 32 << 10
	eagerTCP          = 64 << 10
	eagerOthers       = 16 << 10
)

// EagerLimit is the longest message in bytes that is sent without asking the
// receiver, of messages like m, or with nil of those that no rule is for, over a
// device.
func (e *Effective) EagerLimit(m *Message, device string) int64 {
	text := e.Text("eager_limit")
	if m != nil {
		text = e.Choose("eager_limit", m).Text
	}
	return e.eagerLimit(text, device)
}

func (e *Effective) eagerLimit(text, device string) int64 {
	if text != auto {
		n, _ := rangeOf(text + "..")
		return n
	}
	limit := int64(eagerOthers)
	switch {
	case device == SharedMemory:
		limit = eagerSharedMemory
	case strings.HasPrefix(device, iwarp) && e.Text("transport") != "ud-first":
		limit = eagerTCP
	}
	return min(limit, e.Number("ring")/2)
}

// Software says whether the work of a device is done by a processor of the node.
func Software(device string) bool {
	return device == SharedMemory || strings.HasPrefix(device, iwarp)
}

// Mode is off, observe, advise or act.
func (e *Effective) Mode() string { return e.Text("mode") }

// Message is what a rule may ask about. Empty text and 0 processes are not
// known: what asks for them does not match.
type Message struct {
	Operation    string // of the conditions
	Communicator string
	Processes    int64
	Bytes        int64
	Peer         string   // same-node, other-node
	Sites        []string // every name that the call's place goes by
}

// Choice is what is in effect for a message.
type Choice struct {
	Text string // canonical
	Rule int    // index in Rules, -1: the setting at the top level
}

// Values is what remains of a choice: one is pinned, several are tried.
func (c Choice) Values() []string { return strings.Split(c.Text, "+") }

// Choose looks a setting up for a message.
func (e *Effective) Choose(name string, m *Message) Choice {
	for i := range e.Rules {
		if text, ok := e.Rules[i].Use[name]; ok && e.Rules[i].matches(m) {
			return Choice{text, i}
		}
	}
	return Choice{e.Text(name), -1}
}

func (r *Rule) matches(m *Message) bool {
	for name, want := range r.When {
		if !m.meets(name, want) {
			return false
		}
	}
	return true
}

func (m *Message) meets(name, want string) bool {
	switch name {
	case "operation":
		return m.Operation != "" && slices.Contains(strings.Split(want, "+"), m.Operation)
	case "communicator":
		return m.Communicator != "" && matchNames(want, m.Communicator)
	case "communicator_size":
		return m.Processes > 0 && within(want, m.Processes)
	case "size":
		return within(want, m.Bytes)
	case "peer":
		return m.Peer == want
	case "site":
		return slices.ContainsFunc(m.Sites, func(site string) bool { return matchNames(want, site) })
	}
	return false
}

func within(bounds string, n int64) bool {
	from, to := rangeOf(bounds)
	return from <= n && n <= to
}

// matchNames tells whether one of the names with + between them matches.
func matchNames(names, text string) bool {
	return slices.ContainsFunc(strings.Split(names, "+"), func(name string) bool { return match(name, text) })
}

// match is whether text is pattern, where * stands for any bytes and ? for one.
// It takes time len(pattern) times len(text) at most.
func match(pattern, text string) bool {
	p, t, star, back := 0, 0, -1, 0
	for t < len(text) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, back = p, t
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == text[t]):
			p++
			t++
		case star >= 0:
			back++
			p, t = star+1, back
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}
