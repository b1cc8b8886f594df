package passtable

import (
	"fmt"
	"slices"
)

// allRows is the table, in the order of the document.
func allRows() []row {
	return slices.Concat(languageRows(), siteRows(), requestRows(), functionRows(), errorRows(), processRows(), environmentRows(), toolRows(), regressionRows())
}

// basicExchange is what each rank of the basic programs does.
func basicExchange(finish counts) counts {
	all := counts{
		"Init": 1, "Comm_rank": 1, "Comm_size": 1, "Send": 10, "Recv": 10, "Irecv": 3, "Isend": 3, "Waitall": 3,
		"Sendrecv": 4, "Bcast": 2, "Allreduce": 3, "Barrier": 1, "Finalize": 1,
	}
	for name, calls := range finish {
		all[name] += calls
		if all[name] == 0 {
			delete(all, name)
		}
	}
	return all
}

// basicWant is the expectation of the two ranks of the basic programs.
func basicWant() []expectation {
	var both []expectation
	for rank := range 2 {
		both = append(both, expectation{
			calls:    basicExchange(nil),
			bytes:    counts{"Send": 4000, "Recv": 4000, "Isend": 1200, "Irecv": 1200, "Sendrecv": 64},
			peers:    []peer{{Rank: 1 - rank, SentMessages: 17, SentBytes: 5232, ReceivedMessages: 17, ReceivedBytes: 5232}},
			requests: &requests{Started: 6, Completed: 6},
		})
	}
	return both
}

// largeWant is basicWant by the functions of MPI 4 with large counts.
func largeWant() []expectation {
	calls := counts{
		"Init": 1, "Comm_rank": 1, "Comm_size": 1, "Send_c": 10, "Recv_c": 10, "Irecv_c": 3, "Isend_c": 3, "Waitall": 3,
		"Sendrecv_c": 4, "Bcast_c": 2, "Allreduce_c": 3, "Barrier": 1, "Finalize": 1,
		"Type_contiguous_c": 1, "Type_commit": 1, "Type_size_c": 1, "Type_free": 1,
	}
	both := basicWant()
	for rank := range both {
		both[rank].calls = calls
		both[rank].bytes = counts{"Send_c": 4000, "Recv_c": 4000, "Isend_c": 1200, "Irecv_c": 1200, "Sendrecv_c": 64}
	}
	return both
}

// pythonWant: mpi4py makes more calls than the script; those of the script are checked.
func pythonWant() []expectation {
	both := basicWant()
	for rank := range both {
		both[rank].calls = basicExchange(counts{"Init": -1, "Comm_rank": -1, "Comm_size": -1})
		both[rank].requests = nil
	}
	return both
}

// smallMemory requires at most 1 MiB of private memory in each rank.
func smallMemory(_ *harness, rep *report) []string {
	if each := rep.Job.Own.PrivateBytes / int64(max(len(rep.Ranks), 1)); each > 1<<20 || each == 0 {
		return []string{fmt.Sprintf("private memory of a rank: got %d bytes, want at most 1 MiB", each)}
	}
	return nil
}

