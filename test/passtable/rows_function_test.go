package passtable

import (
	"fmt"
	"slices"
)

// once gives every function one call.
func once(names ...string) counts {
	all := counts{}
	for _, name := range names {
		all[name]++
	}
	return all
}

// with adds more to what c has.
func (c counts) with(more counts) counts {
	for name, calls := range more {
		c[name] += calls
	}
	return c
}

// grid is what a rank of grid.c does that has so many neighbours and sends
// them so many bytes by the variants with counts.
func grid(neighbours, counted int64) expectation {
	return expectation{
		calls: once("Init", "Cart_create", "Comm_rank", "Neighbor_alltoall", "Neighbor_alltoallv", "Neighbor_alltoallw", "Comm_free", "Finalize"),
		bytes: counts{"Neighbor_alltoall": 8 * neighbours, "Neighbor_alltoallv": counted, "Neighbor_alltoallw": counted},
	}
}

func functionRows() []row {
	collectives := once("Init", "Comm_rank", "Comm_dup", "Barrier", "Bcast", "Gather", "Gatherv", "Scatter", "Scatterv", "Allgather",
		"Allgatherv", "Alltoall", "Alltoallv", "Alltoallw", "Reduce", "Allreduce", "Allreduce", "Reduce_scatter", "Reduce_scatter_block",
		"Scan", "Exscan", "Ibarrier", "Ibcast", "Igather", "Iscatter", "Iallgather", "Ialltoall", "Ireduce", "Iallreduce", "Iscan",
		"Comm_free", "Finalize").with(counts{"Wait": 9})
	rma := expectation{
		calls: once("Init", "Comm_rank", "Win_create", "Win_lock", "Fetch_and_op", "Win_unlock", "Win_free", "Finalize").
			with(counts{"Win_fence": 6, "Put": 5, "Get": 3, "Accumulate": 2}),
		bytes: counts{"Put": 40, "Get": 24, "Accumulate": 16},
	}
	file := func() counts {
		return once("Init", "Comm_rank", "File_open", "File_set_view", "File_seek", "File_iwrite_at", "Wait", "File_close", "Barrier", "Finalize").
			with(counts{"File_write_all": 3, "File_read_all": 3})
	}
	return []row{
		{
			name: "collectives", what: "26 collectives, blocking and not",
			program: "collectives.c", ranks: 2, want: []expectation{{calls: collectives}},
		},
		{
			name: "grid", what: "neighbourhood collectives at the edge of a grid", program: "grid.c", args: []string{"3"}, ranks: 3,
			want: []expectation{grid(1, 8), grid(2, 12), grid(1, 4)},
		},
		{
			name: "one_sided", what: "windows: Put, Get, Accumulate, Fetch_and_op",
			program: "rma.c", ranks: 2, want: []expectation{rma},
		},
		{
			name: "files", what: "MPI-IO, whose library calls MPI itself", program: "file.c", ranks: 2,
			want: []expectation{{calls: file().with(counts{"File_delete": 1})}, {calls: file()}},
		},
		intercommRow(),
		spawnRow(),
		{
			name: "pcontrol", what: "MPI_Pcontrol: off, on, phases", program: "pcontrol.c", ranks: 2,
			want:  []expectation{{calls: counts{"Init": 1, "Comm_rank": 1, "Barrier": 15, "Pcontrol": 3, "Finalize": 1}}},
			check: phases,
		},
		heatRow("heat_c", "examples/heat.c, with the fresh grids and an imbalance", "heat.c"),
		heatRow("heat_f08", "examples/heat_f08.f90, likewise", "heat_f08.f90"),
	}
}

func intercommRow() row {
	want := expectation{calls: once("Init", "Comm_split", "Intercomm_create", "Comm_remote_size", "Allreduce", "Barrier", "Intercomm_merge", "Finalize").
		with(counts{"Comm_rank": 2, "Sendrecv": 5, "Comm_free": 3})}
	return row{
		name: "intercomm", what: "an intercommunicator: peers are ranks of the remote group", program: "intercomm.c", ranks: 2,
		want: pair(want, 5, 44),
	}
}

func spawnRow() row {
	return row{
		name: "spawn", what: "MPI_Comm_spawn: children with a world of their own", program: "spawn.c", ranks: 2,
		lacks: map[string]*reason{"mpich": cannotSpawn()},
		want: []expectation{{
			calls: once("Init", "Comm_get_parent", "Comm_rank", "Comm_spawn", "Comm_disconnect", "Finalize").with(counts{"Send": 4, "Recv": 4}),
			bytes: counts{"Send": 32, "Recv": 32},
		}},
		check: spawned,
	}
}

// spawned requires the two children, kept apart from their parents.
func spawned(_ *harness, rep *report) []string {
	want := expectation{
		calls: once("Init", "Comm_get_parent", "Comm_rank", "Barrier", "Comm_disconnect", "Finalize").with(counts{"Send": 4, "Recv": 4}),
		bytes: counts{"Send": 32, "Recv": 32},
	}
	var problems []string
	parents := rep.world()
	children := 0
	for _, r := range rep.Ranks {
		if r.World == parents {
			continue
		}
		children++
		for _, problem := range want.compare(r, false) {
			problems = append(problems, fmt.Sprintf("child %d: %s", r.Rank, problem))
		}
	}
	if children != 2 {
		problems = append(problems, fmt.Sprintf("%d children are in the report, want 2", children))
	}
	return problems
}

// phases requires the barriers of both ranks in the phases they belong to, and
// phases that take no longer than the ranks do, for which MPI_Init does not count.
func phases(_ *harness, rep *report) []string {
	sums := map[int]int64{}
	for _, s := range rep.Sites {
		if s.Function.Name == "MPI_Barrier" {
			sums[s.Phase] += s.Calls
		}
	}
	var got []int64
	for _, calls := range sums {
		got = append(got, calls)
	}
	slices.Sort(got)
	if !slices.Equal(got, []int64{8, 10, 12}) {
		return []string{fmt.Sprintf("barriers by phase: got %v, want 10, 8 and 12", sums)}
	}
	var wall, inPhases int64
	for _, r := range rep.Ranks {
		wall += r.WallNS
	}
	for _, p := range rep.Phases {
		inPhases += p.TimeNS
	}
	if wall == 0 || inPhases > wall {
		return []string{fmt.Sprintf("phases take %d ns, and the ranks %d ns", inPhases, wall)}
	}
	return nil
}

// heatRow runs an example on two ranks for 10 steps.
func heatRow(name, what, program string) row {
	want := expectation{calls: once("Init", "Comm_size", "Comm_rank", "Dims_create", "Cart_create", "Cart_coords", "Type_vector", "Type_commit",
		"Reduce", "Type_free", "Comm_free", "Finalize").
		with(counts{"Pcontrol": 2, "Cart_shift": 2, "Irecv": 40, "Isend": 40, "Waitall": 10, "Allreduce": 10})}
	return row{
		name: name, what: what, program: "../../examples/" + program, ranks: 2, want: pair(want, 10, 10*64*8),
		args: []string{"-n", "64", "-s", "10", "--fresh", "--imbalance", "1:2.5"},
	}
}
