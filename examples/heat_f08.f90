! heat_f08: the temperature of a square plate, by Jacobi iteration on a grid
! that is cut into one block per rank; the Fortran twin of heat.c.
!
! Each step exchanges the edges of the blocks with up to four neighbours
! (columns as they lie in memory, rows by a vector type), replaces every point
! by the mean of its neighbours and finds the largest change of the step on any
! rank. All results are maxima of values that do not depend on how the grid is
! cut, so every run with equal -n and -s prints the same numbers.
!
!     mpifort -O2 -g heat_f08.f90 -o heat_f08 && mpirun -n 4 ./heat_f08

module plate
  use mpi_f08
  use, intrinsic :: iso_fortran_env, only: real64, error_unit, output_unit
  implicit none

  integer, parameter :: phase_setup = 3, phase_solve = 4   ! MPI_Pcontrol
  integer, parameter :: upward = 0, downward = 1, leftward = 2, rightward = 3
  real(real64), parameter :: hot = 100   ! the left edge; the other three are 0

  type options
     integer :: n = 512, steps = 200      ! points along one side; steps to take
     integer :: slow_rank = -1            ! does slow_factor times the work
     real(real64) :: slow_factor = 1
     logical :: fresh = .false.           ! a new grid each step, not two in turn
  end type options

  ! The block of this rank: rows x cols points inside a frame of halo points.
  type block
     type(MPI_Comm) :: comm
     type(MPI_Datatype) :: row
     integer :: rank, up, down, left, right
     integer :: rows, cols, first_row, first_col
  end type block

