package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
)

// counts is spec/act.json.
type counts struct {
	Groups []struct {
		Name, Doc string
		Counts    [][2]string // name and meaning
	}
}

var countName = regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`)

// countNameLimit is what a name may have in a segment (struct act_count).
const countNameLimit = 39

func readCounts(path string) (*counts, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	c := &counts{}
	if err := json.Unmarshal(text, c); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// check holds names to what they have to be in C, Go and a segment.
func (c *counts) check() error {
	seen := map[string]bool{}
	for _, g := range c.Groups {
		for _, n := range g.Counts {
			switch {
			case !countName.MatchString(n[0]) || len(n[0]) > countNameLimit:
				return fmt.Errorf("%q: a name is at most %d small letters and single _", n[0], countNameLimit)
			case n[1] == "":
				return fmt.Errorf("%s: needs a meaning", n[0])
			case seen[n[0]]:
				return fmt.Errorf("%s: stands twice", n[0])
			}
			seen[n[0]] = true
		}
	}
	return nil
}

func (c *counts) emit(out output) {
	out["c/include/counts.gen.h"] = c.emitC()
	out["segment/counts_gen.go"] = c.emitGo()
	out["docs/act-counts.md"] = c.emitDocs()
}

// emitC makes a struct and a list of names for each group.
func (c *counts) emitC() []byte {
	var b bytes.Buffer
	all := 0
	fmt.Fprintf(&b, "/* %s */\n#ifndef MPITRACE_COUNTS_GEN_H\n#define MPITRACE_COUNTS_GEN_H\n\n#include <stdint.h>\n", notice)
	for _, g := range c.Groups {
		fmt.Fprintf(&b, "\n/* %s */\nstruct mt_%s_counts {\n", g.Doc, g.Name)
		for _, n := range g.Counts {
			fmt.Fprintf(&b, "    uint64_t %s; /* %s */\n", n[0], n[1])
		}
		fmt.Fprintf(&b, "};\n#define MT_%s_COUNTS(X)", strings.ToUpper(g.Name))
		for _, n := range g.Counts {
			fmt.Fprintf(&b, " \\\n    X(%s)", n[0])
		}
		b.WriteString("\n")
		all += len(g.Counts)
	}
	fmt.Fprintf(&b, "\nenum { MPITRACE_COUNTS = %d }; /* in all groups */\n\n#endif\n", all)
	return b.Bytes()
}

func (c *counts) emitGo() []byte {
	var b, groups bytes.Buffer
	fmt.Fprintf(&b, "// %s\n\npackage segment\n\n// Indices of ActCounts; docs/act-counts.md says what each means.\nconst (\n", notice)
	first, before := true, "0"
	for _, g := range c.Groups {
		for _, n := range g.Counts {
			value := ""
			if first {
				value, first = " = iota", false
			}
			fmt.Fprintf(&b, "Act%s%s // %s\n", camel(n[0]), value, n[1])
		}
		end := "Act" + camel(g.Counts[len(g.Counts)-1][0]) + " + 1"
		fmt.Fprintf(&groups, "%q: {%s, %s},\n", g.Name, before, end)
		before = end
	}
	fmt.Fprintf(&b, ")\n\n// actCounts are the names and meanings.\nvar actCounts = [...]struct{ name, text string }{\n")
	for _, g := range c.Groups {
		for _, n := range g.Counts {
			fmt.Fprintf(&b, "{%q, %q},\n", n[0], n[1])
		}
	}
	fmt.Fprintf(&b, "}\n\n// actGroups are the indices of each group: from, to less than.\nvar actGroups = map[string][2]int{\n%s}\n", groups.String())
	return gofmt(b.Bytes())
}

func (c *counts) emitDocs() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "<!-- %s -->\n# What a rank in act mode counts\n\nIn its segment while it runs, and in `act-WORLD-RANK.json` ([act.md](act.md)).\n", notice)
	for _, g := range c.Groups {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| count | meaning |\n|---|---|\n", camel(g.Name), g.Doc)
		for _, n := range g.Counts {
			fmt.Fprintf(&b, "| `%s` | %s |\n", n[0], n[1])
		}
	}
	return b.Bytes()
}
