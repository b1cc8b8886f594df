package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Layer is what one source says: a file, a variable, the command line.
type Layer struct {
	Source   string            // for messages: file or variable
	Settings map[string]string // by name; only what is stated, in canonical form
	Rules    []Rule

	text   []byte         // as it was read
	places map[string]int // offset in text by path
}

// Rule is what one rule says of the messages that it matches.
type Rule struct {
	Name string            // for people, and the ledger
	When map[string]string // conditions, all of which must hold
	Use  map[string]string

	layer *Layer // that states it
	path  string // in the layer
}

// Source is where the rule comes from.
func (r *Rule) Source() string { return r.layer.Source }

// Limits of a policy.
const (
	MaxBytes = 1 << 20 // of a file
	MaxRules = 1000
)

// schemaVersion is what a file must say under schema.
const schemaVersion = 1

// layerReader reads a tree into a layer and keeps all problems.
type layerReader struct {
	*Layer
	problems Problems
}

// ParseJSON reads the JSON form. The error is a Problems, with everything that
// is wrong. What must be right only together with other sources is left to
// Resolve.
func ParseJSON(source string, text []byte) (*Layer, error) {
	r := &layerReader{Layer: &Layer{Source: source, Settings: map[string]string{}, text: text, places: map[string]int{}}}
	if len(text) > MaxBytes {
		return nil, Problems{{Source: source, Text: fmt.Sprintf("more than %d bytes", MaxBytes)}}
	}
	tree, err := readTree(text)
	var at *errAt
	if errors.As(err, &at) {
		r.wrong(at.offset, "", "%s", at.text)
		return nil, r.problems.orNil()
	}
	r.top(tree)
	if err := r.problems.orNil(); err != nil {
		return nil, err
	}
	return r.Layer, nil
}

func (r *layerReader) wrong(offset int, path, format string, args ...any) {
	line, column := place(r.text, offset)
	r.problems = append(r.problems, Problem{r.Source, line, column, path, fmt.Sprintf(format, args...)})
}

// problem is one about a setting that was read well.
func (l *Layer) problem(path, text string) Problem {
	p := Problem{Source: l.Source, Path: path, Text: text}
	if at, ok := l.places[path]; ok {
		p.Line, p.Column = place(l.text, at)
	}
	return p
}

// object is false if n is none. Names that stand twice are told.
func (r *layerReader) object(n *node, path string) bool {
	if n.value != json.Delim('{') {
		r.wrong(n.offset, path, "%s where an object is expected: { ... }", n.kind())
		return false
	}
	seen := map[string]bool{}
	for _, m := range n.members {
		if seen[m.name] {
			r.wrong(m.offset, join(path, m.name), "stands twice: keep one")
		}
		seen[m.name] = true
	}
	return true
}

// Names of a file beside the settings, and of a rule.
var (
	topNames  = []string{"schema", "$schema", "comment", "rules"}
	ruleNames = []string{"name", "comment", "when", "use"}
)

func (r *layerReader) top(n *node) {
	if !r.object(n, "") {
		return
	}
	version := false
	for _, m := range n.members {
		switch m.name {
		case "schema":
			version = true
			if text := m.value.kind(); text != strconv.Itoa(schemaVersion) {
				r.wrong(m.value.offset, m.name, "is %s, this program reads %d", text, schemaVersion)
			}
		case "$schema", "comment":
			r.plain(m.value, m.name)
		case "rules":
			r.rules(m.value)
		default:
			r.word(m, "", settings, topNames, r.Settings)
		}
	}
	if !version {
		r.wrong(n.offset, "schema", "is missing: write \"schema\": %d", schemaVersion)
	}
}

// plain is the text of a member that may be any text.
func (r *layerReader) plain(n *node, path string) string {
	text, ok := n.value.(string)
	if !ok {
		r.wrong(n.offset, path, "%s where text is expected", n.kind())
	}
	return text
}

func (r *layerReader) rules(n *node) {
	if n.value != json.Delim('[') {
		r.wrong(n.offset, "rules", "%s where a list is expected: [ ... ]", n.kind())
		return
	}
	if len(n.items) > MaxRules {
		r.wrong(n.offset, "rules", "%d rules, at most %d are taken", len(n.items), MaxRules)
		return
	}
	for i, item := range n.items {
		r.rule(item, fmt.Sprintf("rules[%d]", i))
	}
}

func (r *layerReader) rule(n *node, path string) {
	rule := Rule{When: map[string]string{}, Use: map[string]string{}, layer: r.Layer, path: path}
	r.places[path] = n.offset
	if !r.object(n, path) {
		return
	}
	for _, m := range n.members {
		at := join(path, m.name)
		switch m.name {
		case "comment":
			r.plain(m.value, at)
		case "name":
			rule.Name = r.plain(m.value, at)
			if !ruleName.MatchString(rule.Name) {
				r.wrong(m.value.offset, at, "%q is not a name of at most 64 letters, digits, _, . and -", rule.Name)
			}
		case "when":
			r.words(m.value, at, conditions, rule.When)
			r.site(rule.When["site"], join(at, "site"))
		case "use":
			r.words(m.value, at, messageSettings(), rule.Use)
		default:
			r.unknown(m, path, nil, ruleNames)
		}
	}
	for _, part := range []struct {
		name, hint string
		has        bool
	}{
		{"when", "without a condition a setting belongs to the top level", len(rule.When) > 0 || has(n, "when")},
		{"use", "a rule says what to do", len(rule.Use) > 0 || has(n, "use")},
	} {
		if !part.has {
			r.wrong(n.offset, join(path, part.name), "is missing: %s", part.hint)
		}
	}
	r.Rules = append(r.Rules, rule)
}

