package policy

// CheckRuntime finds what a policy demands that the runtime of this version
// cannot do yet: it must not be taken for done. What a policy leaves open among
// other choices is no demand. The error is a Problems.
func (e *Effective) CheckRuntime() error {
	var out Problems
	for i := range e.Rules {
		r := &e.Rules[i]
		if len(r.Use) == 1 && r.Use["eager"] == "copy" && e.Text("eager") != "reuse" {
			continue // as everywhere
		}
		out = append(out, r.layer.problem(r.path, "rules are not followed by the runtime of this version: state the settings for the whole job"))
	}
	return out.orNil()
}
