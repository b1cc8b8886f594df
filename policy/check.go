package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// senders are the settings that the process decides which sends.
var senders = []string{"eager", "eager_limit", "reuse_from"}

// check finds what is allowed word by word and does not go together.
func (e *Effective) check() Problems {
	var out Problems
	tell := func(name, format string, args ...any) {
		out = append(out, e.layers[name].problem(name, fmt.Sprintf(format, args...)))
	}
	if e.overDatagrams(e.Text("eager")) {
		tell(e.stated("eager", "transport"), "%s", reuseOverDatagrams)
	}
	limit := e.eagerLimit(e.Text("eager_limit"), e.likeliest())
	if limit > e.Number("ring")/2 {
		tell(e.stated("eager_limit", "ring"), "%s", e.tooLong(limit))
	}
	if e.Text("eager") == "reuse" && e.Number("reuse_from") > limit {
		tell(e.stated("reuse_from", "eager_limit"), "eager=reuse never happens: reuse_from is %s, above the eager_limit of %s", sizeText(e.Number("reuse_from")), sizeText(limit))
	}
	for i := range e.Rules {
		out = append(out, e.checkRule(i)...)
	}
	if len(e.Rules) > MostRules {
		r := &e.Rules[MostRules]
		out = append(out, r.layer.problem(r.path, fmt.Sprintf("ranks follow %d rules at most: state at the top level what most messages want", MostRules)))
	}
	return out
}

// MostRules is how many rules a policy may have (MT_ACT_RULES of c/act/rules.h).
const MostRules = 32

const reuseOverDatagrams = "eager=reuse needs transport=rc, because a datagram that is sent again would carry what the buffer holds by then: leave one of the two out"

// stated is the first of the names that somebody stated, else the first: that
// is where the user can mend it.
func (e *Effective) stated(names ...string) string {
	for _, name := range names {
		if e.layers[name].Source != BuiltIn {
			return name
		}
	}
	return names[0]
}

// likeliest is the device with the longest eager limit of those that may be used.
func (e *Effective) likeliest() string {
	devices := []string{SharedMemory, iwarp}
	if want := e.Text("device"); want != auto {
		devices = strings.Split(want, "+")
		if matchNames(want, SharedMemory) {
			devices = append(devices, SharedMemory)
		}
	}
	return slices.MaxFunc(devices, func(a, b string) int { return cmp.Compare(e.eagerLimit(auto, a), e.eagerLimit(auto, b)) })
}

func (e *Effective) overDatagrams(eager string) bool {
	return eager == "reuse" && e.Text("transport") == "ud-first"
}

func (e *Effective) tooLong(limit int64) string {
	return fmt.Sprintf("an eager_limit of %s does not fit twice into the ring of %s: make ring at least %s, or eager_limit at most %s",
		sizeText(limit), sizeText(e.Number("ring")), sizeText(2*limit), sizeText(e.Number("ring")/2))
}

func (e *Effective) checkRule(i int) Problems {
	var out Problems
	r := &e.Rules[i]
	tell := func(name, format string, args ...any) {
		out = append(out, r.layer.problem(r.path+name, fmt.Sprintf(format, args...)))
	}
	if e.overDatagrams(r.Use["eager"]) {
		tell(".use.eager", "%s", reuseOverDatagrams)
	}
	for _, site := range strings.Split(r.When["site"], "+") {
		if isLine(site) {
			tell(".when.site", "%s names a line of a file, which ranks do not know: name the function, or MODULE?0xOFFSET", site)
		}
	}
	limit := e.eagerLimit(cmp.Or(r.Use["eager_limit"], e.Text("eager_limit")), e.likeliest())
	if r.Use["eager_limit"] != "" && limit > e.Number("ring")/2 {
		tell(".use.eager_limit", "%s", e.tooLong(limit))
	}
	if from, _ := rangeOf(r.When["size"]); from > limit && r.Use["eager"] != "" && !e.limitInRules(i) {
		tell(".use.eager", "never applies: the rule is for messages from %s, and the eager_limit is %s", sizeText(from), sizeText(limit))
	}
	least := e.Number("reuse_from")
	if own, ok := r.Use["reuse_from"]; ok {
		least, _ = rangeOf(own + "..")
	}
	if _, to := rangeOf(r.When["size"]); to < least && r.Use["eager"] == "reuse" {
		tell(".use.eager", "never applies: the rule is for messages up to %s, and reuse_from is %s", sizeText(to), sizeText(least))
	}
	if !slices.ContainsFunc(strings.Split(r.When["operation"], "+"), func(o string) bool { return !strings.HasSuffix(o, "recv") || o == "sendrecv" }) {
		for _, name := range senders {
			if r.Use[name] != "" {
				tell(".use."+name, "never applies: the rule is for receives, and the sender decides this")
			}
		}
	}
	if j := slices.IndexFunc(e.Rules[:i], r.coveredBy); j >= 0 {
		tell("", "never applies: %s of %s matches all that this one matches and states the same settings", e.Rules[j].path, e.Rules[j].layer.Source)
	}
	return out
}

