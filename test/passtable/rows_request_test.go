package passtable

import "fmt"

// both is the traffic of messages of equal number and size in both directions.
func both(rank int, messages, bytes int64) []peer {
	return []peer{{Rank: rank, SentMessages: messages, SentBytes: bytes, ReceivedMessages: messages, ReceivedBytes: bytes}}
}

// pair is the expectation of two ranks that do the same with each other.
func pair(want expectation, messages, bytes int64) []expectation {
	first, second := want, want
	first.peers, second.peers = both(1, messages, bytes), both(0, messages, bytes)
	return []expectation{first, second}
}

// balanced requires that no request is lost from sight: those freed or cancelled
// are among the completed ones.
func balanced(_ *harness, rep *report) []string {
	var problems []string
	for _, r := range rep.Ranks {
		q := r.Requests
		if q.Started != q.Completed || q.Dropped != 0 {
			problems = append(problems, fmt.Sprintf("rank %d: not all requests are accounted for: %+v", r.Rank, q))
		}
	}
	return problems
}

// seenToFail requires that completing calls that failed are believed: of 9
// requests only the 2 are still under way when they are freed that MPICH calls
// pending.
func seenToFail(h *harness, rep *report) []string {
	problems := balanced(h, rep)
	for _, r := range rep.Ranks {
		if q := r.Requests; q.Started != 9 || q.Freed > 2 {
			problems = append(problems, fmt.Sprintf("rank %d: 9 requests of which 2 may be freed: %+v", r.Rank, q))
		}
	}
	return problems
}

func requestRows() []row {
	shared := expectation{
		calls:    counts{"Init": 1, "Comm_rank": 1, "Irecv": 128, "Isend": 128, "Waitall": 8, "Wait": 128, "Barrier": 1, "Finalize": 1},
		bytes:    counts{"Irecv": 512, "Isend": 512},
		requests: &requests{Started: 256, Completed: 256},
	}
	persistent := expectation{
		calls: counts{
			"Init": 1, "Comm_rank": 1, "Recv_init": 1, "Send_init": 1, "Startall": 5, "Waitall": 5, "Start": 10, "Wait": 12,
			"Request_free": 2, "Finalize": 1,
		},
		requests: &requests{Started: 20, Completed: 20},
	}
	freed := expectation{
		calls:    counts{"Init": 1, "Comm_rank": 1, "Irecv": 20, "Isend": 20, "Request_free": 20, "Wait": 20, "Barrier": 20, "Finalize": 1},
		bytes:    counts{"Irecv": 80, "Isend": 80},
		requests: &requests{Started: 40, Completed: 40, Freed: 20},
	}
	cancelled := expectation{
		calls: counts{
			"Init": 1, "Comm_rank": 1, "Irecv": 7, "Cancel": 6, "Wait": 6, "Test_cancelled": 6, "Isend": 1, "Waitall": 1, "Finalize": 1,
		},
		bytes:    counts{"Irecv": 4, "Isend": 4},
		requests: &requests{Started: 8, Completed: 8, Cancelled: 6},
	}
	failed := expectation{
		calls: counts{"Init": 1, "Comm_set_errhandler": 1, "Recv_init": 9, "Startall": 3, "Send": 9, "Waitall": 2, "Request_free": 9, "Finalize": 1},
		bytes: counts{"Send": 360},
	}
	mixed := expectation{
		calls:    counts{"Init": 1, "Comm_rank": 1, "Irecv": 36, "Isend": 36, "Request_get_status": 1, "Finalize": 1},
		bytes:    counts{"Irecv": 288, "Isend": 288},
		requests: &requests{Started: 72, Completed: 72},
	}
	sendrecv := expectation{
		calls: counts{
			"Init": 1, "Comm_rank": 1, "Sendrecv": 7, "Sendrecv_replace": 3, "Send": 1, "Recv": 1, "Get_count": 5, "Finalize": 1,
		},
		bytes: counts{"Sendrecv": 288, "Sendrecv_replace": 96, "Send": 0, "Recv": 0},
	}
	return []row{
		{
			name: "requests_shared", what: "request handles that the library shares, completed in reverse",
			program: "requests_shared.c", ranks: 2, want: pair(shared, 128, 512),
		},
		{
			name: "requests_persistent", what: "persistent requests",
			program: "requests_persistent.c", ranks: 2, want: pair(persistent, 10, 400),
		},
		{
			name: "requests_freed", what: "requests freed while active",
			program: "requests_freed.c", ranks: 2, want: pair(freed, 20, 80), check: balanced,
		},
		{
			name: "requests_cancelled", what: "cancelled receives",
			program: "requests_cancelled.c", ranks: 2, want: pair(cancelled, 1, 4), check: balanced,
		},
		{
			name: "requests_failed", what: "persistent receives that fail inside Waitall and Waitsome",
			program: "requests_failed.c", ranks: 1, want: []expectation{failed}, check: seenToFail,
		},
		{
			name: "requests_untold", what: "a persistent receive that fails inside Waitall without statuses",
			program: "requests_untold.c", ranks: 2, want: []expectation{
				{calls: once("Init", "Comm_rank", "Comm_set_errhandler", "Send", "Barrier", "Finalize")},
				{calls: once("Init", "Comm_rank", "Comm_set_errhandler", "Barrier", "Recv_init", "Start", "Waitall", "Finalize")},
			},
		},
		{
			name: "requests_mixed", what: "Waitany, Waitsome, Testany, Testsome, Testall, Test with null requests among them",
			program: "requests_mixed.c", ranks: 2, want: pair(mixed, 36, 288),
		},
		{
			name: "sendrecv", what: "Sendrecv, Sendrecv_replace, MPI_PROC_NULL, short messages",
			program: "sendrecv.c", ranks: 2, want: pair(sendrecv, 9, 192),
		},
		wildcardRow(),
		matchedRow(),
		cornerRow(),
	}
}

