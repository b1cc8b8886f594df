package report

import "testing"

// What is hidden behind a request ends where its completing call begins: another
// request of the same call may take all of the time in it.
func TestAdviceWindows(t *testing.T) {
	r := &Report{Functions: []*Function{{
		Name: "MPI_Irecv", Completed: 2, CompletedNS: 1_000_000, BeforeNS: 6000, BlockedNS: 450_000,
		Sizes: []Bin{{From: 1 << 16, To: 1 << 17, Count: 2}},
	}}}
	sizes := r.AdviceInput().Sizes
	if len(sizes) != 1 || sizes[0].RequestNS-sizes[0].BlockedNS != 6000 {
		t.Errorf("window of %+v, not 6000 ns", sizes)
	}
}
