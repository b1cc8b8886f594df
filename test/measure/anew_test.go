package measure

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mpitrace/mpitrace/arrival"
	"github.com/mpitrace/mpitrace/report"
)

// TestMadeAnew: a program that makes a communicator in every iteration, more
// than any table has rows, gets the same figures and the same finding as one
// that keeps it.
func TestMadeAnew(t *testing.T) {
	const n, late, ranks = 200, 1, 3
	eachMPI(t, func(t *testing.T, m mpi) {
		for _, test := range []struct {
			keep  string
			comms int
		}{{"1", 1}, {"0", n}} {
			t.Run("keep "+test.keep, func(t *testing.T) {
				try(t, func() (d deviation) {
					r := m.run(t, job{program: "anew", args: []string{fmt.Sprint(n), "2000", test.keep}, ranks: ranks})
					result, _ := r.analyse(t, arrival.Options{})
					operations := r.ledger.operations(t)
					if len(operations) != 1 || len(result.Classes) != 1 || result.Classes[0].Call.String() != "MPI_Allreduce" {
						t.Fatalf("%d operations in the ledger, %d classes", len(operations), len(result.Classes))
					}
					o, c := operations[0], result.Classes[0]
					o.agrees(&d, result, c, r.ledger.stampNS(t))
					d.equal("communicators", c.Comms, test.comms)
					if c.Ranks[0].Rank != late || !c.Pattern.Persistent || c.Pattern.Predicted != late {
						d.add("rank %d is waited for, pattern %+v", c.Ranks[0].Rank, c.Pattern)
					}
					var larger deviation
					if o.falsified(false).agrees(&larger, result, c, 0); d.holds() && len(larger.found) == 0 {
						t.Error("a false ledger is accepted")
					}
					rep, err := report.Load(r.out(), report.Options{})
					if err != nil {
						t.Fatal(err)
					}
					if found := strings.Join(rep.Findings, "\n"); !strings.Contains(found, "rank 1 arrives last at anew.c:") || !strings.Contains(found, "of 200 MPI_Allreduce calls") {
						d.add("findings: %s", found)
					}
					return d
				})
			})
		}
	})
}
