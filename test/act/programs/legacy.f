C     legacy.f: requests, statuses and communicators through mpif.h. Two ranks.
      program legacy
      implicit none
      include 'mpif.h'
      integer ierr, rank, other, i, n, flag_count
      integer requests(4), statuses(MPI_STATUS_SIZE, 4)
      integer status(MPI_STATUS_SIZE), comm, vector, message
      integer a(20), b(20)
      logical flag, right
      call MPI_INIT(ierr)
      call MPI_COMM_RANK(MPI_COMM_WORLD, rank, ierr)
      other = 1 - rank
      right = .true.
      call MPI_COMM_DUP(MPI_COMM_WORLD, comm, ierr)
      do i = 1, 20
         a(i) = 100 * rank + i
         b(i) = -1
      end do
      call MPI_IRECV(b(1), 5, MPI_INTEGER, other, 1, comm, requests(1),
     &   ierr)
      call MPI_IRECV(b(6), 5, MPI_INTEGER, MPI_ANY_SOURCE, 2,
     &   MPI_COMM_WORLD, requests(2), ierr)
      call MPI_ISEND(a(6), 5, MPI_INTEGER, other, 2, MPI_COMM_WORLD,
     &   requests(3), ierr)
      call MPI_ISEND(a(1), 5, MPI_INTEGER, other, 1, comm, requests(4),
     &   ierr)
      call MPI_WAITALL(4, requests, statuses, ierr)
      do i = 1, 10
         right = right .and. b(i) .eq. 100 * other + i
      end do
      right = right .and. statuses(MPI_SOURCE, 2) .eq. other
      right = right .and. statuses(MPI_TAG, 1) .eq. 1
      right = right .and. requests(1) .eq. MPI_REQUEST_NULL
C     a persistent pair, tested until it is done
      call MPI_RECV_INIT(b, 20, MPI_INTEGER, other, 3, comm,
     &   requests(1), ierr)
      call MPI_SEND_INIT(a, 20, MPI_INTEGER, other, 3, comm,
     &   requests(2), ierr)
      do n = 1, 3
         call MPI_STARTALL(2, requests, ierr)
         flag = .false.
         do while (.not. flag)
            call MPI_TESTALL(2, requests, flag, statuses, ierr)
         end do
         call MPI_GET_COUNT(statuses(1, 1), MPI_INTEGER, flag_count,
     &      ierr)
         right = right .and. flag_count .eq. 20
      end do
      call MPI_REQUEST_FREE(requests(1), ierr)
      call MPI_REQUEST_FREE(requests(2), ierr)
C     every second element, and a matched receive
      call MPI_TYPE_VECTOR(10, 1, 2, MPI_INTEGER, vector, ierr)
      call MPI_TYPE_COMMIT(vector, ierr)
      call MPI_ISEND(a, 1, vector, other, 4, comm, requests(1), ierr)
      call MPI_MPROBE(other, 4, comm, message, status, ierr)
      call MPI_MRECV(b, 10, MPI_INTEGER, message, status, ierr)
      right = right .and. message .eq. MPI_MESSAGE_NULL
      call MPI_WAIT(requests(1), MPI_STATUS_IGNORE, ierr)
      do i = 1, 10
         right = right .and. b(i) .eq. 100 * other + 2 * i - 1
      end do
      call MPI_TYPE_FREE(vector, ierr)
      call MPI_COMM_FREE(comm, ierr)
      call MPI_FINALIZE(ierr)
      if (right) then
         print '(i0, a)', rank, ': right'
      else
         print '(i0, a)', rank, ': wrong'
         call exit(1)
      end if
      end
