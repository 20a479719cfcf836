! Exact reductions of all ranks of an MPI communicator, for Fortran: reduce_mpi.h says what they mean. Shipped as source, since
! compilers do not read each other's .mod files.
!
!     mpif90 reduce_mpi.f90 prog.f90 $(pkg-config --libs libreduce)
!
!     use reduce_mpi
!     call reduce_mpi_allreduce(REDUCE_SUM, x, total, MPI_COMM_WORLD, ierr)
!     if (ierr /= REDUCE_OK) print *, reduce_mpi_errmsg()
!
! x is an array of any rank, or a scalar, of real(4), real(8), integer(4) or integer(8); the result real(8) or integer(8). The
! result of min, max, sum and so on is of the kind of x; that of mean, norm2, rms, var, std and sem real, that of counts and places
! (from 0) integer. Another one is the error REDUCE_E_TYPE. reduce_mpi_reduce with root= gives it to that rank only. All ranks return
! the same error. Of a field with halos pass x(2:n-1, 2:m-1, :), which the compiler copies; a block of an item is not copied whole.
! mask= has a logical(c_bool) for each element. Dot, wsum and wmean of real numbers have weights behind x, of its kind or real(8):
!
!     call reduce_mpi_allreduce(REDUCE_WMEAN, temperature, area, mean, MPI_COMM_WORLD, ierr, mask=ocean)
!
! Quantiles by the method linear, 0.5 for the median, are real(8), one for each element of q:
!
!     call reduce_mpi_quantile([0.25d0, 0.5d0, 0.75d0], x, values, MPI_COMM_WORLD, ierr [, nan])
!
! The largest elements (REDUCE_LARGEST) or the smallest (REDUCE_SMALLEST), as many as values and indexes have room for, and where they
! are: values are real(8) or integer(8), indexes count from each rank's index_base on, and are -1 where there is no further element:
!
!     call reduce_mpi_top(REDUCE_LARGEST, x, values, indexes, MPI_COMM_WORLD, ierr, client [, nan] [, index_base] [, mask])
!
! Without waiting: reduce_mpi_iallreduce, or reduce_mpi_items, with request=. x, weights and mask are free at once, the value is there
! after reduce_mpi_wait, or the reduce_mpi_test that says so: give it the attribute asynchronous. reduce_mpi.h says what holds for
! requests; the first one of a program is begun by one thread alone.
!
!     type(reduce_mpi_request) :: request
!     call reduce_mpi_iallreduce(REDUCE_SUM, x, total, MPI_COMM_WORLD, ierr, request=request)
!     call reduce_mpi_test(request, done, ierr)
!     call reduce_mpi_wait(request, ierr)
!
! Several fields together, in one call: reduce_mpi_items. The compiler knows Fortran 2018's x(..), as gfortran 12 does. Programs with `use mpi_f08` take reduce_mpi_f08.f90, too.
module reduce_mpi
  use, intrinsic :: iso_c_binding
  use mpi
  implicit none
  private
  public :: reduce_mpi_allreduce, reduce_mpi_reduce, reduce_mpi_items, reduce_mpi_errmsg, reduce_mpi_join
  public :: reduce_mpi_quantile, reduce_mpi_top, reduce_mpi_iallreduce, reduce_mpi_request, reduce_mpi_test, reduce_mpi_wait
  public :: reduce_spec, reduce_item, reduce_block, reduce_open, reduce_close

  ! generated: constants of reduce.h, by client/fortran/generate

  ! The structs of reduce.h; the default values are those of its _INIT macros.
  type, bind(C) :: reduce_spec
    integer(c_int32_t) :: size = 144, op = REDUCE_SUM, dtype = REDUCE_F32, out = 0, nan = 0, flags = 0, ddof = 0, &
      deadline_ms = 0, path = 0, reserved = 0
    integer(c_int64_t) :: rows = 1, index_base = 0
    type(c_ptr) :: initial = c_null_ptr, mask = c_null_ptr, offsets = c_null_ptr
    integer(c_int64_t) :: planes = 0
    type(c_ptr) :: q = c_null_ptr
    integer(c_int64_t) :: k = 0
    integer(c_int32_t) :: quantiles = 0, method = 0
    type(c_ptr) :: edges = c_null_ptr
    integer(c_int64_t) :: n_edges = 0
    type(c_ptr) :: weights = c_null_ptr
    integer(c_int32_t) :: weights_dtype = 0, weights_extent = 0
  end type

  type, bind(C) :: reduce_item
    integer(c_int32_t) :: size = 72, fd = -1
    type(c_ptr) :: spec = c_null_ptr, data = c_null_ptr, device = c_null_ptr
    integer(c_int64_t) :: offset = 0, bytes = 0
    type(c_ptr) :: out = c_null_ptr
    integer(c_size_t) :: room = 0
    type(c_ptr) :: block = c_null_ptr
  end type

  ! Of each dimension a number at shape, start (from 0), count and stride, of integer(c_int64_t).
  type, bind(C) :: reduce_block
    integer(c_int32_t) :: size = 48, dims = 0
    type(c_ptr) :: shape = c_null_ptr, start = c_null_ptr, count = c_null_ptr, stride = c_null_ptr
    integer(c_int32_t) :: first_nearest = 1, reserved = 0
  end type

  type :: reduce_mpi_request
    private
    type(under_way), pointer :: it => null() ! null: it has ended, or did not begin: with `err` and its text
    integer :: err = REDUCE_OK
    character(len=:), allocatable :: text
  end type

  type :: under_way
    type(c_ptr) :: joint = c_null_ptr ! null: it has ended, with `err` and its text
    integer :: exchange = MPI_REQUEST_NULL, err = REDUCE_OK
    character(len=:), allocatable :: text
    type(line), pointer :: of => null()
    type(under_way), pointer :: next => null() ! the one that began after it
  end type

  ! Those of a communicator that have not ended, as in reduce_mpi.h; an attribute of the communicator.
  type :: line
    integer :: second = MPI_COMM_NULL, op = MPI_OP_NULL
    type(under_way), pointer :: first => null(), last => null()
  end type
  integer, save :: line_key = MPI_KEYVAL_INVALID

  ! call reduce_mpi_allreduce(op, x, value, comm, ierr [, client, nan, ddof, index_base, root, mask, request])
  ! call reduce_mpi_allreduce(op, x, weights, value, comm, ierr [, client, nan, root, mask, request])
  interface reduce_mpi_items
    module procedure items_together
  end interface
  ! generated: interfaces

  interface
    ! client = c_null_ptr; opts = c_null_ptr; url ends in c_null_char
    integer(c_int) function reduce_open(client, url, opts) bind(C)
      import
      type(c_ptr), intent(out) :: client
      character(kind=c_char), intent(in) :: url(*)
      type(c_ptr), value :: opts
    end function
    subroutine reduce_close(client) bind(C)
      import
      type(c_ptr), value :: client
    end subroutine
    integer(c_int) function reduce_run(client, spec, data, bytes, out, room, info) bind(C)
      import
      type(c_ptr), value :: client, data, out, info
      type(reduce_spec), intent(in) :: spec
      integer(c_size_t), value :: bytes, room
    end function
    integer(c_int) function reduce_collective(client, items, n, rank, exchange, arg) bind(C)
      import
      type(c_ptr), value :: client, arg
      integer(c_size_t), value :: n
      type(reduce_item), intent(inout) :: items(*) ! what they lead to is written
      integer(c_int32_t), value :: rank
      type(c_funptr), value :: exchange
    end function
    integer(c_int) function reduce_collective_error(err, rank, exchange, arg) bind(C)
      import
      integer(c_int), value :: err
      integer(c_int32_t), value :: rank
      type(c_funptr), value :: exchange
      type(c_ptr), value :: arg
    end function
    integer(c_int) function reduce_joint_begin(joint, client, items, n, rank) bind(C)
      import
      type(c_ptr), intent(out) :: joint
      type(c_ptr), value :: client
      type(reduce_item), intent(inout) :: items(*)
      integer(c_size_t), value :: n
      integer(c_int32_t), value :: rank
    end function
    type(c_ptr) function reduce_joint_buffer(joint, bytes) bind(C)
      import
      type(c_ptr), value :: joint
      integer(c_size_t), intent(out) :: bytes
    end function
    integer(c_int) function reduce_joint_next(joint, failed) bind(C)
      import
      type(c_ptr), value :: joint
      integer(c_int), value :: failed
    end function
    integer(c_int) function reduce_error(err, field, text) bind(C)
      import
      integer(c_int), value :: err
      character(kind=c_char), intent(in) :: field(*), text(*)
    end function
    subroutine reduce_states_merge(into, from, bytes) bind(C)
      import
      type(c_ptr), value :: into, from
      integer(c_size_t), value :: bytes
    end subroutine
    integer(c_int) function reduce_selection_new(selection, spec) bind(C)
      import
      type(c_ptr), intent(out) :: selection
      type(reduce_spec), intent(in) :: spec
    end function
    subroutine reduce_selection_free(selection) bind(C)
      import
      type(c_ptr), value :: selection
    end subroutine
    integer(c_int) function reduce_selection_count(selection, data, mask, bytes) bind(C)
      import
      type(c_ptr), value :: selection, data, mask
      integer(c_size_t), value :: bytes
    end function
    type(c_ptr) function reduce_selection_counts(selection, n) bind(C)
      import
      type(c_ptr), value :: selection
      integer(c_size_t), intent(out) :: n
    end function
    integer(c_int) function reduce_selection_next(selection) bind(C)
      import
      type(c_ptr), value :: selection
    end function
    integer(c_int) function reduce_selection_finish(selection, values, room) bind(C)
      import
      type(c_ptr), value :: selection, values
      integer(c_size_t), value :: room
    end function
    type(c_ptr) function reduce_errmsg() bind(C)
      import
    end function
    subroutine qsort(items, n, bytes, order) bind(C)
      import
      type(c_ptr), value :: items
      integer(c_size_t), value :: n, bytes
      type(c_funptr), value :: order
    end subroutine
    integer(c_size_t) function strlen(text) bind(C)
      import
      type(c_ptr), value :: text
    end function
  end interface

