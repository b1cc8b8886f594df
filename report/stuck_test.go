package report

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/mpitrace/mpitrace/internal/synth"
)

// TestStuckOrder: what living ranks wait in is listed by entry, although the
// segment that is read last has waited for longest.
func TestStuckOrder(t *testing.T) {
	dir := t.TempDir()
	j := synth.Job{ID: "hangs", Ranks: 2}
	for rank, name := range []string{"MPI_Recv", "MPI_Barrier"} {
		s := in(unfinished(j.Segment(rank)), name, 16, 20e9+1000*uint64(rank), 1, -1, -1)
		path := filepath.Join(dir, strconv.Itoa(rank)+"-2.seg")
		if err := errors.Join(s.Live([]int{os.Getpid(), os.Getppid()}[rank]), os.WriteFile(path, s.Bytes(), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	r, err := Load(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Stuck) != 2 || r.Stuck[0].SinceNS == 0 || r.Stuck[0].Name != "MPI_Recv" {
		t.Errorf("calls in progress: %+v", r.Stuck)
	}
}
