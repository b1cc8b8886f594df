// Package doctor examines what mpitrace needs on this machine. It only looks:
// it changes nothing, and starts nothing but launchers for their version, /bin/true
// with the shim, and what Options.Devices asks.
package doctor

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// Grade of a check.
const (
	OK   = "ok"
	Warn = "warn" // works, but less well
	Fail = "fail" // mpitrace does not work
)

// Check is one thing that was looked at.
type Check struct {
	Name  string `json:"name"`
	Grade string `json:"status"` // OK, Warn or Fail
	Found string `json:"found"`
	Mend  string `json:"mend,omitempty"` // what to do, empty if OK
}

// Options say where to look.
type Options struct {
	Shim      string // path of the shim
	ShimError error  // why it was not found
	Bases     []string
	Devices   func() ([]string, error) // that messages could go by, of those that are up
}

// Examine makes all checks, in the order in which they matter.
func Examine(o Options) []Check {
	checks := mpis()
	checks = append(checks, shim(o), clockSource(), clockCost(), sharedMemory(o.Bases))
	checks = append(checks, limits()...)
	return append(checks, acting(o)...)
}

// Failed tells that some check failed.
func Failed(checks []Check) bool {
	for _, c := range checks {
		if c.Grade == Fail {
			return true
		}
	}
	return false
}

// WriteText writes the checks as lines.
func WriteText(w io.Writer, checks []Check) error {
	table := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, c := range checks {
		fmt.Fprintf(table, "%s\t%s\t%s\n", c.Grade, c.Name, c.Found)
		if c.Mend != "" {
			fmt.Fprintf(table, "\t\t-> %s\n", c.Mend)
		}
	}
	return table.Flush()
}