contains

  subroutine usage(status)
    integer, intent(in) :: status
    integer :: rank, unit

    unit = merge(output_unit, error_unit, status == 0)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank)
    if (rank == 0) write (unit, '(a)') &
         'usage: heat_f08 [-n SIZE] [-s STEPS] [--imbalance RANK:FACTOR] [--fresh]', &
         '  -n SIZE                  points along one side (512)', &
         '  -s STEPS                 steps to take (200)', &
         '  --imbalance RANK:FACTOR  give RANK that many times the work', &
         '  --fresh                  allocate a grid each step'
    call MPI_Finalize()
    if (status == 0) stop
    stop 2, quiet=.true.
  end subroutine usage

  function parse_options() result(o)
    type(options) :: o
    character(len=64) :: word
    integer :: i, colon, bad

    i = 1
    bad = 0
    do while (i <= command_argument_count() .and. bad == 0)
       call get_command_argument(i, word)
       select case (word)
       case ('-n')
          call get_command_argument(i + 1, word)
          read (word, *, iostat=bad) o%n
          i = i + 1
       case ('-s')
          call get_command_argument(i + 1, word)
          read (word, *, iostat=bad) o%steps
          i = i + 1
       case ('--imbalance')
          call get_command_argument(i + 1, word)
          colon = index(word, ':')
          read (word(:colon - 1), *, iostat=bad) o%slow_rank
          if (bad == 0) read (word(colon + 1:), *, iostat=bad) o%slow_factor
          i = i + 1
       case ('--fresh')
          o%fresh = .true.
       case ('-h', '--help')
          call usage(0)
       case default
          bad = 1
       end select
       i = i + 1
    end do
    if (bad /= 0 .or. o%n < 1 .or. o%steps < 1 .or. o%slow_factor < 0) call usage(2)
  end function parse_options

  ! Part number `index` of `parts` of 1..n, as even as can be.
  pure subroutine share(n, parts, index, size, first)
    integer, intent(in) :: n, parts, index
    integer, intent(out) :: size, first

    size = n / parts + merge(1, 0, index < mod(n, parts))
    first = index * (n / parts) + min(index, mod(n, parts)) + 1
  end subroutine share

  function make_block(n) result(b)
    integer, intent(in) :: n
    type(block) :: b
    integer :: ranks, dims(2), at(2)

    dims = 0
    call MPI_Comm_size(MPI_COMM_WORLD, ranks)
    call MPI_Dims_create(ranks, 2, dims)
    call MPI_Cart_create(MPI_COMM_WORLD, 2, dims, [.false., .false.], .true., b%comm)
    call MPI_Comm_rank(b%comm, b%rank)
    call MPI_Cart_coords(b%comm, b%rank, 2, at)
    call MPI_Cart_shift(b%comm, 0, 1, b%up, b%down)
    call MPI_Cart_shift(b%comm, 1, 1, b%left, b%right)

    call share(n, dims(1), at(1), b%rows, b%first_row)
    call share(n, dims(2), at(2), b%cols, b%first_col)
    call MPI_Type_vector(b%cols, 1, b%rows + 2, MPI_DOUBLE_PRECISION, b%row)
    call MPI_Type_commit(b%row)
  end function make_block

  subroutine new_grid(b, grid)
    type(block), intent(in) :: b
    real(real64), allocatable, intent(out) :: grid(:, :)

    allocate (grid(0:b%rows + 1, 0:b%cols + 1), source=0.0_real64)
    if (b%left == MPI_PROC_NULL) grid(:, 0) = hot
  end subroutine new_grid

  subroutine exchange_halo(b, grid)
    type(block), intent(in) :: b
    real(real64), intent(inout), asynchronous :: grid(0:b%rows + 1, 0:b%cols + 1)
    type(MPI_Request) :: r(8)
    integer :: rows, cols

    rows = b%rows
    cols = b%cols
    call MPI_Irecv(grid(0, 1), 1, b%row, b%up, downward, b%comm, r(1))
    call MPI_Irecv(grid(rows + 1, 1), 1, b%row, b%down, upward, b%comm, r(2))
    call MPI_Irecv(grid(1, 0), rows, MPI_DOUBLE_PRECISION, b%left, rightward, b%comm, r(3))
    call MPI_Irecv(grid(1, cols + 1), rows, MPI_DOUBLE_PRECISION, b%right, leftward, b%comm, r(4))
    call MPI_Isend(grid(1, 1), 1, b%row, b%up, upward, b%comm, r(5))
    call MPI_Isend(grid(rows, 1), 1, b%row, b%down, downward, b%comm, r(6))
    call MPI_Isend(grid(1, 1), rows, MPI_DOUBLE_PRECISION, b%left, leftward, b%comm, r(7))
    call MPI_Isend(grid(1, cols), rows, MPI_DOUBLE_PRECISION, b%right, rightward, b%comm, r(8))
    call MPI_Waitall(8, r, MPI_STATUSES_IGNORE)
    if (.not. MPI_ASYNC_PROTECTS_NONBLOCKING) call MPI_F_sync_reg(grid)
  end subroutine exchange_halo

  ! One step; a slow rank computes its columns, or some, more than once.
  function relax(b, o, grid, next) result(largest)
    type(block), intent(in) :: b
    type(options), intent(in) :: o
    real(real64), intent(in) :: grid(0:b%rows + 1, 0:b%cols + 1)
    real(real64), intent(inout) :: next(0:b%rows + 1, 0:b%cols + 1)
    real(real64) :: change, largest
    integer :: i, j, k, work

    work = b%cols
    if (b%rank == o%slow_rank .and. o%slow_factor > 1) work = int(b%cols * o%slow_factor)
    change = 0
    do k = 0, work - 1
       j = 1 + mod(k, b%cols)
       do i = 1, b%rows
          next(i, j) = 0.25_real64 * (grid(i - 1, j) + grid(i + 1, j) &
               + grid(i, j - 1) + grid(i, j + 1))
          change = max(change, abs(next(i, j) - grid(i, j)))
       end do
    end do
    call MPI_Allreduce(change, largest, 1, MPI_DOUBLE_PRECISION, MPI_MAX, b%comm)
  end function relax

  ! How far the warmth has come: the last column above 1 degree, on rank 0.
  function warm_columns(b, grid) result(warm)
    type(block), intent(in) :: b
    real(real64), intent(in) :: grid(0:b%rows + 1, 0:b%cols + 1)
    integer :: warm, mine, j

    mine = 0
    do j = 1, b%cols
       if (any(grid(1:b%rows, j) > 1)) mine = b%first_col + j - 1
    end do
    call MPI_Reduce(mine, warm, 1, MPI_INTEGER, MPI_MAX, 0, b%comm)
  end function warm_columns
end module plate

program heat
  use plate
  implicit none
  type(options) :: o
  type(block) :: b
  real(real64), allocatable :: grid(:, :), next(:, :), swap(:, :)
  real(real64) :: change
  integer :: step, warm

  call MPI_Init()
  o = parse_options()

  call MPI_Pcontrol(phase_setup)
  b = make_block(o%n)
  call new_grid(b, grid)
  call new_grid(b, next)

  call MPI_Pcontrol(phase_solve)
  do step = 1, o%steps
     if (o%fresh) call new_grid(b, next)
     call exchange_halo(b, grid)
     change = relax(b, o, grid, next)
     call move_alloc(grid, swap)
     call move_alloc(next, grid)
     call move_alloc(swap, next)
  end do

  warm = warm_columns(b, grid)
  if (b%rank == 0) print '(i0, " x ", i0, " points, ", i0, " steps: ", i0, &
       &" columns warm, last change ", es12.6)', o%n, o%n, o%steps, warm, change
  call MPI_Type_free(b%row)
  call MPI_Comm_free(b%comm)
  call MPI_Finalize()
end program heat
