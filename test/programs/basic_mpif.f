C     The exchange of basic.c from fixed-form Fortran by include 'mpif.h'.
C
C     Each rank: Init, Comm_rank, Comm_size; 10 times Send and Recv of
C     100 integers; 3 times Irecv, Isend of 50 doubles and Waitall;
C     4 times Sendrecv of one double; 2 Bcast, 3 Allreduce, 1 Barrier,
C     Finalize.
      program basic
      implicit none
      include 'mpif.h'
      integer rank, nproc, peer, ierr, i, k, total
      integer ints(100), back(100), req(2), status(MPI_STATUS_SIZE)
      double precision out(50), in(50), one, other, s

      call MPI_INIT(ierr)
      call MPI_COMM_RANK(MPI_COMM_WORLD, rank, ierr)
      call MPI_COMM_SIZE(MPI_COMM_WORLD, nproc, ierr)
      peer = 1 - rank
      total = 0
      s = 0
      do 20 k = 0, 9
        do 10 i = 1, 100
          ints(i) = rank + k * (i - 1)
 10     continue
        if (rank .eq. 0) call MPI_SEND(ints, 100, MPI_INTEGER, peer,
     &      k, MPI_COMM_WORLD, ierr)
        call MPI_RECV(back, 100, MPI_INTEGER, peer, k,
     &      MPI_COMM_WORLD, status, ierr)
        if (rank .eq. 1) call MPI_SEND(ints, 100, MPI_INTEGER, peer,
     &      k, MPI_COMM_WORLD, ierr)
        do 15 i = 1, 100
          total = total + back(i) * i
 15     continue
 20   continue
      do 40 k = 0, 2
        do 30 i = 1, 50
          out(i) = rank + 2 * k + i - 1
 30     continue
        call MPI_IRECV(in, 50, MPI_DOUBLE_PRECISION, peer, 20 + k,
     &      MPI_COMM_WORLD, req(1), ierr)
        call MPI_ISEND(out, 50, MPI_DOUBLE_PRECISION, peer, 20 + k,
     &      MPI_COMM_WORLD, req(2), ierr)
        call MPI_WAITALL(2, req, MPI_STATUSES_IGNORE, ierr)
        do 35 i = 1, 50
          s = s + in(i) * i
 35     continue
 40   continue
      do 50 k = 0, 3
        one = rank + k
        call MPI_SENDRECV(one, 1, MPI_DOUBLE_PRECISION, peer, 30,
     &      other, 1, MPI_DOUBLE_PRECISION, peer, 30,
     &      MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
        s = s + other * (k + 1)
 50   continue
      do 60 k = 0, 1
        one = 0
        if (rank .eq. k) one = 7 + k
        call MPI_BCAST(one, 1, MPI_DOUBLE_PRECISION, k,
     &      MPI_COMM_WORLD, ierr)
        s = s + one
 60   continue
      do 70 k = 0, 2
        call MPI_ALLREDUCE(one, other, 1, MPI_DOUBLE_PRECISION,
     &      MPI_SUM, MPI_COMM_WORLD, ierr)
        s = s + other
 70   continue
      call MPI_BARRIER(MPI_COMM_WORLD, ierr)
      print '(a, i1, a, i1, a, i8, f12.1)', 'rank ', rank, ' of ',
     &    nproc, ': ', total, s
      call MPI_FINALIZE(ierr)
      print '(a, i1)', 'finalize returns ', ierr
      end
