! Large counts by `use mpi_f08`: the same generic names with counts of kind
! MPI_COUNT_KIND, which are the _c functions of C.
!
! Each rank: Init, Comm_rank; 6 times Send_c and Recv_c of 40 bytes; Bcast_c,
! Type_contiguous_c of 3 GiB (never sent), Type_size_c, Type_free; Finalize.
program large
  use mpi_f08
  implicit none
  integer(MPI_COUNT_KIND) :: ten = 10, bytes
  integer :: rank, k, i, total, out(10), in(10)
  type(MPI_Datatype) :: huge_type
  type(MPI_Status) :: status

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  total = 0
  do k = 1, 6
    out = [(rank + k * i, i = 1, 10)]
    if (rank == 0) call MPI_Send(out, ten, MPI_INTEGER, 1, k, MPI_COMM_WORLD)
    call MPI_Recv(in, ten, MPI_INTEGER, 1 - rank, k, MPI_COMM_WORLD, status)
    if (rank == 1) call MPI_Send(out, ten, MPI_INTEGER, 0, k, MPI_COMM_WORLD)
    total = total + sum(in)
  end do
  call MPI_Bcast(total, 1_MPI_COUNT_KIND, MPI_INTEGER, 1, MPI_COMM_WORLD)
  call MPI_Type_contiguous(3221225472_MPI_COUNT_KIND, MPI_BYTE, huge_type)
  call MPI_Type_size(huge_type, bytes)
  call MPI_Type_free(huge_type)
  print '(a, i1, a, i8, i12)', 'rank ', rank, ': ', total, bytes
  call MPI_Finalize()
end program large
