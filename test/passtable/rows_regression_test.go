package passtable

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"
)

// inOwnRoot runs a command where / is a file system of its own with the
// directories of the real one, and prints what has been made in it.
func inOwnRoot() []string {
	const script = `mount -t tmpfs tmpfs /mnt && cd / && for entry in *; do
	if [ -h "$entry" ]; then cp -P "$entry" /mnt/
	elif [ -d "$entry" ] && [ "$entry" != mnt ]; then mkdir "/mnt/$entry" && mount --rbind "$entry" "/mnt/$entry"
	fi || exit 99
done
before=$(ls -A /mnt)
chroot /mnt "$@"
status=$?
[ "$(ls -A /mnt)" = "$before" ] || ls -A /mnt
exit $status`
	return append(ownMounts(), "/bin/sh", "-c", script, "root")
}

// showing runs a command and prints a file of the run after it.
func showing(file string) []string {
	return []string{"/bin/sh", "-c", `"$@"; status=$?; cat "$PASSTABLE_DIR"/` + file + `; exit $status`, "showing"}
}

// noCallbacks requires that no call is taken for one from inside a callback.
func noCallbacks(_ *harness, rep *report) []string {
	var problems []string
	for _, s := range rep.Sites {
		if s.Callback {
			problems = append(problems, fmt.Sprintf("%d calls of %s are flagged as inside a callback", s.Calls, s.Function.Name))
		}
	}
	return problems
}

// finished requires every rank to have ended in order.
func finished(_ *harness, rep *report) []string {
	var problems []string
	for _, r := range rep.Ranks {
		if r.State != "finished" {
			problems = append(problems, fmt.Sprintf("state of rank %d: got %s, want finished", r.Rank, r.State))
		}
	}
	return problems
}

// arrivals requires that all ranks finished and that their arrivals at the collective
// operations were compared.
func arrivals(h *harness, rep *report) []string {
	problems := finished(h, rep)
	if len(rep.Arrivals) == 0 {
		problems = append(problems, "arrivals: got none")
	}
	return problems
}

// noPeers requires that no message was counted.
func noPeers(_ *harness, rep *report) []string {
	var problems []string
	for _, r := range rep.Ranks {
		if len(r.Peers) > 0 {
			problems = append(problems, fmt.Sprintf("rank %d: messages are counted: %+v", r.Rank, r.Peers))
		}
	}
	return problems
}

