! The exchange of basic.c from Fortran by `use mpi`.
!
! Each rank: Init, Comm_rank, Comm_size; 10 times Send and Recv of 100 integers;
! 3 times Irecv, Isend of 50 doubles and Waitall; 4 times Sendrecv of one
! double; 2 Bcast, 3 Allreduce, 1 Barrier, Finalize.
program basic
  use mpi
  implicit none
  integer :: rank, nproc, peer, ierr, i, k, total
  integer :: ints(100), back(100)
  integer :: req(2), status(MPI_STATUS_SIZE)
  double precision :: out(50), in(50), one, other, s

  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, nproc, ierr)
  peer = 1 - rank
  total = 0
  s = 0
  do k = 0, 9
    ints = [(rank + k * i, i = 0, 99)]
    if (rank == 0) call MPI_Send(ints, 100, MPI_INTEGER, peer, k, MPI_COMM_WORLD, ierr)
    call MPI_Recv(back, 100, MPI_INTEGER, peer, k, MPI_COMM_WORLD, status, ierr)
    if (rank == 1) call MPI_Send(ints, 100, MPI_INTEGER, peer, k, MPI_COMM_WORLD, ierr)
    total = total + sum(back * [(i, i = 1, 100)])
  end do
  do k = 0, 2
    out = [(rank + 2 * k + i, i = 0, 49)]
    call MPI_Irecv(in, 50, MPI_DOUBLE_PRECISION, peer, 20 + k, MPI_COMM_WORLD, req(1), ierr)
    call MPI_Isend(out, 50, MPI_DOUBLE_PRECISION, peer, 20 + k, MPI_COMM_WORLD, req(2), ierr)
    call MPI_Waitall(2, req, MPI_STATUSES_IGNORE, ierr)
    s = s + sum(in * [(i, i = 1, 50)])
  end do
  do k = 0, 3
    one = rank + k
    call MPI_Sendrecv(one, 1, MPI_DOUBLE_PRECISION, peer, 30, &
         other, 1, MPI_DOUBLE_PRECISION, peer, 30, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
    s = s + other * (k + 1)
  end do
  do k = 0, 1
    one = merge(7 + k, 0, rank == k)
    call MPI_Bcast(one, 1, MPI_DOUBLE_PRECISION, k, MPI_COMM_WORLD, ierr)
    s = s + one
  end do
  do k = 0, 2
    call MPI_Allreduce(one, other, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierr)
    s = s + other
  end do
  call MPI_Barrier(MPI_COMM_WORLD, ierr)
  print '(a, i1, a, i1, a, i8, f12.1)', 'rank ', rank, ' of ', nproc, ': ', total, s
  call MPI_Finalize(ierr)
  print '(a, i1)', 'finalize returns ', ierr
end program basic
