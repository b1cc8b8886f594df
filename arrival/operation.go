package arrival

import (
	"strings"

	"github.com/mpitrace/mpitrace/segment"
)

// Dependency says whose arrival a rank needs before its part of a collective
// operation can be complete.
type Dependency uint8

// The shapes of dependencies.
const (
	DependencyUnknown    Dependency = iota // not known: spread only
	DependencyAllToAll                     // all need all: barrier, allreduce, allgather, alltoall, reduce_scatter
	DependencyOneToAll                     // all need the root: bcast, scatter
	DependencyAllToOne                     // the root needs all: reduce, gather
	DependencyPrefix                       // rank i needs ranks 0 to i-1: scan, exscan
	DependencyNeighbours                   // each needs its neighbours, which are not recorded: spread only
)

// String is the name of the shape as reports and JSON use it.
func (d Dependency) String() string {
	names := [...]string{"unknown", "all-to-all", "one-to-all", "all-to-one", "prefix", "neighbours"}
	if int(d) < len(names) {
		return names[d]
	}
	return names[0]
}

// operation is what the analysis knows of a collective function.
type operation struct {
	dependency Dependency
	// aligns: no rank leaves before all active ones have entered, so that
	// clocks can be compared. The counts of alltoallv, alltoallw and
	// reduce_scatter may be 0 for any pair, unseen by us: they do not.
	aligns bool
	// irregular: as said of aligns; waiting is claimed only of instances that
	// nobody was seen to leave before the last one entered.
	irregular bool
	// weightless: it needs no payload to synchronise.
	weightless bool
}

var operations = map[string]operation{
	"barrier":              {DependencyAllToAll, true, false, true},
	"allreduce":            {DependencyAllToAll, true, false, false},
	"allgather":            {DependencyAllToAll, true, false, false},
	"allgatherv":           {DependencyAllToAll, true, false, false},
	"alltoall":             {DependencyAllToAll, true, false, false},
	"reduce_scatter_block": {DependencyAllToAll, true, false, false},
	"alltoallv":            {DependencyAllToAll, false, true, false},
	"alltoallw":            {DependencyAllToAll, false, true, false},
	"reduce_scatter":       {DependencyAllToAll, false, true, false},
	"bcast":                {DependencyOneToAll, false, false, false},
	"scatter":              {DependencyOneToAll, false, false, false},
	"scatterv":             {DependencyOneToAll, false, false, false},
	"reduce":               {DependencyAllToOne, false, false, false},
	"gather":               {DependencyAllToOne, false, false, false},
	"gatherv":              {DependencyAllToOne, false, false, false},
	"scan":                 {DependencyPrefix, false, false, false},
	"exscan":               {DependencyPrefix, false, false, false},
}

// operationOf knows blocking, nonblocking, persistent and large-count forms.
func operationOf(call segment.Call) operation {
	name := strings.TrimPrefix(call.String(), "MPI_")
	name = strings.TrimSuffix(strings.TrimSuffix(name, "_c"), "_init")
	if call.Class() == "icoll" {
		name = strings.TrimPrefix(name, "I")
	}
	name = strings.ToLower(name)
	if strings.HasPrefix(name, "neighbor_") {
		return operation{dependency: DependencyNeighbours}
	}
	return operations[name]
}

// smallCount is the function of which call may be the large-count form: ranks
// may mix the two in one operation.
func smallCount(call uint16) segment.Call {
	c := segment.Call(call)
	if c > segment.CallLarge && (c-segment.CallLarge).Class() == c.Class() {
		return c - segment.CallLarge
	}
	return c
}

// Hockney is a model of the time in nanoseconds that one message takes:
// startup plus a constant time per byte (Hockney 1994: t0 + m/rinf).
func Hockney(startupNS, nsPerByte float64) func(bytes uint64) float64 {
	return func(bytes uint64) float64 { return startupNS + nsPerByte*float64(bytes) }
}
