package passtable

import (
	"flag"
	"fmt"
	"os"
	"strings"
)

var writeTable = flag.Bool("table", false, "write docs/pass-table.md from what happened")

const tableHead = `# Pass table

What happens to a program when libmpishim.so is preloaded: each row is a
program of test/programs that was run without and with the shim. **pass** means:
the same bytes on stdout, the same exit status and return codes, no line of the
shim on stderr but the one that the row says, and in the report exactly the
calls that the program made up to its end, as its opening comment states them
(their number is given, without polling; "and others": a library in between
makes further calls, which are not checked). Where a row cannot run on an MPI, the reason stands
here, and its truth is tested.

Written by ` + "`go test ./test/passtable -args -table`" + `; the same test with
a deliberately wrong library preloaded has to fail (TestNegativeControl).

`

// saveTable writes docs/pass-table.md; it needs a run of all rows.
func saveTable(titles []string, results map[string]map[string]result) error {
	var b strings.Builder
	b.WriteString(tableHead)
	fmt.Fprintf(&b, "| row | what runs | %s |\n|---|---|%s\n", strings.Join(titles, " | "), strings.Repeat("---|", len(titles)))
	for _, r := range allRows() {
		fmt.Fprintf(&b, "| %s | %s |", r.name, r.what)
		for _, m := range families() {
			res, ran := results[m.Name][r.name]
			if !ran {
				return fmt.Errorf("docs/pass-table.md: row %s did not run on %s; run all rows to write the table", r.name, m.Name)
			}
			fmt.Fprintf(&b, " %s |", res)
		}
		b.WriteString("\n")
	}
	return os.WriteFile("../../docs/pass-table.md", []byte(b.String()), 0o644)
}

// String is the cell of the table.
func (r result) String() string {
	switch {
	case r.failed:
		return "**FAIL**"
	case r.reason != "":
		return r.reason
	case r.calls == 0:
		return "pass"
	case r.loose:
		return fmt.Sprintf("pass, %d calls and others", r.calls)
	}
	return fmt.Sprintf("pass, %d calls", r.calls)
}
