! modern.f90: the same by the module mpi_f08. Two ranks.
program modern
   use mpi_f08
   implicit none
   integer :: rank, other, i, n, index
   type(MPI_Request) :: requests(3)
   type(MPI_Status) :: statuses(3), status
   type(MPI_Comm) :: half
   type(MPI_Datatype) :: column
   integer, asynchronous :: a(4, 5), b(4, 5)
   logical :: right, flag
   call MPI_Init()
   call MPI_Comm_rank(MPI_COMM_WORLD, rank)
   other = 1 - rank
   right = .true.
   a = reshape([(100 * rank + i, i = 1, 20)], [4, 5])
   b = -1
   call MPI_Comm_split(MPI_COMM_WORLD, 0, rank, half)
   call MPI_Type_vector(5, 1, 4, MPI_INTEGER, column)
   call MPI_Type_commit(column)
   call MPI_Irecv(b(2, 1), 1, column, other, 5, half, requests(1))
   call MPI_Isend(a(3, 1), 1, column, other, 5, half, requests(2))
   call MPI_Ibarrier(MPI_COMM_WORLD, requests(3))
   do n = 1, 3
      call MPI_Waitany(3, requests, index, status)
   end do
   right = right .and. all(b(2, :) == [(100 * other + 4 * i + 3, i = 0, 4)])
   right = right .and. all(b([1, 3, 4], :) == -1)
   call MPI_Type_free(column)
   call MPI_Sendrecv(a, 20, MPI_INTEGER, other, 6, b, 20, MPI_INTEGER, &
      MPI_ANY_SOURCE, MPI_ANY_TAG, half, status)
   right = right .and. status%MPI_SOURCE == other .and. status%MPI_TAG == 6
   right = right .and. all(b == reshape([(100 * other + i, i = 1, 20)], [4, 5]))
   call MPI_Irecv(b, 20, MPI_INTEGER, other, 7, half, requests(1))
   call MPI_Cancel(requests(1))
   call MPI_Wait(requests(1), status)
   call MPI_Test_cancelled(status, flag)
   right = right .and. flag .and. requests(1) == MPI_REQUEST_NULL
   call MPI_Comm_free(half)
   call MPI_Finalize()
   print '(i0, a)', rank, merge(': right', ': wrong', right)
   if (.not. right) error stop
end program modern
