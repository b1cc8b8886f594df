package top_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/mpitrace/mpitrace/internal/top"
)

// Example shows the screen of two readings of a job.
func Example() {
	const second = 1_000_000_000
	at := time.Date(2026, 1, 2, 9, 30, 0, 0, time.UTC)
	snapshot := func(seconds uint64) *top.Snapshot {
		return &top.Snapshot{
			At:  at.Add(time.Duration(seconds) * time.Second),
			Job: top.Job{ID: "4711", Command: "heat -n 2048", MPI: "Open MPI v4.1.4", State: "running", WallNS: seconds * second},
			Ranks: []top.Rank{{
				ID: top.RankID{Rank: 0}, State: "running", WallNS: seconds * second, BusyNS: seconds * second / 4,
				Calls: seconds * 1500, Bytes: seconds * 1 << 20,
			}},
		}
	}
	m := top.NewModel(top.Options{Job: "4711"}).Resize(80, 8)
	m = m.Take(top.Reading{Want: m.Want(), Snapshot: snapshot(10)})
	m = m.Take(top.Reading{Want: m.Want(), Snapshot: snapshot(12)})
	fmt.Println(strings.Split(m.Text(), "\n")[4])
	// Output:
	// >    0 running   25%  25%  1.50 k  1.05 MB    -        -
}
