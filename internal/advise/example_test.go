package advise_test

import (
	"fmt"

	"github.com/mpitrace/mpitrace/internal/advise"
)

// Asks about receives of a megabyte that are blocked in Wait although the
// program computes before it.
func Example() {
	r := advise.Advise(advise.Input{Ranks: 8, MPINS: 100e9, TransferBytesPerNS: 5, Sites: []advise.Site{
		{Function: "MPI_Irecv", Place: "bt.f:70", Calls: 100_000, Bytes: 100_000 << 20, RequestNS: 150e9, BlockedNS: 30e9},
	}})
	fmt.Println(r.Verdict)
	// Output:
	// About 21.0 s of the 100 s in MPI (21 %) could be saved, first by read rendezvous.
}
