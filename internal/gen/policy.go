package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// policyWord is a setting or a condition of spec/policy.json.
type policyWord struct {
	Name, Short, Scope, Type, Default, Doc string
	Values                                 []string
	Min, Max                               int64
	Auto                                   bool
}

type policySpec struct {
	Settings, Conditions []policyWord
}

func readPolicy(path string) (*policySpec, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	p := &policySpec{}
	if err := json.Unmarshal(text, p); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := p.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return p, nil
}

func (p *policySpec) check() error {
	seen := map[string]bool{}
	for _, w := range p.Settings {
		if w.Scope != "job" && w.Scope != "message" {
			return fmt.Errorf("%s: unknown scope %q", w.Name, w.Scope)
		}
		for _, name := range []string{w.Name, w.Short} {
			if name != "" && seen[name] {
				return fmt.Errorf("%s stands twice", name)
			}
			seen[name] = true
		}
	}
	for _, w := range slices.Concat(p.Settings, p.Conditions) {
		switch w.Type {
		case "enum", "choice":
			if len(w.Values) == 0 {
				return fmt.Errorf("%s has no values", w.Name)
			}
		case "size", "int", "names", "range":
		default:
			return fmt.Errorf("%s: unknown type %q", w.Name, w.Type)
		}
		if w.Name == "" || w.Doc == "" {
			return fmt.Errorf("%q needs a name and a doc", w.Name)
		}
	}
	return nil
}

func (p *policySpec) emit(out output) {
	var g bytes.Buffer
	fmt.Fprintf(&g, "// %s\n\npackage policy\n\n// settings is every setting, in the order of the spec.\nvar settings = []Word{\n", notice)
	for _, w := range p.Settings {
		w.emit(&g)
	}
	g.WriteString("}\n\n// conditions is everything that a rule may ask of a message.\nvar conditions = []Word{\n")
	for _, w := range p.Conditions {
		w.emit(&g)
	}
	g.WriteString("}\n")
	out["policy/spec_gen.go"] = gofmt(g.Bytes())
	out["docs/policy-settings.md"] = p.doc()
	out["docs/policy.schema.json"] = p.schema()
}

func (w *policyWord) emit(g *bytes.Buffer) {
	fmt.Fprintf(g, "{Name: %q, Short: %q, Type: %q, Values: %#v, Min: %d, Max: %d, Auto: %v, Default: %q, PerMessage: %v, Doc: %q},\n",
		w.Name, w.flag(), w.Type, w.Values, w.Min, w.Max, w.Auto, w.Default, w.Scope != "job", w.Doc)
}

// flag is the name in the short form.
func (w *policyWord) flag() string {
	if w.Short != "" {
		return w.Short
	}
	return strings.ReplaceAll(w.Name, "_", "-")
}

// values is what may stand for the word, for people.
func (w *policyWord) values() string {
	text := map[string]string{"enum": strings.Join(w.Values, ", "), "choice": strings.Join(w.Values, ", ") + "; several; auto: all",
		"size": "bytes", "int": fmt.Sprintf("%d to %d", w.Min, w.Max), "names": "names with * and ?", "range": "LOW..HIGH"}[w.Type]
	if w.Type == "size" {
		text += fmt.Sprintf(" from %d", w.Min)
		if w.Max != 0 {
			text += fmt.Sprintf(" to %d", w.Max)
		}
	}
	if w.Auto {
		text += "; auto"
	}
	return text
}

func (p *policySpec) doc() []byte {
	var d bytes.Buffer
	fmt.Fprintf(&d, "<!-- %s -->\n# Settings of a policy\n\n[policy.md](policy.md) says how they are given and what wins.\n\n| in a file | short form | in rules | values | default | meaning |\n|---|---|---|---|---|---|\n", notice)
	for _, w := range p.Settings {
		rule := ""
		if w.Scope == "message" {
			rule = "yes"
		}
		fmt.Fprintf(&d, "| `%s` | `%s=` | %s | %s | %s | %s |\n", w.Name, w.flag(), rule, w.values(), w.Default, w.Doc)
	}
	d.WriteString("\n## Conditions of a rule\n\n| name | values | meaning |\n|---|---|---|\n")
	for _, w := range p.Conditions {
		fmt.Fprintf(&d, "| `%s` | %s | %s |\n", w.Name, w.values(), w.Doc)
	}
	return d.Bytes()
}

// schema is the page as a JSON Schema, for editors.
func (p *policySpec) schema() []byte {
	type object = map[string]any
	top, use, when := object{}, object{}, object{}
	for _, w := range p.Settings {
		top[w.Name] = w.schema()
		if w.Scope == "message" {
			use[w.Name] = w.schema()
		}
	}
	for _, w := range p.Conditions {
		when[w.Name] = w.schema()
	}
	closed := func(properties object, required ...string) object {
		o := object{"type": "object", "properties": properties, "additionalProperties": false}
		if len(required) > 0 {
			o["required"] = required
		}
		return o
	}
	least := func(o object) object {
		o["minProperties"] = 1
		return o
	}
	top["schema"] = object{"const": 1}
	top["$schema"] = object{"type": "string"}
	top["comment"] = object{"type": "string"}
	top["rules"] = object{"type": "array", "items": closed(object{
		"name": object{"type": "string", "pattern": "^[A-Za-z0-9_.-]{1,64}$"}, "comment": object{"type": "string"},
		"when": least(closed(when)), "use": least(closed(use)),
	}, "when", "use")}
	o := closed(top, "schema")
	o["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	o["title"] = "mpitrace policy"
	o["$comment"] = notice
	text, err := json.MarshalIndent(o, "", " ")
	if err != nil {
		panic(err) // maps of strings
	}
	return append(text, '\n')
}

func (w *policyWord) schema() map[string]any {
	type object = map[string]any
	list := func(item object) []any {
		return []any{item, object{"type": "array", "items": item, "minItems": 1}}
	}
	o := object{"description": w.Doc}
	switch w.Type {
	case "enum":
		o["enum"] = w.enum()
	case "choice":
		o["anyOf"] = append(list(object{"enum": w.Values}), object{"const": "auto"})
	case "int":
		o["type"], o["minimum"], o["maximum"] = "integer", w.Min, w.Max
	case "size":
		number := object{"type": "integer", "minimum": w.Min}
		if w.Max != 0 {
			number["maximum"] = w.Max
		}
		forms := []any{number, object{"type": "string", "pattern": "^[0-9]+[KMGkmg]?$"}}
		if w.Auto {
			forms = append(forms, object{"const": "auto"})
		}
		o["anyOf"] = forms
	case "names":
		o["anyOf"] = list(object{"type": "string", "minLength": 1})
	case "range":
		o["anyOf"] = []any{object{"type": "integer", "minimum": 0}, object{"type": "string", "pattern": "^([0-9]+[KMGkmg]?)?(\\.\\.([0-9]+[KMGkmg]?)?)?$"}}
	}
	return o
}

// enum is the values of an enum as they stand in JSON.
func (w *policyWord) enum() []any {
	var out []any
	for _, v := range w.Values {
		if n, err := strconv.Atoi(v); err == nil {
			out = append(out, n)
		} else {
			out = append(out, v)
		}
	}
	return out
}
