package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// knob is one entry of spec/knobs.json.
type knob struct {
	Name, Type, Default, Side, Doc string
	Values                         []string
	Min, Max                       int64
}

type knobs struct{ Knobs []knob }

func readKnobs(path string) (*knobs, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	k := &knobs{}
	if err := json.Unmarshal(text, k); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, n := range k.Knobs {
		switch n.Type {
		case "bool", "size", "int", "enum", "path", "list", "text":
		default:
			return nil, fmt.Errorf("%s: knob %s has unknown type %q", path, n.Name, n.Type)
		}
		switch n.Side {
		case "shim", "run", "internal", "site":
		default:
			return nil, fmt.Errorf("%s: knob %s has unknown side %q", path, n.Name, n.Side)
		}
	}
	return k, nil
}

func (k *knobs) emit(out output) {
	var c, others, g, d bytes.Buffer
	fmt.Fprintf(&c, "/* %s */\n#ifndef MPITRACE_KNOBS_GEN_H\n#define MPITRACE_KNOBS_GEN_H\n\n", notice)
	c.WriteString("/* X(field, environment variable, default) of every knob that the ranks read */\n")
	c.WriteString("#define MPITRACE_KNOBS(X)")
	fmt.Fprintf(&g, "// %s\n\n// Package knobs lists the settings of spec/knobs.json.\npackage knobs\n\n// Knob is one setting.\ntype Knob struct {\nName string // as in the spec\nEnv string // environment variable\nFlag string // flag of mpitrace run, empty if it has none\nType string\nDefault string\nValues []string // of an enum\nMin, Max int64 // of an int, if Max is not 0\nSide string // shim, run, internal or site\nDoc string\n}\n\n// All is every setting, in the order of the spec.\nvar All = []Knob{\n", notice)
	fmt.Fprintf(&d, "<!-- %s -->\n# Settings\n\nEvery setting is an environment variable; those with a flag can be given to `mpitrace run`, which hands them to all ranks. An unknown `MPITRACE_` variable is named once by rank 0.\n\n| variable | flag | values | default | meaning |\n|---|---|---|---|---|\n", notice)
	for _, n := range k.Knobs {
		env := "MPITRACE_" + strings.ToUpper(n.Name)
		option := "--" + strings.ReplaceAll(n.Name, "_", "-")
		if n.Side == "internal" || n.Side == "site" {
			option = ""
		}
		if n.Side == "run" || n.Side == "site" {
			fmt.Fprintf(&others, " \\\n    X(%q)", env)
		} else {
			fmt.Fprintf(&c, " \\\n    X(%s, %q, %q)", n.Name, env, n.Default)
		}
		fmt.Fprintf(&g, "{%q, %q, %q, %q, %q, %#v, %d, %d, %q, %q},\n", n.Name, env, strings.TrimPrefix(option, "--"), n.Type, n.Default, n.Values, n.Min, n.Max, n.Side, n.Doc)
		values := n.Type
		if n.Type == "enum" {
			values = strings.Join(n.Values, ", ")
		}
		if n.Max != 0 {
			values = fmt.Sprintf("%d to %d", n.Min, n.Max)
		}
		if option != "" {
			option = "`" + option + "`"
		}
		fmt.Fprintf(&d, "| `%s` | %s | %s | %s | %s |\n", env, option, values, n.Default, n.Doc)
	}
	fmt.Fprintf(&c, "\n\n/* X(environment variable) of every other name that is no mistake */\n#define MPITRACE_OTHER_NAMES(X)%s\n\n#endif\n", &others)
	g.WriteString("}\n")
	out["c/include/knobs.gen.h"] = c.Bytes()
	out["internal/knobs/knobs_gen.go"] = gofmt(g.Bytes())
	out["docs/settings.md"] = d.Bytes()
}