// regressionRows are programs that the shim once harmed or reported wrongly.
func regressionRows() []row {
	paused := matchedManyRow("mprobe_paused", "a matched probe made while measurement is paused", 2)
	paused.want[0].peers = both(0, 3, 12)
	return []row{
		{
			name: "requests_nobody", what: "requests with nobody at the other end, thousands of one handle", program: "requests_nobody.c", ranks: 1,
			want: []expectation{{
				calls: counts{"Init_thread": 1, "Irecv": 400, "Waitall": 100, "Recv_init": 1, "Start": 50, "Wait": 470, "Request_free": 1,
					"Mprobe": 20, "Imrecv": 20, "Isend": 200, "Finalize": 1},
				bytes:    counts{"Irecv": 800, "Imrecv": 0, "Start": 0, "Isend": 800},
				peers:    both(0, 200, 800),
				requests: &requests{Started: 670, Completed: 670},
			}},
		},
		{
			name: "requests_paused", what: "persistent requests freed or made while measurement is paused", program: "requests_paused.c", ranks: 1,
			want: []expectation{{
				calls: counts{"Init": 1, "Recv_init": 100, "Pcontrol": 101, "Irecv": 100, "Send": 100, "Wait": 100,
					"Startall": 50, "Waitall": 50, "Request_free": 3, "Finalize": 1},
				bytes: counts{"Irecv": 400, "Send": 400, "Startall": 40000}, peers: both(0, 150, 20400),
				requests: &requests{Started: 250, Completed: 250},
			}},
		},
		{
			name: "load_lock", what: "the first call of a thread while a constructor that `dlopen` runs calls MPI",
			program: "load_lock.c", args: []string{"@load_lock_library.c"}, ranks: 1,
			want: []expectation{{calls: counts{"Init_thread": 1, "Comm_size": 1, "Barrier": 1, "Finalize": 1}}},
		},
		{
			name: "many_grids", what: "neighbourhood collectives on the 1,100th communicator at once", program: "many_grids.c", ranks: 1,
			want: []expectation{{calls: counts{"Init": 1, "Cart_create": 1100, "Neighbor_alltoallv": 2, "Ineighbor_alltoallv": 1, "Wait": 1, "Comm_free": 1100, "Finalize": 1}}},
		},
		{
			name: "threads_buffers", what: "14 threads with 5,000 buffers each", program: "threads_buffers.c", ranks: 1, check: threadsSeen(15),
			want: []expectation{{calls: counts{"Init_thread": 1, "Sendrecv": 1400000, "Finalize": 1}, bytes: counts{"Sendrecv": 11200000}}},
		},
		{
			name: "fork_late", what: "a child made by the destructor of a library", program: "fork_late.c", args: []string{"@fork_late_library.c"}, ranks: 2,
			want: []expectation{{calls: counts{"Init": 1, "Comm_rank": 1, "Barrier": 1, "Finalize": 1}}}, check: finished,
		},
		paused,
		fullRow(),
		matchedManyRow("mprobe_many", "... after 1,200 matched probes outstanding at once", 1200),
		{
			name: "mprobe_freed", what: "communicators freed between MPI_Mprobe and MPI_Mrecv; receives that fail or are not counted",
			program: "mprobe_freed.c", ranks: 1, check: finished,
			want: []expectation{{
				calls: counts{
					"Init": 1, "Comm_set_errhandler": 4, "Comm_dup": 4, "Isend": 7, "Mprobe": 7, "Comm_free": 3, "Mrecv": 6, "Imrecv": 1,
					"Error_class": 1, "Wait": 8, "Pcontrol": 1, "Finalize": 1,
				},
				bytes:    counts{"Isend": 56, "Mrecv": 40, "Imrecv": 8},
				requests: &requests{Started: 8, Completed: 8},
			}},
		},
		{
			name: "scatter_many", what: "scatters on the 1,100th communicator at once; who is not the root has no datatype for it, the root in place",
			program: "scatter_many.c", ranks: 2, check: finished,
			want: []expectation{
				{calls: once("Init", "Comm_rank", "Scatter", "Iscatter", "Wait", "Scatterv", "Type_contiguous", "Type_commit", "Type_free", "Finalize").
					with(counts{"Comm_dup": 1100})},
				{calls: once("Init", "Comm_rank", "Scatter", "Iscatter", "Wait", "Scatterv", "Finalize").with(counts{"Comm_dup": 1100})},
			},
		},
		{
			name: "threads_freed", what: "a communicator and a datatype freed during a receive that names them, with 17 threads",
			program: "threads_freed.c", ranks: 2, check: finished,
			want: []expectation{
				{calls: once("Init_thread", "Comm_dup", "Recv", "Send", "Comm_free", "Type_contiguous", "Type_commit", "Type_free", "Finalize").
					with(counts{"Comm_rank": 16})},
				{calls: once("Init_thread", "Comm_rank", "Comm_dup", "Recv", "Send", "Comm_free", "Finalize")},
			},
		},
		{
			name: "cancelled", what: "a thread that is to be cancelled calls MPI for the first time", program: "cancelled.c", ranks: 1, check: finished,
			want: []expectation{{calls: once("Init_thread", "Comm_rank", "Finalize")}},
		},
		skipRow(),
		deeperRow(),
		{
			name: "zero", what: "count 0 with MPI_DATATYPE_NULL: MPICH accepts it, Open MPI returns errors", program: "zero.c", ranks: 1,
			want: []expectation{{calls: once("Init", "Comm_dup", "Comm_set_errhandler", "Bcast", "Ibcast", "Irecv", "Irecv", "Send",
				"Isend", "Recv_init", "Comm_free", "Finalize")}},
			check: balanced,
		},
		nothingRow(),
		{
			name: "mixed", what: "Fortran names called from C, a PMPI tool for C behind the shim", program: "mixed.c", behind: "tool_c.c", ranks: 2,
			want: pair(expectation{
				calls: counts{"Init": 1, "Comm_rank": 1, "Irecv": 20, "Isend": 10, "Send": 10, "Wait": 30, "Finalize": 1},
				bytes: counts{"Irecv": 80, "Isend": 40, "Send": 40},
			}, 20, 80),
		},
		{
			name: "pcontrol_arguments", what: "further arguments of MPI_Pcontrol reach a tool behind the shim",
			program: "pcontrol_arguments.c", behind: "tool_pcontrol.c", ranks: 1,
			want: []expectation{{calls: counts{"Init": 1, "Pcontrol": 2, "Barrier": 2, "Finalize": 1}}},
		},
		{
			name: "dup_many", what: "50,000 communicators made and freed: memory does not grow", program: "dup_many.c", ranks: 1,
			want: []expectation{{calls: counts{"Init": 1, "Comm_dup": 50000, "Comm_free": 50000, "Finalize": 1}}},
		},
		{
			name: "private_root", what: "private memory: nothing is made in the root directory", program: "solo.c", ranks: 1, want: alone(),
			wrap: inOwnRoot(), noSharedMemory: true, env: []string{"MPITRACE_SEGMENT_DIR=/proc/mpitrace"}, warning: "private memory",
		},
		{
			name: "stderr_file", what: "descriptor 2 closed and opened as a data file: nothing is written into it", program: "stderr_file.c", ranks: 2,
			want: []expectation{{calls: once("Init", "Comm_rank", "Barrier", "Finalize")}}, plain: true, wrap: showing("data.*"),
		},
		{
			name: "removed", what: "the job's directory in shared memory is removed: each rank writes its own result", program: "removed.c", ranks: 2,
			want: pair(expectation{
				calls: counts{"Init": 1, "Comm_rank": 1, "Sendrecv": 6, "Barrier": 2, "Finalize": 1},
				bytes: counts{"Sendrecv": 48},
			}, 6, 24),
		},
		exhaustedRow("no_descriptor", "no file descriptor is free at the end: one warning, `mpitrace collect` has the data", "0"),
		exhaustedRow("few_descriptors", "... three are, one less than the result takes", "3"),
		exhaustedRow("no_memory", "... no memory is free at the end", "memory"),
	}
}

