package policy

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// senders are the settings that the process decides which sends.
var senders = []string{"eager", "eager_limit", "reuse_from"}

// check finds what is allowed word by word and does not go together.
func (e *Effective) check(layers []*Layer) Problems {
	var out Problems
	limit := e.eagerLimit(e.Text("eager_limit"), e.likeliest())
	if e.overDatagrams(e.Text("eager")) {
		out = append(out, e.disagree(layers, "eager", "transport", reuseOverDatagrams))
	}
	if limit > e.Number("ring")/2 {
		out = append(out, e.disagree(layers, "eager_limit", "ring", e.tooLong(limit)))
	}
	if from := e.Number("reuse_from"); e.Text("eager") == "reuse" && from > limit && !e.elsewhere(-1, "reuse_from") && !e.elsewhere(-1, "eager_limit") {
		out = append(out, e.disagree(layers, "reuse_from", "eager_limit", "eager=reuse never happens: "+reuseNever(from, limit)))
	}
	for _, pattern := range strings.Split(e.Text("device"), "+") {
		if _, err := path.Match(pattern, ""); err != nil {
			out = append(out, e.layers["device"].problem("device", pattern+`: a [ without its ], or a \ with nothing behind it`))
		}
	}
	if len(e.Rules) > MostRules {
		r := &e.Rules[MostRules]
		out = append(out, r.layer.problem(r.path, fmt.Sprintf("ranks follow %d rules at most: state at the top level what most messages want", MostRules)))
	}
	if n := len(e.Word()); n > MostWord {
		layer, path := e.longest()
		out = append(out, layer.problem(path, fmt.Sprintf("ranks are given the policy in %d bytes at most, and it has %d: of these names, state fewer or shorter ones", MostWord, n)))
	}
	return out
}

// longest is the setting or rule with the most text.
func (e *Effective) longest() (layer *Layer, path string) {
	most := -1
	for name, value := range e.Settings {
		if len(value.Text) > most {
			layer, path, most = e.layers[name], name, len(value.Text)
		}
	}
	for i := range e.Rules {
		var b strings.Builder
		if e.rule(&b, i); b.Len() > most {
			layer, path, most = e.Rules[i].layer, e.Rules[i].path, b.Len()
		}
	}
	return layer, path
}

// MostRules is how many rules a policy may have (MT_ACT_RULES of c/act/rules.h).
const MostRules = 32

const reuseOverDatagrams = "eager=reuse needs transport=rc, because a datagram that is sent again would carry what the buffer holds by then: leave one of the two out"

func reuseNever(from, limit int64) string {
	return fmt.Sprintf("reuse_from is %s, above the eager_limit of %s", sizeText(from), sizeText(limit))
}

// disagree is a problem of two settings, told where the stronger source states one of
// them: whoever wrote that can mend it. It names the other source.
func (e *Effective) disagree(layers []*Layer, name, other, text string) Problem {
	weight := func(name string) int { return slices.Index(layers, e.layers[name]) }
	if i := weight(other); i >= 0 && (weight(name) < 0 || i < weight(name)) {
		name, other = other, name
	}
	if by := e.Settings[other].Source; by != BuiltIn && by != e.Settings[name].Source {
		text += fmt.Sprintf(" (%s is of %s)", other, by)
	}
	return e.layers[name].problem(name, text)
}

