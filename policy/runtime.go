package policy

import (
	"fmt"
	"strings"
)

// MostRules is how many rules a rank follows (MT_ACT_RULES of c/act/rules.h).
const MostRules = 32

// CheckRuntime finds what a policy demands that a rank cannot do: it must not be
// taken for done. The error is a Problems.
func (e *Effective) CheckRuntime() error {
	var out Problems
	for i := range e.Rules {
		r := &e.Rules[i]
		if i >= MostRules {
			out = append(out, r.layer.problem(r.path, fmt.Sprintf("a rank follows %d rules at most: state what most messages want at the top level", MostRules)))
			break
		}
		for _, site := range strings.Split(r.When["site"], "+") {
			if isLine(site) {
				out = append(out, r.layer.problem(r.path+".when.site", fmt.Sprintf("%s names a line of a file, which a rank does not know: name the function, or MODULE?0xOFFSET", site)))
			}
		}
	}
	return out.orNil()
}

// isLine tells whether a pattern is of the form FILE:LINE. C++ has names with two
// colons, which are no such thing.
func isLine(pattern string) bool {
	return strings.Contains(strings.ReplaceAll(pattern, "::", ""), ":")
}
