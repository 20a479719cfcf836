! The calls of reduce_mpi_f08.f90, with a communicator that is no integer. Prints "fine".
program f08
  use, intrinsic :: iso_c_binding
  use mpi_f08
  use reduce_mpi_f08
  implicit none
  integer :: rank, ranks, ierr, wrong
  real(c_double), target :: x(2, 3) = reshape([1d300, 1d0, 2d0, -1d300, 3d0, 4d0], [2, 3]), v
  real(c_double) :: middle(1)
  integer(c_int32_t) :: whole(3) = [5, -7, 4]
  integer(c_int64_t) :: n
  type(reduce_spec), target :: spec
  type(reduce_item) :: item(1)
  type(MPI_Comm) :: part
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  wrong = 0
  call reduce_mpi_allreduce(REDUCE_SUM, x, v, MPI_COMM_WORLD, ierr)
  call expect(ierr == REDUCE_OK .and. v == 10*ranks)
  call reduce_mpi_allreduce(REDUCE_DOT, x(:, 3), x(1:2, 2:3:2), v, MPI_COMM_WORLD, ierr)
  call expect(ierr == REDUCE_OK .and. v == 3*2d0*ranks - 4d300*ranks)
  call reduce_mpi_allreduce(REDUCE_MIN, whole, n, MPI_COMM_WORLD, ierr, mask=logical(whole > -7, c_bool))
  call expect(ierr == REDUCE_OK .and. n == 4)
  v = -1
  call reduce_mpi_reduce(REDUCE_MEAN, whole, v, MPI_COMM_WORLD, ierr, root=ranks - 1)
  call expect(ierr == REDUCE_OK .and. v == merge(2/3d0, -1d0, rank == ranks - 1))
  call reduce_mpi_quantile([0.5d0], whole, middle, MPI_COMM_WORLD, ierr)
  call expect(ierr == REDUCE_OK .and. middle(1) == 4)
  if (command_argument_count() == 1) call best
  call MPI_Comm_split(MPI_COMM_WORLD, rank, 0, part)
  call reduce_mpi_allreduce(REDUCE_SUM, x, v, part, ierr)
  call expect(ierr == REDUCE_OK .and. v == 10)
  call reduce_mpi_allreduce(REDUCE_SUM, x, v, part%mpi_val, ierr)
  call expect(ierr == REDUCE_OK .and. v == 10)
  spec%dtype = REDUCE_F64
  item(1)%spec = c_loc(spec)
  item(1)%data = c_loc(x)
  item(1)%bytes = 8*size(x)
  item(1)%out = c_loc(v)
  item(1)%room = 8
  call reduce_mpi_items(item, MPI_COMM_WORLD, ierr)
  call expect(ierr == REDUCE_OK .and. v == 10*ranks)
  call without_waiting()
  call MPI_Allreduce(MPI_IN_PLACE, wrong, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  if (rank == 0 .and. wrong == 0) print '(a)', 'fine'
  call MPI_Finalize()

contains

  ! The first argument is where the daemon is.
  subroutine best
    type(c_ptr) :: client
    character(len=256) :: url
    integer(c_int64_t) :: first(2), found(2)
    call get_command_argument(1, url)
    call expect(reduce_open(client, trim(url)//c_null_char, c_null_ptr) == REDUCE_OK)
    call reduce_mpi_top(REDUCE_LARGEST, whole, first, found, MPI_COMM_WORLD, ierr, client, index_base=3_c_int64_t*rank)
    call expect(ierr == REDUCE_OK .and. all(first == merge([5, 4], 5, ranks == 1)))
    call expect(all(found == merge([0, 2], [0, 3], ranks == 1)))
    call reduce_close(client)
  end subroutine

  ! Requests of the world and of a part of it, ended in another order; the second one of the world has an error of one rank.
  subroutine without_waiting()
    type(reduce_mpi_request) :: request(4)
    real(c_double), asynchronous, target :: sum, bad, mean
    integer(c_int64_t), asynchronous, target :: least
    logical :: done
    call reduce_mpi_iallreduce(REDUCE_SUM, x, sum, MPI_COMM_WORLD, ierr, request=request(1))
    call expect(ierr == REDUCE_OK)
    call reduce_mpi_iallreduce(merge(99, REDUCE_SUM, rank == ranks - 1), x, bad, MPI_COMM_WORLD, ierr, request=request(2))
    call expect(ierr == REDUCE_OK)
    call reduce_mpi_iallreduce(REDUCE_MIN, whole, least, part, ierr, request=request(3), mask=logical(whole > -7, c_bool))
    call reduce_mpi_iallreduce(REDUCE_WMEAN, x(:, 3), x(:, 3), mean, MPI_COMM_WORLD, ierr, request=request(4))
    done = .false.
    do while (.not. done)
      call reduce_mpi_test(request(4), done, ierr)
    end do
    call expect(ierr == REDUCE_OK .and. mean == 25/7d0)
    call reduce_mpi_wait(request(2), ierr)
    call expect(ierr == REDUCE_E_OP .and. index(reduce_mpi_errmsg(), 'rank ') > 0)
    call reduce_mpi_wait(request(3), ierr)
    call expect(ierr == REDUCE_OK .and. least == 4)
    call reduce_mpi_wait(request(1), ierr)
    call expect(ierr == REDUCE_OK .and. sum == 10*ranks)
    call reduce_mpi_wait(request(1), ierr) ! it has ended
    call expect(ierr == REDUCE_OK)
  end subroutine

  subroutine expect(fine)
    logical, intent(in) :: fine
    if (.not. fine) then
      wrong = wrong + 1
      print *, 'rank', rank, ierr, v, reduce_mpi_errmsg()
    end if
  end subroutine
end program
