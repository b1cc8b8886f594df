package report_test

import (
	"fmt"
	"log"
	"os"

	"github.com/mpitrace/mpitrace/internal/synth"
	"github.com/mpitrace/mpitrace/report"
)

// Reads a result and prints the functions that took most of the time.
func ExampleLoad() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := (synth.Job{ID: "demo", Ranks: 4}).Write(dir); err != nil {
		log.Fatal(err)
	}

	r, err := report.Load(dir, report.Options{})
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range r.Functions[:2] {
		fmt.Printf("%s: %d calls, %d ms, most in rank %d\n", f.Name, f.Calls, f.TimeNS/1e6, f.Spread.MaxRank)
	}
	// Output:
	// MPI_Waitall: 40000 calls, 16000 ms, most in rank 1
	// MPI_Allreduce: 40000 calls, 10000 ms, most in rank 1
}