func languageRows() []row {
	global := expectation{calls: counts{"Init": 1, "Comm_rank": 1, "Barrier": 5, "Finalize": 1}}
	session := expectation{
		calls: counts{
			"Session_init": 1, "Session_get_num_psets": 1, "Group_from_session_pset": 1, "Comm_create_from_group": 1,
			"Group_free": 1, "Comm_rank": 1, "Sendrecv": 5, "Allreduce": 2, "Comm_free": 1, "Session_finalize": 1,
		},
		bytes: counts{"Sendrecv": 40},
	}
	return []row{
		{name: "c", what: "C", program: "basic.c", ranks: 2, want: basicWant(), check: smallMemory},
		{
			name: "c++", what: "C++, calls from lambdas, destructors and unwinding",
			program: "basic.cpp", ranks: 2, want: basicWant(),
		},
		{name: "mpif.h", what: "Fortran, `include 'mpif.h'`", program: "basic_mpif.f", ranks: 2, want: basicWant()},
		{name: "use_mpi", what: "Fortran, `use mpi`", program: "basic_use.f90", ranks: 2, want: basicWant()},
		{name: "use_mpi_f08", what: "Fortran, `use mpi_f08`", program: "basic_f08.f90", ranks: 2, want: basicWant()},
		{
			name: "large_count", what: "large-count functions (`_c`) of MPI 4", program: "basic_large.c", ranks: 2, want: largeWant(),
			lacks: map[string]*reason{"openmpi": lacks("MPI_Send_c")},
		},
		{
			name: "large_count_f08", what: "large counts by `use mpi_f08`", program: "large_f08.f90", ranks: 2,
			lacks: map[string]*reason{"openmpi": lacks("MPI_Send_c")},
			want: pair(expectation{
				calls: counts{
					"Init": 1, "Comm_rank": 1, "Send_c": 6, "Recv_c": 6, "Bcast_c": 1, "Type_contiguous_c": 1, "Type_size_c": 1,
					"Type_free": 1, "Finalize": 1,
				},
				bytes: counts{"Send_c": 240, "Recv_c": 240},
			}, 6, 240),
		},
		{
			name: "mpi4", what: "partitioned messages, persistent collectives, Isendrecv of MPI 4", program: "mpi4.c", ranks: 2,
			lacks: map[string]*reason{"openmpi": lacks("MPI_Psend_init")},
			want: []expectation{
				{calls: counts{
					"Init": 1, "Comm_rank": 1, "Psend_init": 1, "Pready": 4, "Start": 4, "Wait": 5, "Request_free": 2,
					"Allreduce_init": 1, "Isendrecv": 1, "Finalize": 1,
				}},
				{calls: counts{
					"Init": 1, "Comm_rank": 1, "Precv_init": 1, "Start": 4, "Wait": 5, "Request_free": 2,
					"Allreduce_init": 1, "Isendrecv": 1, "Finalize": 1,
				}},
			},
		},
		{
			name: "sessions", what: "Sessions, MPI_Init never called", program: "sessions.c", ranks: 2, want: []expectation{session},
			lacks: map[string]*reason{"openmpi": lacks("MPI_Session_init")},
		},
		{
			name: "sessions_init", what: "a session opened before MPI_Init", program: "sessions_init.c", ranks: 2,
			lacks: map[string]*reason{"openmpi": lacks("MPI_Session_init")},
			want: pair(expectation{
				calls: counts{"Session_init": 1, "Init": 1, "Comm_rank": 1, "Sendrecv": 5, "Allreduce": 2, "Finalize": 1, "Session_finalize": 1},
				bytes: counts{"Sendrecv": 40},
			}, 5, 20),
			check: arrivals,
		},
		{
			name: "mpi4py", what: "a Python script by mpi4py", program: "basic.py", ranks: 2, loose: true, want: pythonWant(),
			lacks: map[string]*reason{"mpich": noPython()},
		},
		{
			name: "dlsym_handle", what: "MPI found by `dlsym(handle)`, which goes round the shim: detected and said",
			program: "dlsym.c", args: []string{"handle", "@mpi"}, flags: []string{"-Wl,--as-needed"}, ranks: 2, nothing: true,
			warning: "dlsym",
		},
		{
			name: "dlsym_default", what: "MPI loaded by `dlopen`, found by `dlsym(RTLD_DEFAULT)`",
			program: "dlsym.c", args: []string{"global", "@mpi"}, flags: []string{"-Wl,--as-needed"}, ranks: 2, want: []expectation{global},
		},
		{
			name: "dlsym_closed", what: "... and closed again",
			program: "dlsym.c", args: []string{"closed", "@mpi"}, flags: []string{"-Wl,--as-needed"}, ranks: 2, want: []expectation{global},
		},
	}
}