contains

  ! What went wrong in the last call.
  function reduce_mpi_errmsg() result(text)
    character(len=:), allocatable :: text
    character(kind=c_char), pointer :: letters(:)
    type(c_ptr) :: message
    integer :: i
    message = reduce_errmsg()
    call c_f_pointer(message, letters, [strlen(message)])
    allocate (character(len=size(letters)) :: text)
    do i = 1, size(letters)
      text(i:i) = letters(i)
    end do
  end function

  ! The function of an MPI_Op that merges states (MPI_Op_create(reduce_mpi_join, .true., op, ierr)), for programs that carry states
  ! themselves: one element of the MPI type is one state.
  subroutine reduce_mpi_join(from, into, count, type)
    integer(c_int8_t), intent(in), target :: from(*)
    integer(c_int8_t), intent(inout), target :: into(*)
    integer, intent(in) :: count, type
    integer :: bytes, i, ierr
    call MPI_Type_size(type, bytes, ierr)
    do i = 0, count - 1
      call reduce_states_merge(c_loc(into(i*bytes + 1)), c_loc(from(i*bytes + 1)), int(bytes, c_size_t))
    end do
  end subroutine

  ! A reduce_exchange; `arg` leads to the communicator.
  integer(c_int) function exchange(arg, buffer, bytes) bind(C)
    type(c_ptr), value :: arg, buffer
    integer(c_size_t), value :: bytes
    integer, pointer :: comm
    integer(c_int8_t), pointer :: all(:)
    integer :: op, type, ierr, freed
    call c_f_pointer(arg, comm)
    call c_f_pointer(buffer, all, [bytes])
    ierr = MPI_ERR_COUNT
    if (bytes <= huge(ierr)) ierr = MPI_SUCCESS
    ! An operation of this call's own: none is kept, so threads may use several communicators at once.
    if (ierr == MPI_SUCCESS) call MPI_Op_create(reduce_mpi_join, .true., op, ierr)
    if (ierr == MPI_SUCCESS) then
      call MPI_Type_contiguous(int(bytes), MPI_BYTE, type, ierr)
      if (ierr == MPI_SUCCESS) then
        call MPI_Type_commit(type, ierr)
        if (ierr == MPI_SUCCESS) call MPI_Allreduce(MPI_IN_PLACE, all, 1, type, op, comm, ierr)
        call MPI_Type_free(type, freed)
      end if
      call MPI_Op_free(op, freed)
    end if
    exchange = int(ierr, c_int)
  end function

  ! Several reductions in one exchange: reduce_collective of reduce.h.
  subroutine items_together(items, comm, ierr, client, request)
    type(reduce_item), intent(inout) :: items(:)
    integer, intent(in) :: comm
    integer, intent(out) :: ierr
    type(c_ptr), intent(in), optional :: client
    type(reduce_mpi_request), intent(inout), optional :: request
    type(c_ptr) :: c
    integer, target :: where
    integer :: rank
    c = c_null_ptr
    if (present(client)) c = client
    where = comm
    call MPI_Comm_rank(comm, rank, ierr)
    if (ierr /= MPI_SUCCESS) then
      ierr = reduce_error(REDUCE_E_IO, 'comm'//c_null_char, 'the communicator has no rank'//c_null_char)
    else if (present(request)) then
      call begin(items, comm, int(rank, c_int32_t), c, request, ierr)
    else
      ierr = reduce_collective(c, items, int(size(items), c_size_t), int(rank, c_int32_t), c_funloc(exchange), c_loc(where))
    end if
    if (present(request)) call keep(request, ierr)
  end subroutine

  ! ---- without waiting, as in reduce_mpi.h ----------------------------------------------------------------------------

  subroutine forget_line(comm, key, at, extra, ierr)
    integer :: comm, key, ierr
    integer(MPI_ADDRESS_KIND) :: at, extra
    type(line), pointer :: l
    logical :: over
    call c_f_pointer(transfer(at, c_null_ptr), l)
    call MPI_Finalized(over, ierr)
    if (.not. over) call MPI_Op_free(l%op, ierr)
    if (.not. over) call MPI_Comm_free(l%second, ierr)
    deallocate (l)
    ierr = MPI_SUCCESS
    if (.false.) ierr = comm + key + int(extra) ! they are MPI's
  end subroutine

  ! null: MPI failed.
  function line_of(comm) result(l)
    integer, intent(in) :: comm
    type(line), pointer :: l
    integer(MPI_ADDRESS_KIND) :: at
    logical :: found
    integer :: ierr
    l => null()
    ierr = MPI_SUCCESS
    if (line_key == MPI_KEYVAL_INVALID) &
      call MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, forget_line, line_key, 0_MPI_ADDRESS_KIND, ierr)
    if (ierr == MPI_SUCCESS) call MPI_Comm_get_attr(comm, line_key, at, found, ierr)
    if (ierr /= MPI_SUCCESS) return
    if (found) then
      call c_f_pointer(transfer(at, c_null_ptr), l)
      return
    end if
    allocate (l)
    call MPI_Comm_dup(comm, l%second, ierr)
    if (ierr == MPI_SUCCESS) call MPI_Op_create(reduce_mpi_join, .true., l%op, ierr)
    if (ierr == MPI_SUCCESS) call MPI_Comm_set_attr(comm, line_key, transfer(c_loc(l), at), ierr)
    if (ierr /= MPI_SUCCESS) deallocate (l)
  end function

  subroutine start(buffer, bytes, comm, op, request, ierr)
    type(c_ptr), intent(in) :: buffer
    integer(c_size_t), intent(in) :: bytes
    integer, intent(in) :: comm, op
    integer, intent(out) :: request, ierr
    integer(c_int8_t), pointer, contiguous :: all(:)
    integer :: type, freed
    ierr = MPI_ERR_COUNT
    if (bytes > huge(ierr)) return
    call c_f_pointer(buffer, all, [bytes])
    call MPI_Type_contiguous(int(bytes), MPI_BYTE, type, ierr)
    if (ierr == MPI_SUCCESS) call MPI_Type_commit(type, ierr)
    if (ierr == MPI_SUCCESS) call MPI_Iallreduce(MPI_IN_PLACE, all, 1, type, op, comm, request, ierr)
    call MPI_Type_free(type, freed) ! MPI keeps it while it needs it
  end subroutine

  ! A reduce_exchange that goes with those of requests.
  integer(c_int) function iexchange(arg, buffer, bytes) bind(C)
    type(c_ptr), value :: arg, buffer
    integer(c_size_t), value :: bytes
    integer, pointer :: comm
    type(line), pointer :: l
    integer :: request, ierr
    call c_f_pointer(arg, comm)
    l => line_of(comm)
    call start(buffer, bytes, comm, l%op, request, ierr)
    if (ierr == MPI_SUCCESS) call MPI_Wait(request, MPI_STATUS_IGNORE, ierr)
    iexchange = int(ierr, c_int)
  end function

  subroutine begin(items, comm, rank, client, request, ierr)
    type(reduce_item), intent(inout) :: items(:)
    integer, intent(in) :: comm
    integer(c_int32_t), intent(in) :: rank
    type(c_ptr), intent(in) :: client
    type(reduce_mpi_request), intent(inout) :: request
    integer, intent(out) :: ierr
    type(under_way), pointer :: it
    type(line), pointer :: l
    type(c_ptr) :: buffer
    integer(c_size_t) :: bytes
    integer, target :: where
    request%it => null()
    where = comm
    l => line_of(comm)
    if (.not. associated(l)) then
      ierr = reduce_error(REDUCE_E_IO, 'comm'//c_null_char, 'MPI has no copy of the communicator'//c_null_char)
      return
    end if
    allocate (it)
    it%of => l
    ierr = reduce_joint_begin(it%joint, client, items, int(size(items), c_size_t), rank)
    if (ierr /= REDUCE_OK) then
      ierr = reduce_collective_error(REDUCE_E_NO_MEMORY, rank, c_funloc(iexchange), c_loc(where))
    else
      buffer = reduce_joint_buffer(it%joint, bytes)
      call start(buffer, bytes, comm, l%op, it%exchange, ierr)
      if (ierr /= MPI_SUCCESS) ierr = reduce_joint_next(it%joint, 1_c_int)
    end if
    if (ierr /= REDUCE_OK) then
      deallocate (it)
      return
    end if
    if (associated(l%first)) l%last%next => it
    if (.not. associated(l%first)) l%first => it
    l%last => it
    request%it => it
  end subroutine

  ! An exchange of the first one of a line has ended.
  subroutine advance(l, failed)
    type(line), intent(inout) :: l
    integer, intent(in) :: failed
    type(under_way), pointer :: it
    type(c_ptr) :: buffer
    integer(c_size_t) :: bytes
    integer :: ierr
    it => l%first
    it%err = reduce_joint_next(it%joint, int(failed, c_int))
    if (it%err == 1) then
      buffer = reduce_joint_buffer(it%joint, bytes)
      call start(buffer, bytes, l%second, l%op, it%exchange, ierr)
      if (ierr == MPI_SUCCESS) return
      it%err = reduce_joint_next(it%joint, int(ierr, c_int))
    end if
    it%joint = c_null_ptr
    l%first => it%next
    if (it%err /= REDUCE_OK) it%text = reduce_mpi_errmsg()
  end subroutine

  ! How it began.
  subroutine keep(request, err)
    type(reduce_mpi_request), intent(inout) :: request
    integer, intent(in) :: err
    request%err = err
    if (err /= REDUCE_OK) request%text = reduce_mpi_errmsg()
  end subroutine

  ! It has ended, or did not begin: its error, and that of errmsg.
  subroutine end_request(request, ierr)
    type(reduce_mpi_request), intent(inout) :: request
    integer, intent(out) :: ierr
    if (associated(request%it)) then
      request%err = request%it%err
      call move_alloc(request%it%text, request%text)
      deallocate (request%it)
    end if
    ierr = request%err
    if (ierr /= REDUCE_OK) ierr = reduce_error(ierr, c_null_char, request%text(index(request%text, ': ') + 2:)//c_null_char)
  end subroutine

  ! done: has it ended? Then the value is there, or ierr is its error.
  subroutine reduce_mpi_test(request, done, ierr)
    type(reduce_mpi_request), intent(inout) :: request
    logical, intent(out) :: done
    integer, intent(out) :: ierr
    integer :: failed
    done = .true.
    ierr = REDUCE_OK
    if (associated(request%it)) then
      do while (c_associated(request%it%joint) .and. done)
        call MPI_Test(request%it%of%first%exchange, done, MPI_STATUS_IGNORE, failed)
        if (failed /= MPI_SUCCESS .or. done) call advance(request%it%of, failed)
      end do
      done = .not. c_associated(request%it%joint)
    end if
    if (done) call end_request(request, ierr)
  end subroutine

  ! Until it has ended.
  subroutine reduce_mpi_wait(request, ierr)
    type(reduce_mpi_request), intent(inout) :: request
    integer, intent(out) :: ierr
    integer :: failed
    if (associated(request%it)) then
      do while (c_associated(request%it%joint))
        call MPI_Wait(request%it%of%first%exchange, MPI_STATUS_IGNORE, failed)
        call advance(request%it%of, failed)
      end do
    end if
    call end_request(request, ierr)
  end subroutine

  ! Is the value of this operation a number of elements, or a place?
  logical function is_number(op)
    integer(c_int), intent(in) :: op
    is_number = any(op == [REDUCE_ARGMIN, REDUCE_ARGMAX, REDUCE_COUNT_NONZERO, REDUCE_ANY, REDUCE_ALL, REDUCE_COUNT, &
                           REDUCE_COUNT_NAN])
  end function

  integer(c_int) function other_size(name)
    character(len=*), intent(in) :: name
    other_size = reduce_error(REDUCE_E_SHAPE, name//c_null_char, name//' of another size than the array beside it'//c_null_char)
  end function

  ! Of an array x(*) the compiler knows no size, and gives a negative one.
  integer(c_int) function no_size()
    no_size = reduce_error(REDUCE_E_SHAPE, 'x'//c_null_char, 'an array x(*) of unknown size: pass x(1:n)'//c_null_char)
  end function

  ! n elements of `bytes` bytes, and eight bytes at `value`: of out, f64 or i64.
  subroutine run(op, dtype, data, n, bytes, out, value, comm, ierr, client, nan, ddof, index_base, root, mask, weights, &
                 n_weights, weights_dtype, request)
    integer(c_int), intent(in) :: op, dtype, out
    type(c_ptr), value :: data, value
    integer(c_int64_t), intent(in) :: n
    integer, intent(in) :: bytes, comm
    integer, intent(out) :: ierr
    type(c_ptr), intent(in), optional :: client
    integer, intent(in), optional :: nan, ddof, root
    integer(c_int64_t), intent(in), optional :: index_base
    logical(c_bool), intent(in), target, contiguous, optional :: mask(..)
    type(c_ptr), intent(in), optional :: weights
    integer(c_int64_t), intent(in), optional :: n_weights
    integer(c_int), intent(in), optional :: weights_dtype
    type(reduce_mpi_request), intent(inout), optional :: request
    type(reduce_spec), target :: spec
    type(reduce_item) :: item(1)
    integer, target :: where
    integer :: rank, ranks, fault
    ierr = REDUCE_OK
    spec%op = op
    spec%dtype = dtype
    spec%out = out
    if (out == REDUCE_I64 .and. is_number(op)) spec%out = REDUCE_U64
    if (op == REDUCE_MINMAX .or. op == REDUCE_STATS) spec%out = -1 ! several values: reduce_mpi_items
    if (present(nan)) spec%nan = nan
    if (present(ddof)) spec%ddof = ddof
    if (present(index_base)) spec%index_base = index_base
    if (present(mask)) then
      spec%mask = c_loc(mask)
      if (size(mask, kind=c_int64_t) /= n) ierr = other_size('mask')
    end if
    if (present(weights)) then
      spec%weights = weights
      if (n == 0) spec%weights = c_loc(spec) ! none is read, but they are there
      spec%weights_dtype = weights_dtype
      if (n_weights /= n) ierr = other_size('weights')
    end if
    if (n < 0) ierr = no_size()
    if (present(root)) then
      call MPI_Comm_size(comm, ranks, fault)
      if (root < 0 .or. root >= ranks) &
        ierr = reduce_error(REDUCE_E_ARGUMENT, 'root'//c_null_char, 'the communicator has no such rank'//c_null_char)
    end if
    if (ierr /= REDUCE_OK) then ! all ranks hear of it
      where = comm
      call MPI_Comm_rank(comm, rank, fault)
      if (present(request)) then
        ierr = reduce_collective_error(ierr, rank, c_funloc(iexchange), c_loc(where))
        call keep(request, ierr)
      else
        ierr = reduce_collective_error(ierr, rank, c_funloc(exchange), c_loc(where))
      end if
      return
    end if
    item(1)%spec = c_loc(spec)
    item(1)%data = data
    item(1)%bytes = n*bytes
    item(1)%out = value
    item(1)%room = 8
    if (present(root)) then
      call MPI_Comm_rank(comm, rank, ierr)
      if (rank /= root) item(1)%out = c_null_ptr
    end if
    call reduce_mpi_items(item, comm, ierr, client, request)
  end subroutine

  ! As in reduce_mpi.h: REDUCE_OK at every rank, if none has an error and all ask for the same.
  subroutine agree(asked, q, comm, ierr)
    integer, intent(in) :: asked(:), comm
    real(c_double), intent(in) :: q(:)
    integer, intent(inout) :: ierr
    integer(c_int64_t), parameter :: prime = huge(1)
    integer(c_int64_t) :: mark
    integer(c_int8_t), pointer :: code(:) ! compilers want one kind in all calls of MPI_Allreduce
    integer, target :: where, both(3)
    integer :: rank, fault, i
    mark = size(q)
    do i = 1, size(asked)
      mark = modulo(mark*131 + asked(i), prime)
    end do
    do i = 1, size(q)
      mark = modulo(mark*131 + modulo(transfer(q(i), mark), prime), prime)
    end do
    where = comm
    both = [ierr, int(mark), -int(mark)]
    call c_f_pointer(c_loc(both), code, [12])
    call MPI_Comm_rank(comm, rank, fault)
    call MPI_Allreduce(MPI_IN_PLACE, code, 3, MPI_INTEGER, MPI_MIN, comm, fault)
    if (fault /= MPI_SUCCESS) then
      ierr = reduce_error(REDUCE_E_IO, 'exchange'//c_null_char, 'MPI_Allreduce failed'//c_null_char)
    else if (both(1) /= REDUCE_OK) then
      ierr = reduce_collective_error(ierr, rank, c_funloc(exchange), c_loc(where))
    else if (both(2) /= -both(3)) then
      ierr = reduce_error(REDUCE_E_BAD_MESSAGE, 'spec'//c_null_char, 'the ranks do not ask for the same reduction'//c_null_char)
    end if
  end subroutine

  ! As in reduce_mpi.h: every rank hears of an error before it goes on.
  subroutine run_quantile(q, dtype, data, bytes, values, comm, ierr, nan)
    real(c_double), intent(in), target, contiguous :: q(:)
    integer(c_int), intent(in) :: dtype
    type(c_ptr), value :: data
    integer(c_size_t), intent(in) :: bytes
    real(c_double), intent(inout), target, contiguous :: values(:)
    integer, intent(in) :: comm
    integer, intent(out) :: ierr
    integer, intent(in), optional :: nan
    type(reduce_spec) :: spec
    type(c_ptr) :: selection, words
    integer(c_int8_t), pointer :: counts(:) ! compilers want one kind in all calls of MPI_Allreduce
    integer(c_size_t) :: n
    integer :: again, fault
    selection = c_null_ptr
    again = 1
    spec%op = REDUCE_QUANTILE
    spec%dtype = dtype
    spec%out = REDUCE_F64
    spec%q = c_loc(q)
    spec%quantiles = size(q)
    if (present(nan)) spec%nan = nan
    ierr = reduce_selection_new(selection, spec)
    if (ierr == REDUCE_OK .and. size(values) < size(q)) &
      ierr = reduce_error(REDUCE_E_ARGUMENT, 'room'//c_null_char, 'there are fewer values than quantiles'//c_null_char)
    if (ierr == REDUCE_OK .and. bytes < 0) ierr = no_size()
    do
      if (ierr == REDUCE_OK .and. again == 1) ierr = reduce_selection_count(selection, data, c_null_ptr, bytes)
      call agree([dtype, spec%nan], q, comm, ierr)
      if (ierr /= REDUCE_OK .or. again /= 1) exit
      words = reduce_selection_counts(selection, n)
      call c_f_pointer(words, counts, [8*n])
      call MPI_Allreduce(MPI_IN_PLACE, counts, int(n), MPI_INTEGER8, MPI_SUM, comm, fault)
      if (fault /= MPI_SUCCESS) ierr = REDUCE_E_IO
      again = 0
      if (ierr == REDUCE_OK) again = reduce_selection_next(selection)
      if (again < 0) ierr = again
    end do
    if (ierr == REDUCE_OK) ierr = reduce_selection_finish(selection, c_loc(values), 8_c_size_t*size(values))
    call reduce_selection_free(selection)
  end subroutine

  ! Of two elements, a value and an index: the one with the lower index comes first, those without one (-1) last.
  integer(c_int) function earlier(a, b) bind(C)
    integer(c_int64_t), intent(in) :: a(2), b(2)
    earlier = 0
    if (a(2) /= b(2)) earlier = merge(1, -1, a(2) == -1 .or. (b(2) /= -1 .and. a(2) > b(2)))
  end function

  ! As in reduce_mpi.h: each rank's own best elements, gathered, are the elements of another reduction at every rank.
  subroutine run_top(op, dtype, data, n, bytes, wide, values, k, indexes, comm, ierr, client, nan, index_base, mask)
    integer(c_int), intent(in) :: op, dtype, wide
    type(c_ptr), value :: data, values
    integer(c_int64_t), intent(in) :: n
    integer, intent(in) :: bytes, k, comm
    integer(c_int64_t), intent(inout), target, contiguous :: indexes(:)
    integer, intent(out) :: ierr
    type(c_ptr), intent(in) :: client
    integer, intent(in), optional :: nan
    integer(c_int64_t), intent(in), optional :: index_base
    logical(c_bool), intent(in), target, contiguous, optional :: mask(..)
    type(reduce_spec) :: spec
    integer(c_int64_t), allocatable, target :: cell(:), cells(:), best(:, :)
    integer(c_int64_t), pointer :: found(:)
    integer(c_int8_t), pointer :: mine(:), every(:) ! compilers want one kind in all calls of MPI
    integer, target :: where
    integer :: rank, ranks, fault, some, i
    where = comm
    call MPI_Comm_rank(comm, rank, fault)
    call MPI_Comm_size(comm, ranks, fault)
    allocate (cell(2*max(k, 1)), cells(2*max(k, 1)*ranks), best(2, max(k, 1)*ranks))
    spec%op = op
    spec%dtype = dtype
    spec%k = k
    ierr = REDUCE_OK
    if (size(indexes) /= k) ierr = other_size('indexes')
    if (present(nan)) spec%nan = nan
    if (present(index_base)) spec%index_base = index_base
    if (present(mask)) then
      spec%mask = c_loc(mask)
      if (size(mask, kind=c_int64_t) /= n) ierr = other_size('mask')
    end if
    if (n < 0) ierr = no_size()
    if (ierr == REDUCE_OK) ierr = reduce_run(client, spec, data, n*bytes, c_loc(cell), 16_c_size_t*k, c_null_ptr)
    call agree([op, dtype, spec%nan, k], [real(c_double) ::], comm, ierr)
    if (ierr /= REDUCE_OK) return
    call c_f_pointer(c_loc(cell), mine, [16*k])
    call c_f_pointer(c_loc(cells), every, [16*k*ranks])
    call MPI_Allgather(mine, 16*k, MPI_BYTE, every, 16*k, MPI_BYTE, comm, fault)
    if (fault /= MPI_SUCCESS) then
      ierr = REDUCE_E_IO
      return
    end if
    do i = 0, ranks - 1
      best(1, i*k + 1:i*k + k) = cells(2*i*k + 1:2*i*k + k)
      best(2, i*k + 1:i*k + k) = cells(2*i*k + k + 1:2*i*k + 2*k)
    end do
    call qsort(c_loc(best), int(size(best, 2), c_size_t), 16_c_size_t, c_funloc(earlier))
    some = count(best(2, :) /= -1)
    cells(1:some) = best(1, 1:some)
    spec%dtype = wide
    spec%mask = c_null_ptr
    spec%index_base = 0
    ierr = reduce_run(client, spec, c_loc(cells), 8_c_size_t*some, c_loc(cell), 16_c_size_t*k, c_null_ptr)
    ierr = reduce_collective_error(ierr, rank, c_funloc(exchange), c_loc(where))
    if (ierr /= REDUCE_OK) return
    call c_f_pointer(values, found, [k])
    found = cell(1:k)
    do i = 1, k
      indexes(i) = cell(k + i)
      if (indexes(i) /= -1) indexes(i) = best(2, indexes(i) + 1)
    end do
  end subroutine

  ! ---- one for each kind of x and value -----------------------------------------------------------------------------

  ! generated: kinds
end module
