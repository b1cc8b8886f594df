C     The truth test of call sites by include 'mpif.h'.
C
C     Rank 0: Init, Comm_rank, 3 Send at "site: first", 2 at "site:
C     second", Finalize. Rank 1: Init, Comm_rank, 5 Recv, Finalize.
      program sites
      implicit none
      include 'mpif.h'
      integer rank, ierr, k, v, status(MPI_STATUS_SIZE)

      v = 4
      call MPI_INIT(ierr)
      call MPI_COMM_RANK(MPI_COMM_WORLD, rank, ierr)
      if (rank .eq. 0) then
        do 10 k = 1, 3
          call MPI_SEND(v, 1, MPI_INTEGER, 1, 0, MPI_COMM_WORLD, ierr) ! site: first
 10     continue
        do 20 k = 1, 2
          call MPI_SEND(v, 1, MPI_INTEGER, 1, 0, MPI_COMM_WORLD, ierr) ! site: second
 20     continue
      else
        do 30 k = 1, 5
          call MPI_RECV(v, 1, MPI_INTEGER, 0, 0, MPI_COMM_WORLD, status, ierr) ! site: recv
 30     continue
      end if
      print '(a, i1, a, i2)', 'rank ', rank, ': ', v
      call MPI_FINALIZE(ierr)
      end