// exhaustedRow runs exhausted.c. The warning names the directory of the segment.
func exhaustedRow(name, what, left string) row {
	return row{
		name: name, what: what, program: "exhausted.c", args: []string{left}, ranks: 1, killed: true,
		want: []expectation{{calls: once("Init", "Barrier", "Finalize")}}, warning: "what was measured is in /",
	}
}

// fullRow runs tables_full.c: what is received belongs to its communicator, and each
// message has the size of its type.
func fullRow() row {
	return row{
		name: "tables_full", what: "1,100 matched probes of MPI_PROC_NULL; 3,200 datatypes, and others that come and go", program: "tables_full.c", ranks: 1,
		want: []expectation{{
			calls: counts{
				"Init": 1, "Improbe": 1100, "Isend": 10, "Mprobe": 10, "Mrecv": 10, "Wait": 10,
				"Type_contiguous": 3300, "Type_commit": 100, "Sendrecv": 100, "Type_free": 100, "Finalize": 1,
			},
			bytes: counts{"Isend": 40, "Mrecv": 40, "Sendrecv": 2 * 5050},
		}},
		check: func(_ *harness, rep *report) (wrong []string) {
			for _, c := range rep.Communicators {
				if c.Name == "MPI_COMM_WORLD" && c.ReceivedBytes != 40 {
					wrong = append(wrong, fmt.Sprintf("%s received %d bytes, want 40", c.Name, c.ReceivedBytes))
				}
			}
			return wrong
		},
	}
}

// matchedManyRow runs mprobe_many.c.
func matchedManyRow(name, what string, n int64) row {
	return row{
		name: name, what: what, program: "mprobe_many.c", args: []string{fmt.Sprint(n)}, ranks: 1,
		want: []expectation{{
			calls: counts{
				"Init": 1, "Isend": n + 1, "Mprobe": n, "Mrecv": n / 2, "Imrecv": n/2 + 1, "Waitall": 2, "Wait": 2, "Pcontrol": 1, "Finalize": 1,
			},
			bytes:    counts{"Isend": 4 * (n + 1), "Mrecv": 2 * n, "Imrecv": 2*n + 4},
			requests: &requests{Started: n + n/2 + 2, Completed: n + n/2 + 2},
		}},
	}
}

func skipRow() row {
	return row{
		name: "skip", what: "`--skip`: a library whose stack frame is half a megabyte, then small", program: "skip.c", args: []string{"@skip_library.c"},
		env: []string{"MPITRACE_SKIP=skip_library"}, ranks: 2,
		want:  []expectation{{calls: counts{"Init": 1, "Barrier": 6, "Finalize": 1}}},
		check: sitesAt("skip.c", "MPI_Barrier", map[string]int64{"large": 6, "small": 6}),
	}
}

func deeperRow() row {
	want := expectation{
		calls: once("Init", "Comm_rank", "Comm_create_errhandler", "Comm_set_errhandler", "Errhandler_free", "Allreduce", "Finalize").
			with(counts{"Send": 3, "Sendrecv": 60, "Irecv": 60, "Isend": 60, "Waitall": 60}),
		bytes: counts{"Sendrecv": 480, "Irecv": 240, "Isend": 240},
	}
	return row{
		name: "errors_deeper", what: "an error handler that jumps; the next calls are made from deeper in the stack",
		program: "errors_deeper.c", ranks: 2, want: pair(want, 120, 480), check: noCallbacks,
	}
}

