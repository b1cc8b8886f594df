package reusetrack_test

import (
	"fmt"
	"strings"

	"github.com/mpitrace/mpitrace/reusetrack"
	"github.com/mpitrace/mpitrace/segment"
)

// Asks of a program that sends one buffer of 4 KiB a thousand times whether it
// should be registered.
func Example() {
	costs, err := reusetrack.ReadCosts(strings.NewReader(`{"schema": 1, "source": "an example",
		"copy": [{"bytes": 128, "ns": 20}, {"bytes": 8192, "ns": 900}],
		"register": [{"bytes": 4096, "ns": 20000}],
		"usage_lookup": [{"bytes": 128, "ns": 40}]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	var table reusetrack.Table
	for range 1000 {
		table.Access(reusetrack.Access{Address: 0x7f0000001000, Path: segment.PathSend, Bytes: 4096})
	}
	summary := reusetrack.NewSummary(reusetrack.Options{Costs: costs})
	summary.Add(reusetrack.NewRank(0, table.Rows(), table.Reuse()))

	n, _ := costs.MinUses(4096, 0)
	p := summary.Predictions()[0]
	fmt.Printf("pays after %d uses; %.1f %% reused; saves %.0f us\n", n, summary.Table1(segment.PathSend).ReusedPercent, p.Hidden.NetNS/1000)
	_, ok := costs.MinUses(4096, 2000)
	fmt.Println("pays if each send waits for 2 us:", ok)
	// Output:
	// pays after 49 uses; 99.9 % reused; saves 388 us
	// pays if each send waits for 2 us: false
}
