package segment_test

import (
	"fmt"
	"log"
	"os"

	"github.com/mpitrace/mpitrace/internal/synth"
	"github.com/mpitrace/mpitrace/segment"
)

// Reads a result directory and prints the calls of each rank.
func ExampleReadResult() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := (synth.Job{ID: "demo", Ranks: 3}).Write(dir); err != nil {
		log.Fatal(err)
	}

	result, err := segment.ReadResult(dir)
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range result.Segments {
		var calls uint64
		for _, site := range s.Sites() {
			calls += site.Calls
		}
		fmt.Printf("rank %d on %s: %d calls\n", s.Header.WorldRank, s.Header.NodeName(), calls)
	}
	// Output:
	// rank 0 on node000: 40009 calls
	// rank 1 on node000: 60009 calls
	// rank 2 on node000: 40009 calls
}
