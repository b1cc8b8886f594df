package main

import "strings"

// collectiveShare returns C expressions for the payload that counts as this
// rank's share of a collective, and for its datatype (0 where there are
// several or the payload is computed from more than one). Only arguments that
// are significant on this rank may be read (MPI 4.1, chapter 6):
//
//	Bcast             count
//	Gather(v)         sendcount; at a root with MPI_IN_PLACE what it keeps
//	Scatter(v)        what this rank receives; at the root what it sends
//	Allgather(v)      sendcount, or with MPI_IN_PLACE its own receive count
//	Alltoall          sendcount to every process
//	Alltoallv, w      the sum over all processes
//	Reduce, Allreduce, Scan, Exscan    count
//	Reduce_scatter    the sum of the receive counts
//	Neighbor_*        sendcount, or the sum over the outgoing neighbours
func (c *call) collectiveShare() (bytes, datatype string) {
	op := strings.TrimSuffix(strings.TrimPrefix(c.Name, "MPI_"), "_c")
	op = strings.TrimSuffix(op, "_init")
	if c.Class == "icoll" {
		op = strings.ToUpper(op[1:2]) + op[2:]
	}
	const send = "mt_type_bytes(&call, {sendcount}, {sendtype})"
	const recv = "mt_type_bytes(&call, {recvcount}, {recvtype})"
	const processes = "mt_comm_processes(&call, {comm})"
	const rank = "mt_comm_rank(&call, {comm})"
	const degree = "mt_comm_degree(&call, {comm})"
	const absent = "mt_comm_absent(&call, {comm})"
	switch op {
	case "Barrier":
		return "0", "0"
	case "Bcast":
		return "({root} == MT_PROC_NULL ? 0 : " + send + ")", "({root} == MT_PROC_NULL ? 0 : MT_U64({sendtype}))"
	case "Reduce":
		return "({root} == MT_PROC_NULL ? 0 : " + send + ")", "({root} == MT_PROC_NULL ? 0 : MT_U64({sendtype}))"
	case "Allreduce", "Scan", "Exscan":
		return send, "MT_U64({sendtype})"
	case "Reduce_scatter":
		return "mt_type_bytes(&call, mt_sum({recvcounts}, mt_comm_size(&call, {comm}), 0), {sendtype})", "MT_U64({sendtype})"
	case "Reduce_scatter_block":
		return "mt_comm_size(&call, {comm}) * mt_type_bytes(&call, {recvcount}, {sendtype})", "MT_U64({sendtype})"
	case "Gather":
		return "({root} == MT_ROOT || {root} == MT_PROC_NULL ? 0 : {sendbuf} == MT_IN_PLACE ? " + recv + " : " + send + ")", "0"
	case "Gatherv":
		return "({root} == MT_ROOT || {root} == MT_PROC_NULL ? 0 : {sendbuf} == MT_IN_PLACE ? mt_type_bytes(&call, {recvcounts}[" + rank + "], {recvtype}) : " + send + ")", "0"
	case "Scatter":
		return "({root} == MT_PROC_NULL ? 0 : mt_is_root(&call, {comm}, {root}) ? " + processes + " * " + send + " : {recvbuf} == MT_IN_PLACE ? 0 : " + recv + ")", "0"
	case "Scatterv":
		return "({root} == MT_PROC_NULL ? 0 : mt_is_root(&call, {comm}, {root}) ? mt_type_bytes(&call, mt_sum({sendcounts}, " + processes + ", 0), {sendtype}) : {recvbuf} == MT_IN_PLACE ? 0 : " + recv + ")", "0"
	case "Allgather":
		return "({sendbuf} == MT_IN_PLACE ? " + recv + " : " + send + ")", "0"
	case "Allgatherv":
		return "({sendbuf} == MT_IN_PLACE ? mt_type_bytes(&call, {recvcounts}[" + rank + "], {recvtype}) : " + send + ")", "0"
	case "Alltoall":
		return processes + " * ({sendbuf} == MT_IN_PLACE ? " + recv + " : " + send + ")", "0"
	case "Alltoallv":
		return "({sendbuf} == MT_IN_PLACE ? mt_type_bytes(&call, mt_sum({recvcounts}, " + processes + ", 0), {recvtype}) : mt_type_bytes(&call, mt_sum({sendcounts}, " + processes + ", 0), {sendtype}))", "0"
	case "Alltoallw":
		return "({sendbuf} == MT_IN_PLACE ? mt_sum_types(&call, {recvcounts}, {recvtypes}, " + processes + ", 0) : mt_sum_types(&call, {sendcounts}, {sendtypes}, " + processes + ", 0))", "0"
	case "Neighbor_allgather", "Neighbor_allgatherv":
		return send, "0"
	case "Neighbor_alltoall":
		return "mt_comm_receivers(&call, {comm}) * " + send, "0"
	case "Neighbor_alltoallv":
		return "mt_type_bytes(&call, mt_sum({sendcounts}, " + degree + ", " + absent + "), {sendtype})", "0"
	case "Neighbor_alltoallw":
		return "mt_sum_types(&call, {sendcounts}, {sendtypes}, " + degree + ", " + absent + ")", "0"
	}
	panic("no share defined for " + c.Name + " (" + op + ")")
}
