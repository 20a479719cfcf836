! Heat in a rod on any number of ranks: explicit steps with the residual's norm after each, the same bits for any number of ranks.
!
!     mpif90 reduce_mpi.f90 heat_mpi.f90 $(pkg-config --libs libreduce) -o heat && mpirun -n 4 ./heat [STEPS]
program heat
  use, intrinsic :: iso_c_binding
  use mpi
  use reduce_mpi
  implicit none
  integer, parameter :: cells = 1000
  integer :: rank, ranks, ierr, first, n, i, steps
  real(c_double), allocatable :: u(:), change(:)
  real(c_double) :: residual, total
  character(len=16) :: word
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  steps = 400
  if (command_argument_count() > 0) then
    call get_command_argument(1, word)
    read (word, *) steps
  end if
  first = cells*rank/ranks
  n = cells*(rank + 1)/ranks - first
  allocate (u(0:n + 1), change(n))
  u = 0
  do i = 1, n
    u(i) = sin(0.37d0*(first + i))*exp(-0.01d0*(first + i))
  end do
  do while (steps > 0)
    call exchange_edges
    change = 0.25d0*(u(0:n - 1) - 2*u(1:n) + u(2:n + 1))
    u(1:n) = u(1:n) + change
    call reduce_mpi_allreduce(REDUCE_NORM2, change, residual, MPI_COMM_WORLD, ierr)
    if (ierr /= REDUCE_OK) call die
    steps = steps - 1
  end do
  call reduce_mpi_reduce(REDUCE_SUM, u(1:n), total, MPI_COMM_WORLD, ierr, root=0)
  if (ierr /= REDUCE_OK) call die
  if (rank == 0) print '(a, es25.17, a, es25.17)', 'residual ', residual, ' heat ', total
  call MPI_Finalize(ierr)

contains

  subroutine exchange_edges
    integer :: left, right
    left = merge(rank - 1, MPI_PROC_NULL, rank > 0)
    right = merge(rank + 1, MPI_PROC_NULL, rank < ranks - 1)
    call MPI_Sendrecv(u(1), 1, MPI_DOUBLE_PRECISION, left, 0, u(n + 1), 1, MPI_DOUBLE_PRECISION, right, 0, MPI_COMM_WORLD, &
                      MPI_STATUS_IGNORE, ierr)
    call MPI_Sendrecv(u(n), 1, MPI_DOUBLE_PRECISION, right, 1, u(0), 1, MPI_DOUBLE_PRECISION, left, 1, MPI_COMM_WORLD, &
                      MPI_STATUS_IGNORE, ierr)
  end subroutine

  subroutine die
    print *, reduce_mpi_errmsg()
    call MPI_Abort(MPI_COMM_WORLD, 1, ierr)
  end subroutine
end program
