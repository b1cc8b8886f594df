! The truth test of call sites by `use mpi_f08`.
!
! Rank 0: Init, Comm_rank, 3 Send at "site: first", 2 at "site: second",
! Finalize. Rank 1: Init, Comm_rank, 5 Recv, Finalize.
program sites
  use mpi_f08
  implicit none
  integer :: rank, k, v, ierr
  type(MPI_Status) :: status

  v = 4
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  if (rank == 0) then
    do k = 1, 3
      call MPI_Send(v, 1, MPI_INTEGER, 1, 0, MPI_COMM_WORLD, ierr) ! site: first
    end do
    do k = 1, 2
      call MPI_Send(v, 1, MPI_INTEGER, 1, 0, MPI_COMM_WORLD, ierr) ! site: second
    end do
  else
    do k = 1, 5
      call MPI_Recv(v, 1, MPI_INTEGER, 0, 0, MPI_COMM_WORLD, status, ierr) ! site: recv
    end do
  end if
  print '(a, i1, a, i2)', 'rank ', rank, ': ', v
  call MPI_Finalize(ierr)
end program sites
