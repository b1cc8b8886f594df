package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// LinesVersion is the first line of Lines. It changes when a line does.
const LinesVersion = 1

// Lines is the policy for the ranks: lines NAME=VALUE, in the order of the
// spec, the values in canonical form. docs/policy.md describes it. Equal
// policies have equal lines.
func (e *Effective) Lines() string {
	var b strings.Builder
	fmt.Fprintf(&b, "policy=%d\nhash=%s\n", LinesVersion, e.Hash())
	e.body(&b)
	return b.String()
}

func (e *Effective) body(b *strings.Builder) {
	for i := range settings {
		fmt.Fprintf(b, "%s=%s\n", settings[i].Name, e.Text(settings[i].Name))
	}
	fmt.Fprintf(b, "rules=%d\n", len(e.Rules))
	for i := range e.Rules {
		e.rule(b, i)
	}
}

func (e *Effective) rule(b *strings.Builder, i int) {
	r := &e.Rules[i]
	fmt.Fprintf(b, "rule.%d.name=%s\n", i, r.Name)
	part(b, fmt.Sprintf("rule.%d.when.", i), conditions, r.When)
	part(b, fmt.Sprintf("rule.%d.use.", i), settings, r.Use)
}

func part(b *strings.Builder, prefix string, words []Word, values map[string]string) {
	for i := range words {
		if v, ok := values[words[i].Name]; ok {
			fmt.Fprintf(b, "%s%s=%s\n", prefix, words[i].Name, v)
		}
	}
}

// MostWord is the longest Word: launchers are given all variables of a job in one
// argument, of which the kernel takes 128 KiB at most (execve(2), MAX_ARG_STRLEN).
const MostWord = 96 << 10

// word is for a launcher that takes line breaks apart, and the semicolons that Open MPI
// puts between variables.
var word = strings.NewReplacer("%", "%25", "|", "%7C", ";", "%3B", "\n", "|")

// Word is Lines as the value of a variable that goes through a launcher.
func (e *Effective) Word() string { return word.Replace(e.Lines()) }

// Hash is what all ranks must agree on, 32 hexadecimal digits. It depends on
// nothing but the values in effect and the rules: not on sources, the order of
// names, or how a file is laid out.
func (e *Effective) Hash() string {
	var b strings.Builder
	fmt.Fprintf(&b, "policy=%d\n", LinesVersion)
	e.body(&b)
	sum := sha256.Sum256([]byte(b.String()))
	return hex.EncodeToString(sum[:16])
}

// JSON is the policy as a file that ParseJSON reads: all settings and rules in
// effect, in the order of the spec.
func (e *Effective) JSON() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "{\n \"schema\": %d", schemaVersion)
	for i := range settings {
		fmt.Fprintf(&b, ",\n %q: %s", settings[i].Name, settings[i].json(e.Text(settings[i].Name)))
	}
	b.WriteString(",\n \"rules\": [")
	for i := range e.Rules {
		r := &e.Rules[i]
		if i > 0 {
			b.WriteString(",")
		}
		b.WriteString("\n  {")
		if r.Name != "" {
			fmt.Fprintf(&b, "\"name\": %s, ", quote(r.Name))
		}
		fmt.Fprintf(&b, "\"when\": %s, \"use\": %s}", objectOf(conditions, r.When), objectOf(settings, r.Use))
	}
	if len(e.Rules) > 0 {
		b.WriteString("\n ")
	}
	b.WriteString("]\n}\n")
	return []byte(b.String())
}

func objectOf(words []Word, values map[string]string) string {
	var parts []string
	for i := range words {
		if v, ok := values[words[i].Name]; ok {
			parts = append(parts, fmt.Sprintf("%q: %s", words[i].Name, words[i].json(v)))
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// json is a canonical value as it stands in a file.
func (w *Word) json(value string) string {
	text := w.text(value)
	switch {
	case w.Type == "int", w.Type == "size" && value != auto, w.Type == "enum" && numeric(w):
		if _, err := strconv.ParseInt(value, 10, 64); err == nil {
			return value
		}
	case w.Type != "range" && strings.Contains(text, "+"):
		var list []string
		for _, v := range strings.Split(text, "+") {
			list = append(list, quote(v))
		}
		return "[" + strings.Join(list, ", ") + "]"
	}
	return quote(text)
}

func quote(text string) string {
	q, err := json.Marshal(text)
	if err != nil {
		panic(err) // text alone is always encoded
	}
	return string(q)
}
