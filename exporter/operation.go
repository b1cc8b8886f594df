package exporter

import (
	"slices"
	"strings"

	"github.com/mpitrace/mpitrace/segment"
)

// operations are the values of the label operation: few, and always the same,
// whatever a program calls.
var operations = [...]string{
	"allgather", "allgatherv", "allreduce", "alltoall", "alltoallv", "alltoallw", "barrier", "bcast", "exscan",
	"gather", "gatherv", "reduce", "reduce_scatter", "reduce_scatter_block", "scan", "scatter", "scatterv",
	"neighbor_allgather", "neighbor_allgatherv", "neighbor_alltoall", "neighbor_alltoallv", "neighbor_alltoallw",
	"send", "recv", "sendrecv", "probe", "start", "wait", "test", "rma", "rma_sync", "io", "manage", "setup", "other",
}

// operationCount is the number of operations.
const operationCount = len(operations)

// byClass is the operation of functions that are not collective, by their class
// in spec/mpi.json; others are "other".
var byClass = map[string]string{
	"send": "send", "isend": "send", "send_init": "send",
	"recv": "recv", "irecv": "recv", "recv_init": "recv", "mrecv": "recv", "imrecv": "recv",
	"sendrecv": "sendrecv", "isendrecv": "sendrecv",
	"probe": "probe", "mprobe": "probe", "improbe": "probe",
	"start": "start", "startall": "start",
	"wait": "wait", "waitall": "wait", "waitany": "wait", "waitsome": "wait",
	"test": "test", "testall": "test", "testany": "test", "testsome": "test",
	"rma": "rma", "rrma": "rma", "rma_sync": "rma_sync",
	"io": "io", "iio": "io",
	"comm_new": "manage", "comm_inew": "manage", "comm_free": "manage", "comm_set_name": "manage",
	"type_new": "manage", "type_free": "manage", "type_set_name": "manage", "win_new": "manage", "win_free": "manage",
	"init": "setup", "finalize": "setup", "session_init": "setup", "session_finalize": "setup",
}

// Operation is the operation of a function: the value of the label.
func Operation(call segment.Call) string { return operations[operationOf(call)] }

// function is what the exporter knows of an MPI function.
type function struct {
	operation int
	setup     bool // its time is no MPI time
	message   bool // intercepting it costs own_message_ns, else own_call_ns
}

// functions by id, of both forms.
var functions = func() (all [2 * segment.CallLarge]function) {
	for id := range all {
		call := segment.Call(id)
		all[id] = function{operation: lookUp(call), setup: call.Setup(), message: call.Messages()}
	}
	return all
}()

// functionOf knows every id that a segment may hold, also ids of the future.
func functionOf(call segment.Call) function {
	if int(call) < len(functions) {
		return functions[call]
	}
	return function{operation: operationCount - 1}
}

func operationOf(call segment.Call) int { return functionOf(call).operation }

// lookUp finds the index into operations.
func lookUp(call segment.Call) int {
	name := byClass[call.Class()]
	switch call.Class() {
	case "coll", "icoll", "coll_init":
		name = strings.TrimPrefix(call.String(), "MPI_")
		name = strings.TrimSuffix(strings.TrimSuffix(name, "_c"), "_init")
		if call.Class() == "icoll" {
			name = strings.TrimPrefix(name, "I")
		}
		name = strings.ToLower(name)
	}
	if i := slices.Index(operations[:], name); i >= 0 {
		return i
	}
	return operationCount - 1
}