// cornerRow has what a tool must not look at: arguments that MPI ignores, NULL
// pointers, failed receives (on MPICH; Open MPI calls them good), and a receive
// that completes while measurement is paused.
func cornerRow() row {
	return row{
		name: "corner", what: "MPI_NO_OP without origin, NULL requests, truncated receives, a receive that completes while paused",
		program: "corner.c", ranks: 1,
		want: []expectation{{
			calls: counts{
				"Init": 1, "Comm_set_errhandler": 1, "Win_allocate": 1, "Win_lock_all": 1, "Get_accumulate": 1, "Win_unlock_all": 1,
				"Win_free": 1, "Irecv": 10, "Send": 9, "Wait": 10, "Start": 1, "Sendrecv": 5, "Pcontrol": 1, "Finalize": 1,
			},
			bytes:    counts{"Send": 360, "Sendrecv": 80, "Get_accumulate": 4},
			requests: &requests{Started: 10, Completed: 9},
		}},
	}
}

func wildcardRow() row {
	sender := func(bytes int64) expectation {
		return expectation{
			calls: counts{"Init": 1, "Comm_rank": 1, "Send": 6, "Barrier": 1, "Finalize": 1},
			bytes: counts{"Send": bytes},
			peers: []peer{{Rank: 0, SentMessages: 6, SentBytes: bytes}},
		}
	}
	return row{
		name: "wildcards", what: "MPI_ANY_SOURCE with the status ignored: who sent is known all the same", program: "wildcards.c", ranks: 3,
		want: []expectation{
			{
				calls: counts{"Init": 1, "Comm_rank": 1, "Recv": 4, "Irecv": 8, "Wait": 4, "Waitall": 2, "Barrier": 1, "Finalize": 1},
				peers: []peer{{Rank: 1, ReceivedMessages: 6, ReceivedBytes: 600}, {Rank: 2, ReceivedMessages: 6, ReceivedBytes: 1200}},
			},
			sender(600), sender(1200),
		},
	}
}

func matchedRow() row {
	return row{
		name: "mprobe", what: "Mprobe, Improbe, Mrecv, Imrecv", program: "mprobe.c", ranks: 2,
		want: []expectation{
			{
				calls: counts{"Init": 1, "Comm_rank": 1, "Send": 8, "Finalize": 1},
				bytes: counts{"Send": 144},
				peers: []peer{{Rank: 1, SentMessages: 8, SentBytes: 144}},
			},
			{
				calls: counts{"Init": 1, "Comm_rank": 1, "Mprobe": 7, "Get_count": 4, "Mrecv": 7, "Imrecv": 2, "Wait": 2, "Finalize": 1},
				bytes: counts{"Imrecv": 44, "Mrecv": 100},
				peers: []peer{{Rank: 0, ReceivedMessages: 8, ReceivedBytes: 144}},
			},
		},
	}
}
