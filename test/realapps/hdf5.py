"""Writes a file of HDF5 from all ranks, by MPI-IO, together and each by itself, and reads
it again, shifted by a rank. It prints what was read."""

import h5py
import numpy
from mpi4py import MPI

ROWS, COLUMNS = 64, 96

comm = MPI.COMM_WORLD
rank, size = comm.Get_rank(), comm.Get_size()
mine = slice(rank * ROWS, (rank + 1) * ROWS)
numbers = numpy.arange(ROWS * COLUMNS, dtype="f8").reshape(ROWS, COLUMNS) * (rank + 1)

with h5py.File("numbers.h5", "w", driver="mpio", comm=comm) as f:
    together = f.create_dataset("together", (ROWS * size, COLUMNS), "f8")
    apart = f.create_dataset("apart", (ROWS, COLUMNS * size), "f4", chunks=(16, COLUMNS))
    with together.collective:
        together[mine, :] = numbers
    apart[:, rank * COLUMNS : (rank + 1) * COLUMNS] = numbers

next_one = (rank + 1) % size
with h5py.File("numbers.h5", "r", driver="mpio", comm=comm) as f:
    with f["together"].collective:
        rows = f["together"][next_one * ROWS : (next_one + 1) * ROWS, :]
    columns = f["apart"][:, next_one * COLUMNS : (next_one + 1) * COLUMNS]

there = numpy.empty_like(rows)
receives = [comm.Irecv(there[i], next_one, i) for i in range(ROWS)]
for i in range(ROWS):
    comm.Send(rows[i], (rank - 1) % size, i)
MPI.Request.Waitall(receives)
after = (rank + 2) % size + 1
sums = comm.gather((rows.sum(), columns.sum(), bool((there == numbers / (rank + 1) * after).all())))
if rank == 0:
    print("\n".join("rank %d: %.1f %.1f %s" % (i, *s) for i, s in enumerate(sums)))
