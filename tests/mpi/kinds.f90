! Every kind of array and value of reduce_mpi.f90, its errors, several items, and states that the program carries.
program kinds
  use, intrinsic :: iso_c_binding
  use mpi
  use reduce_mpi
  implicit none
  integer :: rank, ranks, ierr, wrong, all_wrong
  real(c_float) :: r4(4) = [1e30, 1.0, -1e30, 2.0]
  real(c_double) :: r8(3) = [1d300, 1d0, -1d300], v, w
  integer(c_int32_t) :: i4(3) = [5, -7, 4]
  integer(c_int64_t) :: i8(2) = [huge(1_c_int64_t), 1_c_int64_t], n
  wrong = 0
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  call reduce_mpi_allreduce(REDUCE_SUM, r4, v, MPI_COMM_WORLD, ierr)
  call expect(ierr == REDUCE_OK .and. v == 3*ranks)
  call reduce_mpi_allreduce(REDUCE_MEAN, r8, v, MPI_COMM_WORLD, ierr)
  call expect(ierr == REDUCE_OK .and. v == 1/3d0)
  call reduce_mpi_allreduce(REDUCE_MIN, i4, n, MPI_COMM_WORLD, ierr)
  call expect(ierr == REDUCE_OK .and. n == -7)
  call reduce_mpi_allreduce(REDUCE_MEAN, i4, v, MPI_COMM_WORLD, ierr)
  call expect(ierr == REDUCE_OK .and. v == 2/3d0)
  call reduce_mpi_allreduce(REDUCE_SUM, i8, n, MPI_COMM_WORLD, ierr)
  call expect(ierr == REDUCE_E_OVERFLOW .and. index(reduce_mpi_errmsg(), 'OVERFLOW') == 1)
  call reduce_mpi_allreduce(REDUCE_RMS, i8, v, MPI_COMM_WORLD, ierr)
  call expect(ierr == REDUCE_OK .and. v > 6d18 .and. v < 7d18)
  call reduce_mpi_allreduce(REDUCE_COUNT, r4(1:rank), n, MPI_COMM_WORLD, ierr) ! the first rank has none
  call expect(ierr == REDUCE_OK .and. n == ranks*(ranks - 1)/2)
  call reduce_mpi_allreduce(REDUCE_ARGMAX, r8, n, MPI_COMM_WORLD, ierr, index_base=3_c_int64_t*(ranks - rank))
  call expect(ierr == REDUCE_OK .and. n == 3)
  call reduce_mpi_allreduce(REDUCE_VAR, i4, v, MPI_COMM_WORLD, ierr, ddof=3*ranks)
  call expect(ierr == REDUCE_OK .and. v /= v)
  call reduce_mpi_allreduce(REDUCE_SUM, r8, n, MPI_COMM_WORLD, ierr)
  call expect(ierr == REDUCE_E_TYPE)
  call reduce_mpi_allreduce(REDUCE_STATS, r8, v, MPI_COMM_WORLD, ierr)
  call expect(ierr == REDUCE_E_TYPE)
  v = -1
  call reduce_mpi_reduce(REDUCE_SUM, r8, v, MPI_COMM_WORLD, ierr, root=ranks - 1)
  call expect(ierr == REDUCE_OK .and. v == merge(ranks, -1, rank == ranks - 1))
  call reduce_mpi_allreduce(merge(REDUCE_SUM, REDUCE_NORM1, rank == 0), r8, v, MPI_COMM_WORLD, ierr)
  call expect(ierr == merge(REDUCE_OK, REDUCE_E_BAD_MESSAGE, ranks == 1))
  call items
  call weights
  call fields
  call quantiles
  if (command_argument_count() == 1) call best
  call dimensions
  call blocks
  call requests
  call MPI_Allreduce(wrong, all_wrong, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
  if (rank == 0 .and. all_wrong == 0) print '(a)', 'fine'
  call MPI_Finalize(ierr)

contains

  subroutine expect(fine)
    logical, intent(in) :: fine
    if (.not. fine) then
      wrong = wrong + 1
      print *, 'rank', rank, ierr, reduce_mpi_errmsg()
    end if
  end subroutine

  ! Sums that do not fit one message, three times, between others: the ranks end them in different orders.
  subroutine requests
    integer, parameter :: many = 30
    type(reduce_spec), target :: spec
    type(reduce_item) :: item(many)
    type(reduce_mpi_request) :: big(3), small
    real(c_double), target :: y(3)
    real(c_double), asynchronous, target :: out(many, 3), value
    integer :: i, k
    logical :: done
    y = [2d0**900, 3d0, 2d0**(-900)]
    spec%dtype = REDUCE_F64
    do k = 1, 3
      do i = 1, many
        item(i)%spec = c_loc(spec)
        item(i)%data = c_loc(y)
        item(i)%bytes = 24
        item(i)%out = c_loc(out(i, k))
        item(i)%room = 8
      end do
      call reduce_mpi_items(item, MPI_COMM_WORLD, ierr, request=big(k))
      call expect(ierr == REDUCE_OK)
      if (k == 1) call reduce_mpi_iallreduce(REDUCE_MAX, y, value, MPI_COMM_WORLD, ierr, request=small)
      call expect(ierr == REDUCE_OK)
      y(1) = -2d0**900 ! what has begun does not see it
      if (k == 1 .and. rank == 0) call reduce_mpi_test(big(k), done, ierr)
      call expect(ierr == REDUCE_OK)
    end do
    do k = 1, 3
      call reduce_mpi_wait(big(merge(k, 4 - k, mod(rank, 2) == 0)), ierr)
      call expect(ierr == REDUCE_OK)
    end do
    call reduce_mpi_wait(small, ierr)
    call expect(ierr == REDUCE_OK .and. value == 2d0**900)
    call expect(all(out(:, 1) == ranks*2d0**900) .and. all(out(:, 2:) == -ranks*2d0**900))
    call reduce_mpi_iallreduce(REDUCE_SUM, y, value, MPI_COMM_WORLD, ierr, request=small, nan=merge(9, 0, rank == ranks - 1))
    if (ierr == REDUCE_OK) call reduce_mpi_wait(small, ierr)
    call expect(ierr /= REDUCE_OK .and. index(reduce_mpi_errmsg(), 'rank') > 0)
    ! what does not begin has its error, until it begins anew; and so has what has ended
    call reduce_mpi_iallreduce(REDUCE_SUM, y, value, MPI_COMM_WORLD, ierr, request=small, root=ranks)
    call expect(ierr == REDUCE_E_ARGUMENT)
    call reduce_mpi_allreduce(REDUCE_SUM, [1d0], v, MPI_COMM_WORLD, ierr, nan=9)
    call reduce_mpi_test(small, done, ierr)
    call expect(done .and. ierr == REDUCE_E_ARGUMENT .and. index(reduce_mpi_errmsg(), 'no such rank') > 0)
    call reduce_mpi_iallreduce(REDUCE_MAX, y(:0), value, MPI_COMM_WORLD, ierr, request=small)
    do i = 1, 2
      call reduce_mpi_wait(small, ierr)
      call expect(ierr == REDUCE_E_EMPTY .and. index(reduce_mpi_errmsg(), 'EMPTY') == 1)
    end do
    call reduce_mpi_iallreduce(REDUCE_MAX, y, value, MPI_COMM_WORLD, ierr, request=small)
    do i = 1, 2
      call reduce_mpi_wait(small, ierr)
      call expect(ierr == REDUCE_OK)
    end do
  end subroutine

  subroutine quantiles
    integer :: i
    real(c_double) :: values(2), mine(5)
    integer(c_int32_t) :: whole(5)
    mine = [(dble(i*ranks + rank), i=0, 4)] ! of all ranks 0 to 5 ranks - 1
    whole = int(mine)
    call reduce_mpi_quantile([0.5d0, 1d0], mine, values, MPI_COMM_WORLD, ierr)
    call expect(ierr == REDUCE_OK .and. values(1) == (5*ranks - 1)/2d0 .and. values(2) == 5*ranks - 1)
    call reduce_mpi_quantile([0.25d0], whole, values, MPI_COMM_WORLD, ierr)
    call expect(ierr == REDUCE_OK .and. values(1) == (5*ranks - 1)/4d0)
    call reduce_mpi_quantile([merge(2d0, 0.5d0, rank == 0)], mine, values, MPI_COMM_WORLD, ierr)
    call expect(ierr == REDUCE_E_BAD_MESSAGE .and. index(reduce_mpi_errmsg(), 'rank 0: ') > 0)
    call reduce_mpi_quantile([0.1d0, 0.2d0], mine, values(:merge(1, 2, rank == 0)), MPI_COMM_WORLD, ierr)
    call expect(ierr == REDUCE_E_ARGUMENT .and. index(reduce_mpi_errmsg(), 'rank 0: ') > 0)
    if (ranks == 1) return
    call reduce_mpi_quantile([merge(0.1d0, 0.2d0, rank == 0)], mine, values, MPI_COMM_WORLD, ierr)
    call expect(ierr == REDUCE_E_BAD_MESSAGE .and. index(reduce_mpi_errmsg(), 'do not ask') > 0)
    call reduce_mpi_quantile([0.1d0, 0.2d0], mine, values, MPI_COMM_WORLD, ierr, nan=merge(1, 0, rank == 0))
    call expect(ierr == REDUCE_E_BAD_MESSAGE .and. index(reduce_mpi_errmsg(), 'do not ask') > 0)
  end subroutine

  ! Rank r has the elements r, r + ranks, ...; the first argument is where the daemon is.
  subroutine best
    type(c_ptr) :: client
    character(len=256) :: url
    real(c_double) :: x(3), values(4)
    real(c_float) :: y(2)
    integer(c_int32_t) :: whole(3)
    integer(c_int64_t) :: found(4), numbers(4), big(1)
    logical(c_bool) :: mask(3)
    integer :: i
    call get_command_argument(1, url)
    call expect(reduce_open(client, trim(url)//c_null_char, c_null_ptr) == REDUCE_OK)
    x = [(dble(i*ranks + rank), i=0, 2)] ! of all ranks 0 to 3 ranks - 1
    call reduce_mpi_top(REDUCE_LARGEST, x, values, found, MPI_COMM_WORLD, ierr, client, index_base=3_c_int64_t*rank)
    do i = 1, min(4, 3*ranks)
      call expect(ierr == REDUCE_OK .and. values(i) == 3*ranks - i)
      call expect(found(i) == 3*mod(3*ranks - i, ranks) + (3*ranks - i)/ranks)
    end do
    if (ranks == 1) call expect(values(4) /= values(4) .and. found(4) == -1)
    whole = [7, -1, 7] ! at every rank: of equal elements the first ones
    call reduce_mpi_top(REDUCE_LARGEST, whole, numbers(1:2), found(1:2), MPI_COMM_WORLD, ierr, client, &
                        index_base=3_c_int64_t*(ranks - rank))
    call expect(ierr == REDUCE_OK .and. all(numbers(1:2) == 7) .and. all(found(1:2) == [3, 5]))
    mask = [.false., .true., .false.]
    call reduce_mpi_top(REDUCE_SMALLEST, whole, numbers(1:1), found(1:1), MPI_COMM_WORLD, ierr, client, mask=mask)
    call expect(ierr == REDUCE_OK .and. numbers(1) == -1 .and. found(1) == 1)
    big = huge(1_c_int64_t) - rank
    call reduce_mpi_top(REDUCE_SMALLEST, big, numbers(1:1), found(1:1), MPI_COMM_WORLD, ierr, client, &
                        index_base=int(rank, c_int64_t))
    call expect(ierr == REDUCE_OK .and. numbers(1) == huge(1_c_int64_t) - (ranks - 1) .and. found(1) == ranks - 1)
    y = [1.0, 0.0]
    y(2) = y(1)/y(2) - y(1)/y(2) ! NaN
    call reduce_mpi_top(REDUCE_LARGEST, y, values(1:1), found(1:1), MPI_COMM_WORLD, ierr, client, nan=REDUCE_NAN_OMIT)
    call expect(ierr == REDUCE_OK .and. values(1) == 1 .and. found(1) == 0)
    call reduce_mpi_top(REDUCE_LARGEST, y, values(1:1), found(1:1), MPI_COMM_WORLD, ierr, client, &
                        nan=merge(2, 0, rank == ranks - 1))
    call expect(ierr == REDUCE_E_NAN .and. index(reduce_mpi_errmsg(), 'rank') > 0)
    call reduce_mpi_top(REDUCE_LARGEST, x, values(1:2), found(1:3), MPI_COMM_WORLD, ierr, client)
    call expect(ierr /= REDUCE_OK)
    call reduce_mpi_top(merge(REDUCE_LARGEST, REDUCE_SMALLEST, rank == 0), x, values, found, MPI_COMM_WORLD, ierr, client)
    call expect(ierr == merge(REDUCE_OK, REDUCE_E_BAD_MESSAGE, ranks == 1))
    call reduce_close(client)
  end subroutine

  subroutine items
    type(reduce_spec), target :: spec(2)
    type(reduce_item) :: item(2)
    real(c_double), target :: x(3), ends(2), norm
    x = r8
    spec(1)%op = REDUCE_MINMAX
    spec(2)%op = REDUCE_NORM1
    spec%dtype = REDUCE_F64
    item(1)%spec = c_loc(spec(1))
    item(2)%spec = c_loc(spec(2))
    item%data = c_loc(x)
    item%bytes = 24
    item(1)%out = c_loc(ends)
    item(1)%room = 16
    item(2)%out = c_loc(norm)
    item(2)%room = 8
    call reduce_mpi_items(item, MPI_COMM_WORLD, ierr)
    w = 2d300*ranks
    call expect(ierr == REDUCE_OK .and. ends(1) == -1d300 .and. ends(2) == 1d300 .and. norm == w)
  end subroutine

  ! Of each kind, with a mask, of ranks without elements, and with too few weights.
  subroutine weights
    real(c_float) :: x(4) = [1e30, 1.0, -1e30, 2.0], by(4) = [2.0, 3.0, 2.0, 4.0]
    real(c_double) :: y(4) = [1d300, 1d0, -1d300, 2d0], also(4) = [2d0, 3d0, 2d0, 4d0]
    logical(c_bool) :: keep(4) = [.false., .true., .false., .true.]
    call reduce_mpi_allreduce(REDUCE_DOT, x, by, v, MPI_COMM_WORLD, ierr)
    call expect(ierr == REDUCE_OK .and. v == 11*ranks)
    call reduce_mpi_allreduce(REDUCE_WMEAN, x, also, v, MPI_COMM_WORLD, ierr)
    call expect(ierr == REDUCE_OK .and. v == 1)
    call reduce_mpi_allreduce(REDUCE_WSUM, y, also, v, MPI_COMM_WORLD, ierr, mask=keep)
    call expect(ierr == REDUCE_OK .and. v == 11*ranks)
    call reduce_mpi_allreduce(REDUCE_WMEAN, y, also, v, MPI_COMM_WORLD, ierr, mask=keep)
    call expect(ierr == REDUCE_OK .and. v == 11/7d0)
    call reduce_mpi_allreduce(REDUCE_SUM, y, v, MPI_COMM_WORLD, ierr, mask=keep)
    call expect(ierr == REDUCE_OK .and. v == 3*ranks)
    call reduce_mpi_allreduce(REDUCE_DOT, y(1:2*min(rank, 1)), also(1:2*min(rank, 1)), v, MPI_COMM_WORLD, ierr)
    w = 0
    if (ranks > 1) w = (ranks - 1)*2d300
    call expect(ierr == REDUCE_OK .and. v == w)
    v = -1
    call reduce_mpi_reduce(REDUCE_DOT, x, by, v, MPI_COMM_WORLD, ierr, root=ranks - 1)
    call expect(ierr == REDUCE_OK .and. v == merge(11*ranks, -1, rank == ranks - 1))
    call reduce_mpi_allreduce(REDUCE_DOT, y, also(1:4 - min(rank, 1)), v, MPI_COMM_WORLD, ierr)
    call expect(ierr == merge(REDUCE_OK, REDUCE_E_SHAPE, ranks == 1))
    call reduce_mpi_allreduce(REDUCE_SUM, y, v, MPI_COMM_WORLD, ierr, root=-1)
    call expect(ierr == REDUCE_E_ARGUMENT .and. index(reduce_mpi_errmsg(), 'no such rank') > 0)
    call reduce_mpi_allreduce(REDUCE_SUM, y, v, MPI_COMM_WORLD, ierr, mask=keep(1:3))
    call expect(ierr == REDUCE_E_SHAPE .and. index(reduce_mpi_errmsg(), 'another size') > 0)
    call reduce_mpi_allreduce(REDUCE_DOT, y, v, MPI_COMM_WORLD, ierr)
    call expect(ierr == REDUCE_E_ARGUMENT)
    call reduce_mpi_allreduce(REDUCE_SUM, y, also, v, MPI_COMM_WORLD, ierr)
    call expect(ierr == REDUCE_E_ARGUMENT)
  end subroutine

  ! Arrays of any rank, scalars, and parts of arrays that do not lie one behind the other.
  subroutine dimensions
    real(c_double) :: x(4, 3), by(4, 3), deep(2, 2, 2, 2, 2, 2, 2)
    real(c_double), allocatable :: none(:, :)
    real(c_float) :: narrow(4, 3)
    logical(c_bool) :: keep(4, 3)
    real(c_double) :: middle(1)
    integer :: i
    x = reshape([(dble(i), i=1, 12)], [4, 3])
    by = 2
    deep = 3
    narrow = real(x)
    keep = .true.
    keep(2, 2) = .false.
    allocate (none(0, 3))
    call reduce_mpi_allreduce(REDUCE_SUM, x, v, MPI_COMM_WORLD, ierr)
    call expect(ierr == REDUCE_OK .and. v == 78*ranks)
    call reduce_mpi_allreduce(REDUCE_SUM, x(2:3, 2:3), v, MPI_COMM_WORLD, ierr)
    call expect(ierr == REDUCE_OK .and. v == (6 + 7 + 10 + 11)*ranks)
    call reduce_mpi_allreduce(REDUCE_SUM, narrow(1:4:2, :), v, MPI_COMM_WORLD, ierr, mask=keep(2:4:2, :))
    call expect(ierr == REDUCE_OK .and. v == (1 + 3 + 7 + 9 + 11)*ranks)
    call reduce_mpi_allreduce(REDUCE_DOT, x(2:3, 2:3), by(1:2, 1:2), v, MPI_COMM_WORLD, ierr, mask=keep(2:3, 2:3))
    call expect(ierr == REDUCE_OK .and. v == 2*(7 + 10 + 11)*ranks)
    call reduce_mpi_allreduce(REDUCE_MEAN, deep, v, MPI_COMM_WORLD, ierr)
    call expect(ierr == REDUCE_OK .and. v == 3)
    call reduce_mpi_allreduce(REDUCE_MAX, dble(rank), v, MPI_COMM_WORLD, ierr)
    call expect(ierr == REDUCE_OK .and. v == ranks - 1)
    call reduce_mpi_allreduce(REDUCE_SUM, none, v, MPI_COMM_WORLD, ierr)
    call expect(ierr == REDUCE_OK .and. v == 0)
    call reduce_mpi_quantile([0.5d0], x(2:3, :), middle, MPI_COMM_WORLD, ierr)
    call expect(ierr == REDUCE_OK .and. middle(1) == 6.5d0)
    call unknown(x)
    call reduce_mpi_allreduce(REDUCE_DOT, x, by(:, 1:2), v, MPI_COMM_WORLD, ierr)
    call expect(ierr == REDUCE_E_SHAPE .and. index(reduce_mpi_errmsg(), 'another size') > 0)
  end subroutine

  ! Arrays of which nobody but the programmer knows the size.
  subroutine unknown(x)
    real(c_double), intent(in) :: x(4, *)
    real(c_double) :: middle(1)
    integer(c_int64_t) :: found(1)
    call reduce_mpi_allreduce(REDUCE_SUM, x(:, 1:3), v, MPI_COMM_WORLD, ierr)
    call expect(ierr == REDUCE_OK .and. v == 78*ranks)
    call reduce_mpi_allreduce(REDUCE_SUM, x, v, MPI_COMM_WORLD, ierr)
    call expect(ierr == REDUCE_E_SHAPE .and. index(reduce_mpi_errmsg(), 'unknown size') > 0)
    call reduce_mpi_allreduce(REDUCE_DOT, x, x, v, MPI_COMM_WORLD, ierr)
    call expect(ierr == REDUCE_E_SHAPE .and. index(reduce_mpi_errmsg(), 'unknown size') > 0)
    call reduce_mpi_quantile([0.5d0], x, middle, MPI_COMM_WORLD, ierr)
    call expect(ierr == REDUCE_E_SHAPE .and. index(reduce_mpi_errmsg(), 'unknown size') > 0)
    call reduce_mpi_top(REDUCE_LARGEST, x, middle, found, MPI_COMM_WORLD, ierr, c_null_ptr)
    call expect(ierr == REDUCE_E_SHAPE .and. index(reduce_mpi_errmsg(), 'unknown size') > 0)
  end subroutine

  ! Of a field with halos, without a copy of it.
  subroutine blocks
    integer, parameter :: n = 120, m = 100
    real(c_double), target, save :: x(0:n + 1, 0:m + 1), area(0:n + 1, 0:m + 1), mean, top
    logical(c_bool), target, save :: ocean(0:n + 1, 0:m + 1)
    integer(c_int64_t), target :: whole(2) = [n + 2, m + 2], first(2) = [1, 1], cells(2) = [n, m]
    type(reduce_block), target :: block
    type(reduce_spec), target :: spec(2)
    type(reduce_item) :: item(2)
    integer :: i, j
    do j = 0, m + 1
      do i = 0, n + 1
        ocean(i, j) = mod(i + j, 3) /= 0
        area(i, j) = i + 1
        x(i, j) = merge(dble(j), 1d300, i >= 1 .and. i <= n .and. j >= 1 .and. j <= m .and. ocean(i, j))
      end do
    end do
    block%dims = 2
    block%shape = c_loc(whole)
    block%start = c_loc(first)
    block%count = c_loc(cells)
    spec%dtype = REDUCE_F64
    spec(1)%op = REDUCE_WMEAN
    spec(1)%weights = c_loc(area)
    spec(2)%op = REDUCE_MAX
    spec%mask = c_loc(ocean)
    item(1)%out = c_loc(mean)
    item(2)%out = c_loc(top)
    do i = 1, 2
      item(i)%spec = c_loc(spec(i))
      item(i)%data = c_loc(x)
      item(i)%bytes = 8*size(x)
      item(i)%block = c_loc(block)
      item(i)%room = 8
    end do
    call reduce_mpi_items(item, MPI_COMM_WORLD, ierr)
    call reduce_mpi_allreduce(REDUCE_WMEAN, x(1:n, 1:m), area(1:n, 1:m), v, MPI_COMM_WORLD, ierr, mask=ocean(1:n, 1:m))
    call expect(ierr == REDUCE_OK .and. mean == v .and. top == m .and. mean > 0 .and. mean < m)
    cells(2) = m + 2
    call reduce_mpi_items(item, MPI_COMM_WORLD, ierr)
    call expect(ierr == REDUCE_E_SHAPE .and. index(reduce_mpi_errmsg(), 'rank 0: item 0: dimension 1') > 0)
  end subroutine

  ! Weighted means of fields on the ocean, in one call.
  subroutine fields
    integer, parameter :: n = 8, cells = 1000
    real(c_double), target :: x(cells, n), area(cells), mean(n)
    logical(c_bool), target :: ocean(cells)
    type(reduce_spec), target :: spec
    type(reduce_item) :: item(n)
    integer :: i, f
    do i = 1, cells
      ocean(i) = mod(i, 3) /= 0
      area(i) = merge(i, 1000000, mod(i, 3) /= 0)
      do f = 1, n
        x(i, f) = merge(dble(f), huge(1d0), mod(i, 3) /= 0)
      end do
    end do
    spec%op = REDUCE_WMEAN
    spec%dtype = REDUCE_F64
    spec%mask = c_loc(ocean)
    spec%weights = c_loc(area)
    spec%weights_extent = REDUCE_EACH_ELEMENT
    do f = 1, n
      item(f)%spec = c_loc(spec)
      item(f)%data = c_loc(x(1, f))
      item(f)%bytes = 8*cells
      item(f)%out = c_loc(mean(f))
      item(f)%room = 8
    end do
    call reduce_mpi_items(item, MPI_COMM_WORLD, ierr)
    call expect(ierr == REDUCE_OK .and. all(mean == [(dble(f), f = 1, n)]))
  end subroutine
end program
