package policy_test

import (
	"fmt"
	"strings"

	"github.com/mpitrace/mpitrace/policy"
)

// A job's line over a file of the site.
func Example() {
	line, err := policy.ParseString("MPITRACE_ACT", "eager-reuse,rndv=read-event")
	if err != nil {
		fmt.Println(err)
		return
	}
	site, err := policy.ParseJSON("site.json", []byte(`{"schema": 1, "eager_limit": "8K",
		"rules": [{"name": "near", "when": {"peer": "same-node"}, "use": {"reuse_from": 256}}]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	effective, err := policy.Resolve(line, site)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(effective.Mode(), effective.Text("eager"), effective.Number("eager_limit"))
	fmt.Println(effective.Choose("reuse_from", &policy.Message{Peer: "same-node"}).Text, len(effective.Hash()))
	fmt.Println(strings.Contains(effective.Lines(), "\nrendezvous=read-event\n"))

	_, err = policy.ParseString("MPITRACE_ACT", "eager=resue")
	fmt.Println(err)
	// Output:
	// act reuse 8192
	// 256 32
	// true
	// MPITRACE_ACT:1:1: eager: "resue" is not one of auto, copy, reuse: did you mean reuse?
}
