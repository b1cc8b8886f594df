"""The exchange of basic.c by mpi4py, with buffers.

Each rank: 10 times Send and Recv of 100 ints; 3 times Irecv, Isend of 50
doubles and Waitall; 4 times Sendrecv of one double; 2 Bcast, 3 Allreduce,
1 Barrier. mpi4py initializes and finalizes, and makes further calls of its own.
"""
from array import array

from mpi4py import MPI

world = MPI.COMM_WORLD
rank, size = world.rank, world.size
peer = 1 - rank
total, value = 0, 0.0

for k in range(10):
    ints, back = array("i", [rank + k * i for i in range(100)]), array("i", [0] * 100)
    if rank == 0:
        world.Send([ints, MPI.INT], peer, k)
    world.Recv([back, MPI.INT], peer, k)
    if rank == 1:
        world.Send([ints, MPI.INT], peer, k)
    total += sum(x * (i + 1) for i, x in enumerate(back))
for k in range(3):
    out, into = array("d", [rank + 2 * k + i for i in range(50)]), array("d", [0] * 50)
    requests = [world.Irecv([into, MPI.DOUBLE], peer, 20 + k),
                world.Isend([out, MPI.DOUBLE], peer, 20 + k)]
    MPI.Request.Waitall(requests)
    value += sum(x * (i + 1) for i, x in enumerate(into))
one, other = array("d", [0]), array("d", [0])
for k in range(4):
    one[0] = rank + k
    world.Sendrecv([one, MPI.DOUBLE], peer, 30, [other, MPI.DOUBLE], peer, 30)
    value += other[0] * (k + 1)
for k in range(2):
    one[0] = 7 + k if rank == k else 0
    world.Bcast([one, MPI.DOUBLE], k)
    value += one[0]
for k in range(3):
    world.Allreduce([one, MPI.DOUBLE], [other, MPI.DOUBLE])
    value += other[0]
world.Barrier()
print(f"rank {rank} of {size}: {total} {value}", flush=True)
