"""An mpi4py program whose MPI calls are known: the loops below say how many
there are of each, and apps.go repeats these numbers. It prints what it has
computed."""

from array import array

from mpi4py import MPI

STEPS = 200

comm = MPI.COMM_WORLD
rank, size = comm.Get_rank(), comm.Get_size()
right, left = (rank + 1) % size, (rank - 1) % size

mine = array("d", [rank + 1.0] * 16)
theirs = array("d", [0.0] * 16)
total = array("d", [0.0])
for step in range(STEPS):
    comm.Sendrecv([mine, MPI.DOUBLE], right, 1, [theirs, MPI.DOUBLE], left, 1)
    mine, theirs = array("d", (0.5 * a + 0.25 for a in theirs)), mine
    comm.Allreduce([array("d", [sum(mine)]), MPI.DOUBLE], [total, MPI.DOUBLE])
    if step % 10 == 0:
        comm.Bcast([total, MPI.DOUBLE], root=step % size)

requests = []
incoming = [array("i", [0]) for _ in range(size)]
outgoing = array("i", [rank * rank])
for peer in range(size):
    requests.append(comm.Irecv([incoming[peer], MPI.INT], peer, 2))
for peer in range(size):
    requests.append(comm.Isend([outgoing, MPI.INT], peer, 2))
MPI.Request.Waitall(requests)

comm.Barrier()
text = comm.gather("rank %d: %.12f %s" % (rank, total[0], [a[0] for a in incoming]))
if rank == 0:
    print("\n".join(text))