// likeliest is the device with the longest eager limit of those that may be used.
func (e *Effective) likeliest() string {
	devices := []string{SharedMemory, iwarp}
	if want := e.Text("device"); want != auto {
		devices = strings.Split(want, "+")
		for _, name := range devices {
			literal := name[:strings.IndexAny(name+"*", "*?[")]
			for _, device := range []string{SharedMemory, iwarp} {
				if literal != name && strings.HasPrefix(device, literal) {
					devices = append(devices, device)
				}
			}
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

// drop takes out of the rules what never applies. It is a mistake, and stays, where it
// would not without the stronger sources either. Else the user, who states those, may not be
// able to change the rule.
func (e *Effective) drop(layers []*Layer) Problems {
	var out Problems
	for i := 0; i < len(e.Rules); {
		never := e.neverApplies(i)
		if len(never) == 0 {
			i++
			continue
		}
		r := &e.Rules[i]
		own := lay(layers[slices.Index(layers, r.layer):]) // whose first rules are the layer's
		mistakes := own.neverApplies(slices.IndexFunc(own.Rules, func(o Rule) bool { return o.path == r.path }))
		if len(mistakes) > 0 {
			for _, m := range mistakes {
				out = append(out, r.layer.problem(r.path+m.path, "never applies: "+m.why))
			}
			i++
			continue
		}
		for _, n := range never {
			maps.DeleteFunc(r.Use, func(name, _ string) bool { return n.path == "" || n.path == ".use."+name })
		}
		if len(r.Use) == 0 {
			e.Rules = slices.Delete(e.Rules, i, i+1)
		}
	}
	return out
}

// idle is a setting of a rule that never applies, and why; without a path it is the
// whole rule.
type idle struct{ path, why string }

func (e *Effective) neverApplies(i int) []idle {
	var out []idle
	r := &e.Rules[i]
	tell := func(path, format string, args ...any) {
		out = append(out, idle{path, fmt.Sprintf(format, args...)})
	}
	if e.overDatagrams(r.Use["eager"]) {
		tell(".use.eager", "%s", reuseOverDatagrams)
	}
	limit := e.eagerLimit(cmp.Or(r.Use["eager_limit"], e.Text("eager_limit")), e.likeliest())
	if r.Use["eager_limit"] != "" && limit > e.Number("ring")/2 {
		tell(".use.eager_limit", "%s", e.tooLong(limit))
	}
	if from, _ := rangeOf(r.When["size"]); from > limit && r.Use["eager"] != "" && !e.elsewhere(i, "eager_limit") {
		tell(".use.eager", "the rule is for messages from %s, and the eager_limit is %s", sizeText(from), sizeText(limit))
	}
	least, _ := rangeOf(cmp.Or(r.Use["reuse_from"], e.Text("reuse_from")) + "..")
	if _, to := rangeOf(r.When["size"]); to < least && r.Use["eager"] == "reuse" && !e.elsewhere(i, "reuse_from") {
		tell(".use.eager", "the rule is for messages up to %s, and reuse_from is %s", sizeText(to), sizeText(least))
	} else if r.Use["eager"] == "reuse" && least > limit && !e.elsewhere(i, "reuse_from") && !e.elsewhere(i, "eager_limit") {
		tell(".use.eager", "%s", reuseNever(least, limit))
	}
	if !slices.ContainsFunc(strings.Split(r.When["operation"], "+"), func(o string) bool { return !strings.HasSuffix(o, "recv") || o == "sendrecv" }) {
		for _, name := range senders {
			if r.Use[name] != "" {
				tell(".use."+name, "the rule is for receives, and the sender decides this")
			}
		}
	}
	if j := slices.IndexFunc(e.Rules[:i], r.coveredBy); j >= 0 {
		tell("", "%s of %s matches all that this one matches and states the same settings", e.Rules[j].path, e.Rules[j].layer.Source)
	}
	return out
}

// elsewhere tells whether a rule other than the i-th (-1: any rule) may decide a setting
// for messages that the i-th matches. Behind one that states it itself none does.
func (e *Effective) elsewhere(i int, name string) bool {
	first := slices.IndexFunc(e.Rules, func(r Rule) bool { return r.Use[name] != "" })
	return first >= 0 && first != i
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
	case "names":
		for _, v := range strings.Split(narrow, "+") {
			if !slices.ContainsFunc(strings.Split(wide, "+"), func(w string) bool { return coversName(w, v) }) {
				return false
			}
		}
		return true
	case "choice":
		for _, v := range strings.Split(narrow, "+") {
			if !slices.Contains(strings.Split(wide, "+"), v) {
				return false
			}
		}
		return true
	}
	return wide == narrow
}

// coversName tells whether a pattern matches all that a narrower one matches, as far as
// it shows in the text of that: a * of it is taken by a * alone.
func coversName(wide, narrow string) bool {
	return match(wide, narrow) && !(strings.Contains(narrow, "*") && strings.Contains(wide, "?"))
}

// Device is what a policy must know of a device.
type Device struct {
	Names     []string // its own, then those of its ports
	Up        bool     // one of its ports is
	Datagrams bool     // has UD
}

// called is as fnmatch of c/act/device.c: *, ?, and [a-c] or [!a-c].
func (d *Device) called(pattern string) bool {
	return slices.ContainsFunc(d.Names, func(name string) bool {
		ok, err := path.Match(strings.ReplaceAll(pattern, "[!", "[^"), name)
		return ok && err == nil
	})
}

// CheckDevices finds what a policy demands that the devices of a node, in their order,
// do not have. The error is a Problems.
func (e *Effective) CheckDevices(devices []Device) error {
	var out Problems
	tell := func(name, format string, args ...any) {
		out = append(out, e.layers[name].problem(name, fmt.Sprintf(format, args...)))
	}
	usable := slices.DeleteFunc(slices.Clone(devices), func(d Device) bool { return !d.Up })
	if want := e.Text("device"); want != auto {
		patterns := strings.Split(want, "+")
		if usable = firstNamed(usable, patterns); len(usable) == 0 {
			for _, pattern := range patterns {
				tell("device", "%s", noDevice(pattern, devices))
			}
		}
	}
	// Left to choose, one device with datagrams is enough.
	if e.Text("transport") == "ud-first" && len(usable) > 0 && !slices.ContainsFunc(usable, func(d Device) bool { return d.Datagrams }) {
		tell("transport", "ud-first needs datagrams, which %s does not have: choose another device, or transport=rc", usable[0].Names[0])
	}
	return out.orNil()
}

// firstNamed is the device that a rank takes, as in c/act/device.c.
func firstNamed(devices []Device, patterns []string) []Device {
	for _, pattern := range patterns {
		if i := slices.IndexFunc(devices, func(d Device) bool { return d.called(pattern) }); i >= 0 {
			return devices[i : i+1]
		}
	}
	return nil
}

func noDevice(pattern string, devices []Device) string {
	var names []string
	for _, d := range devices {
		if d.called(pattern) {
			return fmt.Sprintf("no port of %s is up", d.Names[0])
		}
		names = append(names, d.Names...)
	}
	text := fmt.Sprintf("no device is called %s", pattern)
	if near := nearest(pattern, names); near != "" {
		return text + ": did you mean " + near + "?"
	}
	return text + ": there are " + strings.Join(names, ", ")
}
