package passtable

import "fmt"

// failing is what the programs of error handlers do around their own calls.
func failing(own ...string) expectation {
	return expectation{
		calls: once("Init", "Comm_rank", "Comm_set_errhandler", "Allreduce", "Finalize").with(once(own...)).with(counts{"Send": 4, "Sendrecv": 4}),
		bytes: counts{"Sendrecv": 32},
	}
}

// failedSends requires four sends counted as errors on each rank.
func failedSends(_ *harness, rep *report) []string {
	for _, r := range rep.Ranks {
		for _, f := range r.Functions {
			if f.Name == "MPI_Send" && f.Errors != 4 {
				return []string{fmt.Sprintf("rank %d: %d errors of MPI_Send, want 4", r.Rank, f.Errors)}
			}
		}
	}
	return nil
}

// callbackCalls requires the flag at exactly the calls made inside callbacks.
func callbackCalls(_ *harness, rep *report) []string {
	want := counts{"MPI_Comm_rank": 10, "MPI_Type_size": 10, "MPI_Error_class": 2, "MPI_Error_string": 2, "MPI_Status_set_elements": 2, "MPI_Status_set_cancelled": 2}
	got := counts{}
	for _, s := range rep.Sites {
		if s.Callback {
			got[s.Function.Name] += s.Calls
		}
	}
	var problems []string
	for _, problem := range want.compare(got, "calls flagged as inside a callback", false) {
		problems = append(problems, problem[len("MPI_"):])
	}
	return problems
}

func errorRows() []row {
	classes := counts{"Error_class": 4}
	returned := failing()
	returned.calls.with(classes)
	user := failing("Comm_create_errhandler", "Errhandler_free")
	user.calls.with(classes)
	thrown := failing("Comm_create_errhandler", "Errhandler_free")
	callbacks := once("Init", "Comm_set_attr", "Comm_delete_attr", "Op_create", "Op_free", "Comm_create_errhandler", "Comm_set_errhandler",
		"Errhandler_free", "Send", "Error_class", "Error_string", "Grequest_start", "Grequest_complete", "Wait", "Status_set_elements",
		"Status_set_cancelled", "Finalize").
		with(counts{"Comm_rank": 6, "Comm_create_keyval": 2, "Comm_dup": 2, "Comm_free": 2, "Comm_free_keyval": 2, "Allreduce": 3})
	return []row{
		{
			name: "errors_return", what: "MPI_ERRORS_RETURN: the codes of four failing sends",
			program: "errors.c", args: []string{"return"}, ranks: 2, want: []expectation{returned}, check: failedSends,
		},
		{
			name: "errors_handler", what: "an error handler that returns",
			program: "errors.c", args: []string{"user"}, ranks: 2, want: []expectation{user}, check: failedSends,
		},
		{
			name: "errors_longjmp", what: "an error handler that jumps out of the call (`longjmp`)",
			program: "errors.c", args: []string{"longjmp"}, ranks: 2, want: []expectation{user},
		},
		{
			name: "errors_throw", what: "an error handler that throws a C++ exception",
			program: "errors_throw.cpp", ranks: 2, want: []expectation{thrown},
		},
		{
			name: "callbacks", what: "calls inside attribute functions, reductions, error handlers, generalized requests", program: "callbacks.c", ranks: 2,
			want: []expectation{{calls: callbacks}}, check: callbackCalls,
		},
	}
}