// isLine tells whether a pattern is of the form FILE:LINE. Names of C++ have two
// colons.
func isLine(pattern string) bool {
	return strings.Contains(strings.ReplaceAll(pattern, "::", ""), ":")
}

// limitInRules tells whether another rule may set the eager limit for messages
// of rule i.
func (e *Effective) limitInRules(i int) bool {
	for j := range e.Rules {
		if j != i && e.Rules[j].Use["eager_limit"] != "" {
			return true
		}
	}
	return false
}

// coveredBy tells whether an earlier rule leaves this one nothing.
func (r *Rule) coveredBy(earlier Rule) bool {
	for name := range r.Use {
		if _, ok := earlier.Use[name]; !ok {
			return false
		}
	}
	for name, wide := range earlier.When {
		narrow, ok := r.When[name]
		if !ok || !covers(name, wide, narrow) {
			return false
		}
	}
	return true
}

// covers tells whether a condition holds wherever a narrower one does.
func covers(name, wide, narrow string) bool {
	switch find(conditions, name).Type {
	case "range":
		a, b := rangeOf(wide)
		c, d := rangeOf(narrow)
		return a <= c && d <= b
	case "choice", "names":
		for _, v := range strings.Split(narrow, "+") {
			if !slices.Contains(strings.Split(wide, "+"), v) {
				return false
			}
		}
		return true
	}
	return wide == narrow
}

// Device is what a policy must know of a device or a port.
type Device struct {
	Name      string
	Datagrams bool // has UD
}

// CheckDevices finds what a policy demands that devices do not have. The error
// is a Problems.
func (e *Effective) CheckDevices(devices []Device) error {
	var out Problems
	tell := func(name, format string, args ...any) {
		out = append(out, e.layers[name].problem(name, fmt.Sprintf(format, args...)))
	}
	want := e.Text("device")
	var names []string
	for _, d := range devices {
		names = append(names, d.Name)
	}
	if want != auto {
		for _, pattern := range strings.Split(want, "+") {
			if !slices.ContainsFunc(names, func(name string) bool { return match(pattern, name) }) {
				tell("device", "%s", noDevice(pattern, names))
			}
		}
	}
	if e.Text("transport") == "ud-first" {
		without := slices.DeleteFunc(slices.Clone(devices), func(d Device) bool {
			return d.Datagrams || want != auto && !matchNames(want, d.Name)
		})
		// Left to choose, one device with datagrams is enough.
		if len(without) > 0 && (want != auto || len(without) == len(devices)) {
			tell("transport", "ud-first needs datagrams, which %s does not have: choose another device, or transport=rc", without[0].Name)
		}
	}
	return out.orNil()
}

func noDevice(pattern string, names []string) string {
	text := fmt.Sprintf("no device is called %s", pattern)
	if near := nearest(pattern, names); near != "" {
		return text + ": did you mean " + near + "?"
	}
	return text + ": there are " + strings.Join(names, ", ")
}
