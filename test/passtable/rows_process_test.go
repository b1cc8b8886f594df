package passtable

import "fmt"

// threaded is what a rank of threads.c does in all.
func threaded(iterations int64) []expectation {
	want := expectation{
		calls:    counts{"Init_thread": 1, "Comm_rank": 1, "Barrier": 1, "Finalize": 1, "Irecv": iterations, "Isend": iterations, "Wait": 2 * iterations, "Comm_size": iterations},
		bytes:    counts{"Irecv": 8 * iterations, "Isend": 8 * iterations},
		requests: &requests{Started: 2 * iterations, Completed: 2 * iterations},
	}
	return pair(want, iterations, 8*iterations)
}

// dying is what a rank of die.c does before its end.
func dying() expectation {
	return expectation{
		calls: counts{"Init": 1, "Comm_rank": 1, "Sendrecv": 5, "Barrier": 1},
		bytes: counts{"Sendrecv": 80},
	}
}

// deathRow runs die.c.
func deathRow(name, what, how string) row {
	return row{name: name, what: what, program: "die.c", args: []string{how}, ranks: 2, killed: true, dies: true, want: []expectation{dying()}}
}

// forkRow runs fork.c.
func forkRow(name, what, how string) row {
	want := expectation{calls: counts{"Init": 1, "Comm_rank": 1, "Sendrecv": 5, "Finalize": 1}, bytes: counts{"Sendrecv": 40}}
	return row{name: name, what: what, program: "fork.c", args: []string{how}, ranks: 2, want: pair(want, 5, 20)}
}

// aborted requires the rank that called MPI_Abort to be named.
func aborted(_ *harness, rep *report) []string {
	if r := rep.rank(1); r == nil || r.State != "aborted" {
		return []string{fmt.Sprintf("state of rank 1: got %+v, want aborted", r)}
	}
	return nil
}

// threadsSeen requires every rank to have had so many threads in MPI.
func threadsSeen(want int) func(*harness, *report) []string {
	return func(_ *harness, rep *report) []string {
		var wrong []string
		for _, r := range rep.Ranks {
			if r.Threads != want {
				wrong = append(wrong, fmt.Sprintf("threads of rank %d: got %d, want %d", r.Rank, r.Threads, want))
			}
		}
		return wrong
	}
}

func processRows() []row {
	aborts := func(name, what string) row {
		r := deathRow(name, what, name)
		r.want = []expectation{dying(), dying()}
		r.want[1].calls["Abort"] = 1
		r.check = aborted
		return r
	}
	stuck := deathRow("stuck", "SIGKILL of one rank while the other waits for it: the report says in what", "stuck")
	stuck.want = []expectation{dying(), dying()}
	stuck.want[0].calls["Recv"] = 1
	stuck.want[0].current = "Recv"
	replaced := deathRow("exec", "`exec` of another program after MPI_Finalize", "replace")
	replaced.dies = false
	replaced.want[0].calls["Finalize"] = 1
	finalized := row{
		name: "finalized", what: "MPI_Finalized and others after MPI_Finalize, also at exit", program: "finalized.c", ranks: 2,
		want: []expectation{{calls: counts{"Init": 1, "Comm_rank": 1, "Barrier": 2, "Finalize": 1, "Finalized": 3, "Initialized": 2, "Get_version": 1, "Get_library_version": 1}}},
	}
	return []row{
		{
			name: "threads_4", what: "4 threads at MPI_THREAD_MULTIPLE",
			program: "threads.c", args: []string{"4", "200", "1"}, ranks: 2, want: threaded(800),
		},
		{
			name: "threads_24", what: "24 threads, more than there are shards",
			program: "threads.c", args: []string{"24", "50", "1"}, ranks: 2, want: threaded(1200),
		},
		{
			name: "threads_transient", what: "200 threads, 4 at a time",
			program: "threads.c", args: []string{"4", "5", "50"}, ranks: 2, want: threaded(1000),
		},
		{
			name: "threads_ending", what: "MPI calls in destructors of thread-specific data",
			program: "thread_end.c", flags: []string{"-pthread"}, ranks: 2, check: threadsSeen(21),
			want: []expectation{{calls: counts{"Init_thread": 1, "Comm_rank": 1, "Comm_size": 20, "Sendrecv": 40, "Barrier": 1, "Finalize": 1}}},
		},
		{
			name: "late_finalize", what: "MPI_Finalize in the destructor of a library",
			program: "late.c", args: []string{"@late_library.c"}, ranks: 2,
			want: []expectation{{calls: counts{"Init": 1, "Comm_rank": 1, "Barrier": 2, "Sendrecv": 1, "Finalize": 1}, bytes: counts{"Sendrecv": 8}}},
		},
		forkRow("fork_exit", "fork; the child calls `exit`", "exit"),
		forkRow("fork__exit", "fork; the child calls `_exit`", "_exit"),
		forkRow("fork_exec", "fork; the child runs another program", "exec"),
		forkRow("system", "`system()`", "system"),
		forkRow("popen", "`popen()`", "popen"),
		aborts("abort", "MPI_Abort by one rank"),
		aborts("handler_abort", "... in a signal handler on a stack of 16 KiB"),
		deathRow("exit", "`exit(0)` without MPI_Finalize", "exit"),
		deathRow("handler", "... in a signal handler on a stack of 8 KiB", "handler"),
		deathRow("_exit", "`_exit(3)`", "_exit"),
		deathRow("sigterm", "SIGTERM of one rank", "term"),
		deathRow("sigkill", "SIGKILL of one rank", "kill"),
		deathRow("sigsegv", "SIGSEGV of one rank", "segv"),
		stuck,
		replaced,
		finalized,
	}
}