func has(n *node, name string) bool {
	return slices.ContainsFunc(n.members, func(m member) bool { return m.name == name })
}

// words reads an object of settings or conditions.
func (r *layerReader) words(n *node, path string, words []Word, into map[string]string) {
	if !r.object(n, path) {
		return
	}
	if len(n.members) == 0 {
		r.wrong(n.offset, path, "is empty")
	}
	for _, m := range n.members {
		r.word(m, path, words, nil, into)
	}
}

// word reads one setting or condition.
func (r *layerReader) word(m member, path string, words []Word, others []string, into map[string]string) {
	w := find(words, m.name)
	if w == nil {
		r.unknown(m, path, words, others)
		return
	}
	path = join(path, m.name)
	r.places[path] = m.value.offset
	text, ok := r.value(w, m.value, path)
	if !ok {
		return
	}
	text, err := w.canonical(text)
	if err != nil {
		r.wrong(m.value.offset, path, "%v", err)
		return
	}
	into[m.name] = text
}

// site refuses names of call sites that no rank knows.
func (r *layerReader) site(names, path string) {
	for _, name := range strings.Split(names, "+") {
		if isLine(name) {
			r.wrong(r.places[path], path, "%s names a line of a file, which ranks do not know: name the function, or MODULE?0xOFFSET", name)
		}
	}
}

// isLine tells whether a pattern is of the form FILE:LINE. Names of C++ have two
// colons.
func isLine(pattern string) bool {
	return strings.Contains(strings.ReplaceAll(pattern, "::", ""), ":")
}

// unknown tells of a name that is not known, and what may have been meant.
func (r *layerReader) unknown(m member, path string, words []Word, others []string) {
	if w := find(settings, m.name); w != nil && !w.PerMessage && path != "" {
		r.wrong(m.offset, join(path, m.name), "is decided once for a job: move it to the top level")
		return
	}
	names := slices.Clone(others)
	for _, w := range words {
		names = append(names, w.Name)
	}
	text := "no such name here"
	near := nearest(m.name, names)
	if w := findShort(m.name); w != nil && slices.Contains(names, w.Name) {
		near = w.Name
	}
	if near != "" {
		text += ": did you mean " + near + "?"
	} else {
		text += ": known are " + strings.Join(names, ", ")
	}
	r.wrong(m.offset, join(path, m.name), "%s", text)
}

// value is a JSON value as text, if its type is one that the word takes.
func (r *layerReader) value(w *Word, n *node, path string) (string, bool) {
	switch v := n.value.(type) {
	case string:
		if w.Type != "int" && (w.Type != "enum" || !numeric(w)) {
			if (w.Type == "names" || w.Type == "choice") && strings.Contains(v, "+") {
				r.wrong(n.offset, path, "%q has a +: write several as a list [\"a\", \"b\"], and ? for the sign itself", v)
				return "", false
			}
			return v, true
		}
	case json.Number:
		if w.Type == "int" || w.Type == "size" || w.Type == "range" || w.Type == "enum" && numeric(w) {
			return v.String(), true
		}
	case json.Delim:
		if v == '[' && len(n.items) > 0 && (w.Type == "names" || w.Type == "choice") {
			return r.list(w, n, path)
		}
	}
	r.wrong(n.offset, path, "%s where %s is expected", n.kind(), expected(w))
	return "", false
}

// list is several values with + between them. auto stands alone.
func (r *layerReader) list(w *Word, n *node, path string) (string, bool) {
	out, good := make([]string, len(n.items)), true
	for i, item := range n.items {
		at := fmt.Sprintf("%s[%d]", path, i)
		v, ok := item.value.(string)
		switch {
		case !ok:
			r.wrong(item.offset, at, "%s where text is expected", item.kind())
		case strings.Contains(v, "+"):
			r.wrong(item.offset, at, "%q has a +: write ? for it", v)
			ok = false
		case v == auto && (w.Auto || w.Type == "choice"):
			r.wrong(item.offset, at, "auto does not go into a list: write it alone")
			ok = false
		}
		out[i], good = v, good && ok
	}
	return strings.Join(out, "+"), good
}

// numeric tells whether the values of an enum are numbers in JSON.
func numeric(w *Word) bool {
	_, err := strconv.Atoi(w.Values[0])
	return err == nil
}

// expected names what a word takes, for people.
func expected(w *Word) string {
	switch w.Type {
	case "int":
		return fmt.Sprintf("a whole number from %d to %d", w.Min, w.Max)
	case "size":
		return "a number of bytes (16384, \"16K\")"
	case "names":
		return "a name, or a list of names"
	case "range":
		return "a number or a range (64, \"..64\", \"1K..64K\")"
	case "choice":
		return "one of " + auto + ", " + strings.Join(w.Values, ", ") + ", or a list of them"
	}
	return "one of " + strings.Join(w.Values, ", ")
}

// messageSettings are those that may stand in a rule.
func messageSettings() []Word {
	return slices.DeleteFunc(slices.Clone(settings), func(w Word) bool { return !w.PerMessage })
}

var ruleName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
