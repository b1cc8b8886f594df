package policy

import (
	"fmt"
	"strings"
	"text/tabwriter"
)

// Table is the policy for people: what is in effect, and who said so.
func (e *Effective) Table() string {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	for i := range settings {
		v := e.Settings[settings[i].Name]
		fmt.Fprintf(t, "%s\t%s\t%s\n", settings[i].Name, settings[i].text(v.Text), v.Source)
	}
	t.Flush()
	fmt.Fprintf(&b, "\nHash, which all ranks must agree on: %s\n", e.Hash())
	if len(e.Rules) > 0 {
		b.WriteString("\nRules, of which the first that matches and states a setting decides it:\n")
	}
	for i := range e.Rules {
		r := &e.Rules[i]
		name := fmt.Sprintf("%2d", i+1)
		if r.Name != "" {
			name += " " + r.Name
		}
		fmt.Fprintf(&b, "%s (%s): when %s use %s\n", name, r.Source(), list(conditions, r.When), list(settings, r.Use))
	}
	return b.String()
}

// list is values as people write them, in the order of the spec.
func list(words []Word, values map[string]string) string {
	var parts []string
	for i := range words {
		if v, ok := values[words[i].Name]; ok {
			parts = append(parts, words[i].Name+"="+words[i].text(v))
		}
	}
	return strings.Join(parts, ",")
}