func nothingRow() row {
	return row{
		name: "nothing", what: "one-sided calls and a matched receive with MPI_PROC_NULL, reading at the end of a file: what did not move does not count",
		program: "nothing.c", ranks: 1,
		want: []expectation{{
			calls: counts{
				"Init": 1, "Mprobe": 1, "Imrecv": 1, "Wait": 2, "Win_allocate": 1, "Win_lock_all": 1, "Put": 1, "Get": 1, "Accumulate": 1,
				"Rput": 1, "Win_unlock_all": 1, "Win_free": 1, "File_open": 1, "File_write": 1, "File_read": 2, "File_read_at": 1,
				"Get_count": 2, "File_close": 1, "Finalize": 1,
			},
			bytes:    counts{"Imrecv": 0, "Put": 0, "Get": 0, "Accumulate": 0, "Rput": 0, "File_write": 100, "File_read": 0, "File_read_at": 100},
			requests: &requests{Started: 2, Completed: 2},
		}},
		check: noPeers,
	}
}

// totals is what mpitrace report --json says of a communicator or a datatype.
type totals struct {
	Name          string
	Calls         int64
	TimeNs        int64 `json:"time_ns"`
	SentBytes     int64 `json:"sent_bytes"`
	ReceivedBytes int64 `json:"received_bytes"`
	Collectives   int64
}

// TestTotals: a call that sends and receives counts once for its communicator
// and its datatype, with its time once.
func TestTotals(t *testing.T) {
	h := newHarness(t)
	for _, m := range families() {
		t.Run(m.Name, func(t *testing.T) {
			m.require(t)
			for _, c := range []struct {
				program   string
				ranks     int
				calls     int64 // with a communicator that are not to MPI_PROC_NULL
				functions []string
			}{
				{"solo.c", 1, 13, []string{"MPI_Sendrecv", "MPI_Allreduce"}},
				{"sendrecv.c", 2, 18, []string{"MPI_Sendrecv", "MPI_Sendrecv_replace"}},
			} {
				t.Run(c.program, func(t *testing.T) { h.testTotals(t, m, &row{program: c.program, ranks: c.ranks}, c.calls, c.functions) })
			}
		})
	}
}

func (h *harness) testTotals(t *testing.T, m *mpi, r *row, calls int64, functions []string) {
	o, err := h.run(m, r, observed)
	if err != nil {
		t.Fatal(err)
	}
	out, err := h.mpitrace(o.dir, r, "report", "--json", filepath.Join(o.dir, "result"))
	if err != nil {
		t.Fatal(err)
	}
	var rep struct{ Functions, Communicators, Datatypes []totals }
	if err := json.Unmarshal(out, &rep); err != nil {
		t.Fatal(err)
	}
	var time int64
	for _, f := range rep.Functions {
		for _, name := range functions {
			if f.Name == name {
				time += f.TimeNs
			}
		}
	}
	for _, kind := range []struct {
		name string
		list []totals
	}{{"MPI_COMM_WORLD", rep.Communicators}, {"MPI_INT", rep.Datatypes}} {
		found := false
		for _, c := range kind.list {
			if c.Name != kind.name {
				continue
			}
			found = true
			if c.Calls != calls {
				t.Errorf("%s: %d calls, want %d", c.Name, c.Calls, calls)
			}
			if c.TimeNs > time+time/100+1000 || c.TimeNs == 0 {
				t.Errorf("%s: %d ns, want at most the %d ns of its calls", c.Name, c.TimeNs, time)
			}
		}
		if !found {
			t.Errorf("%s is not in the report", kind.name)
		}
	}
}

// TestPersistentTotals: a persistent collective counts for its communicator and its
// datatype each time it is started.
func TestPersistentTotals(t *testing.T) {
	h, m := newHarness(t), families()[1] // Open MPI 4 has none
	m.require(t)
	r := &row{program: "mpi4.c", ranks: 2}
	o, err := h.run(m, r, observed)
	if err != nil {
		t.Fatal(err)
	}
	out, err := h.mpitrace(o.dir, r, "report", "--json", filepath.Join(o.dir, "result"))
	if err != nil {
		t.Fatal(err)
	}
	var rep struct{ Communicators, Datatypes []totals }
	if err := json.Unmarshal(out, &rep); err != nil {
		t.Fatal(err)
	}
	// the partitioned message, three operations and the Isendrecv of both ranks
	const collectives, sent = 2 * 3, 160 + 2*3*4 + 2*4
	found := 0
	for _, c := range append(rep.Communicators, rep.Datatypes...) {
		if c.Name != "MPI_COMM_WORLD" && c.Name != "MPI_INT" {
			continue
		}
		found++
		if c.SentBytes != sent || c.Name == "MPI_COMM_WORLD" && c.Collectives != collectives {
			t.Errorf("%s: %d collectives, %d bytes sent, want %d and %d", c.Name, c.Collectives, c.SentBytes, collectives, sent)
		}
	}
	if found != 2 {
		t.Errorf("the report has not both: %s", out)
	}
}
