package arrival_test

import (
	"fmt"

	"github.com/mpitrace/mpitrace/arrival"
	"github.com/mpitrace/mpitrace/internal/synth"
	"github.com/mpitrace/mpitrace/segment"
)

// Two ranks of one node meet in a barrier, the second of them 400 ns late.
func Example() {
	a := arrival.New(arrival.Options{})
	for rank := range 2 {
		s := synth.Job{ID: "example", Ranks: 2}.Segment(rank)
		enter := synth.Ticks(1000 + 400*uint64(rank))
		call := uint16(synth.ID("MPI_Barrier"))
		s.Extra = []synth.Section{
			synth.NewSection(segment.SectionKindArrivals, 0, segment.RawArrival{CommID: 77 * 0x100, Kin: 77 * 0x100, EnterTicks: enter, WaitTicks: enter,
				ExitTicks: synth.Ticks(1500), Root: -1, Rank: int32(rank), Size: 2, Call: call}),
			synth.NewSection(segment.SectionKindArrivalClasses, 0, segment.RawArrivalClass{Kin: 77 * 0x100, Call: call, Instances: 1, Kept: 1}),
		}
		parsed, err := segment.Parse("rank", s.Bytes())
		if err != nil {
			fmt.Println(err)
			return
		}
		a.Add(parsed)
	}
	for _, c := range a.Result().Classes {
		fmt.Printf("%v: %d of %d sampled, waiting %.0f ns, caused by rank %d\n", c.Call, c.Sampled, c.Instances, c.Waiting.NS, c.Ranks[0].Rank)
	}
	// Output: MPI_Barrier: 1 of 1 sampled, waiting 400 ns, caused by rank 1
}
