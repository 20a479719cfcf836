! The calls of reduce_mpi.f90 for programs with `use mpi_f08`, whose communicators are type(MPI_Comm):
!
!     mpif90 reduce_mpi.f90 reduce_mpi_f08.f90 prog.f90 $(pkg-config --libs libreduce)
!
!     use mpi_f08
!     use reduce_mpi_f08
!     call reduce_mpi_allreduce(REDUCE_SUM, x, total, MPI_COMM_WORLD, ierr)
!
! reduce_mpi_join is for `use mpi`: pass its MPI_Op on as MPI_Op(op).
module reduce_mpi_f08
  use, intrinsic :: iso_c_binding, only: c_ptr, c_int, c_int32_t, c_int64_t, c_bool, c_float, c_double
  use mpi_f08, only: MPI_Comm
  use reduce_mpi
  implicit none
  private :: c_ptr, c_int, c_int32_t, c_int64_t, c_bool, c_float, c_double, MPI_Comm

  interface reduce_mpi_items
    module procedure f08_items
  end interface
  ! generated: interfaces
  interface reduce_mpi_allreduce
    module procedure f08_of_r4, f08_of_r8, f08_of_i4, f08_of_i8, f08_of_r4_to_i8, f08_of_r8_to_i8, f08_of_i4_to_r8, &
      f08_of_i8_to_r8, f08_of_r4_by_r4, f08_of_r4_by_r8, f08_of_r8_by_r8
  end interface
  interface reduce_mpi_reduce
    module procedure f08_of_r4, f08_of_r8, f08_of_i4, f08_of_i8, f08_of_r4_to_i8, f08_of_r8_to_i8, f08_of_i4_to_r8, &
      f08_of_i8_to_r8, f08_of_r4_by_r4, f08_of_r4_by_r8, f08_of_r8_by_r8
  end interface
  interface reduce_mpi_iallreduce
    module procedure f08_of_r4, f08_of_r8, f08_of_i4, f08_of_i8, f08_of_r4_to_i8, f08_of_r8_to_i8, f08_of_i4_to_r8, &
      f08_of_i8_to_r8, f08_of_r4_by_r4, f08_of_r4_by_r8, f08_of_r8_by_r8
  end interface
  interface reduce_mpi_quantile
    module procedure f08_quantile_of_r4, f08_quantile_of_r8, f08_quantile_of_i4, f08_quantile_of_i8
  end interface
  ! end of interfaces

contains

  subroutine f08_items(items, comm, ierr, client, request)
    type(reduce_item), intent(inout) :: items(:)
    type(MPI_Comm), intent(in) :: comm
    integer, intent(out) :: ierr
    type(c_ptr), intent(in), optional :: client
    type(reduce_mpi_request), intent(inout), optional :: request
    call reduce_mpi_items(items, comm%mpi_val, ierr, client, request)
  end subroutine

  ! generated: kinds
  subroutine f08_of_r4(op, x, value, comm, ierr, client, nan, ddof, index_base, root, mask, request)
    integer(c_int), intent(in) :: op
    real(c_float), intent(in), target, contiguous :: x(..)
    real(c_double), intent(inout), target :: value
    type(MPI_Comm), intent(in) :: comm
    integer, intent(out) :: ierr
    type(c_ptr), intent(in), optional :: client
    integer, intent(in), optional :: nan, ddof, root
    integer(c_int64_t), intent(in), optional :: index_base
    logical(c_bool), intent(in), target, contiguous, optional :: mask(..)
    type(reduce_mpi_request), intent(inout), optional :: request
    call reduce_mpi_allreduce(op, x, value, comm%mpi_val, ierr, client=client, nan=nan, ddof=ddof, index_base=index_base, &
      root=root, mask=mask, request=request)
  end subroutine

  subroutine f08_of_r8(op, x, value, comm, ierr, client, nan, ddof, index_base, root, mask, request)
    integer(c_int), intent(in) :: op
    real(c_double), intent(in), target, contiguous :: x(..)
    real(c_double), intent(inout), target :: value
    type(MPI_Comm), intent(in) :: comm
    integer, intent(out) :: ierr
    type(c_ptr), intent(in), optional :: client
    integer, intent(in), optional :: nan, ddof, root
    integer(c_int64_t), intent(in), optional :: index_base
    logical(c_bool), intent(in), target, contiguous, optional :: mask(..)
    type(reduce_mpi_request), intent(inout), optional :: request
    call reduce_mpi_allreduce(op, x, value, comm%mpi_val, ierr, client=client, nan=nan, ddof=ddof, index_base=index_base, &
      root=root, mask=mask, request=request)
  end subroutine

  subroutine f08_of_i4(op, x, value, comm, ierr, client, nan, ddof, index_base, root, mask, request)
    integer(c_int), intent(in) :: op
    integer(c_int32_t), intent(in), target, contiguous :: x(..)
    integer(c_int64_t), intent(inout), target :: value
    type(MPI_Comm), intent(in) :: comm
    integer, intent(out) :: ierr
    type(c_ptr), intent(in), optional :: client
    integer, intent(in), optional :: nan, ddof, root
    integer(c_int64_t), intent(in), optional :: index_base
    logical(c_bool), intent(in), target, contiguous, optional :: mask(..)
    type(reduce_mpi_request), intent(inout), optional :: request
    call reduce_mpi_allreduce(op, x, value, comm%mpi_val, ierr, client=client, nan=nan, ddof=ddof, index_base=index_base, &
      root=root, mask=mask, request=request)
  end subroutine

  subroutine f08_of_i8(op, x, value, comm, ierr, client, nan, ddof, index_base, root, mask, request)
    integer(c_int), intent(in) :: op
    integer(c_int64_t), intent(in), target, contiguous :: x(..)
    integer(c_int64_t), intent(inout), target :: value
    type(MPI_Comm), intent(in) :: comm
    integer, intent(out) :: ierr
    type(c_ptr), intent(in), optional :: client
    integer, intent(in), optional :: nan, ddof, root
    integer(c_int64_t), intent(in), optional :: index_base
    logical(c_bool), intent(in), target, contiguous, optional :: mask(..)
    type(reduce_mpi_request), intent(inout), optional :: request
    call reduce_mpi_allreduce(op, x, value, comm%mpi_val, ierr, client=client, nan=nan, ddof=ddof, index_base=index_base, &
      root=root, mask=mask, request=request)
  end subroutine

  subroutine f08_of_r4_to_i8(op, x, value, comm, ierr, client, nan, ddof, index_base, root, mask, request)
    integer(c_int), intent(in) :: op
    real(c_float), intent(in), target, contiguous :: x(..)
    integer(c_int64_t), intent(inout), target :: value
    type(MPI_Comm), intent(in) :: comm
    integer, intent(out) :: ierr
    type(c_ptr), intent(in), optional :: client
    integer, intent(in), optional :: nan, ddof, root
    integer(c_int64_t), intent(in), optional :: index_base
    logical(c_bool), intent(in), target, contiguous, optional :: mask(..)
    type(reduce_mpi_request), intent(inout), optional :: request
    call reduce_mpi_allreduce(op, x, value, comm%mpi_val, ierr, client=client, nan=nan, ddof=ddof, index_base=index_base, &
      root=root, mask=mask, request=request)
  end subroutine

  subroutine f08_of_r8_to_i8(op, x, value, comm, ierr, client, nan, ddof, index_base, root, mask, request)
    integer(c_int), intent(in) :: op
    real(c_double), intent(in), target, contiguous :: x(..)
    integer(c_int64_t), intent(inout), target :: value
    type(MPI_Comm), intent(in) :: comm
    integer, intent(out) :: ierr
    type(c_ptr), intent(in), optional :: client
    integer, intent(in), optional :: nan, ddof, root
    integer(c_int64_t), intent(in), optional :: index_base
    logical(c_bool), intent(in), target, contiguous, optional :: mask(..)
    type(reduce_mpi_request), intent(inout), optional :: request
    call reduce_mpi_allreduce(op, x, value, comm%mpi_val, ierr, client=client, nan=nan, ddof=ddof, index_base=index_base, &
      root=root, mask=mask, request=request)
  end subroutine

  subroutine f08_of_i4_to_r8(op, x, value, comm, ierr, client, nan, ddof, index_base, root, mask, request)
    integer(c_int), intent(in) :: op
    integer(c_int32_t), intent(in), target, contiguous :: x(..)
    real(c_double), intent(inout), target :: value
    type(MPI_Comm), intent(in) :: comm
    integer, intent(out) :: ierr
    type(c_ptr), intent(in), optional :: client
    integer, intent(in), optional :: nan, ddof, root
    integer(c_int64_t), intent(in), optional :: index_base
    logical(c_bool), intent(in), target, contiguous, optional :: mask(..)
    type(reduce_mpi_request), intent(inout), optional :: request
    call reduce_mpi_allreduce(op, x, value, comm%mpi_val, ierr, client=client, nan=nan, ddof=ddof, index_base=index_base, &
      root=root, mask=mask, request=request)
  end subroutine

  subroutine f08_of_i8_to_r8(op, x, value, comm, ierr, client, nan, ddof, index_base, root, mask, request)
    integer(c_int), intent(in) :: op
    integer(c_int64_t), intent(in), target, contiguous :: x(..)
    real(c_double), intent(inout), target :: value
    type(MPI_Comm), intent(in) :: comm
    integer, intent(out) :: ierr
    type(c_ptr), intent(in), optional :: client
    integer, intent(in), optional :: nan, ddof, root
    integer(c_int64_t), intent(in), optional :: index_base
    logical(c_bool), intent(in), target, contiguous, optional :: mask(..)
    type(reduce_mpi_request), intent(inout), optional :: request
    call reduce_mpi_allreduce(op, x, value, comm%mpi_val, ierr, client=client, nan=nan, ddof=ddof, index_base=index_base, &
      root=root, mask=mask, request=request)
  end subroutine

  subroutine f08_of_r4_by_r4(op, x, weights, value, comm, ierr, client, nan, root, mask, request)
    integer(c_int), intent(in) :: op
    real(c_float), intent(in), target, contiguous :: x(..)
    real(c_float), intent(in), target, contiguous :: weights(..)
    real(c_double), intent(inout), target :: value
    type(MPI_Comm), intent(in) :: comm
    integer, intent(out) :: ierr
    type(c_ptr), intent(in), optional :: client
    integer, intent(in), optional :: nan, root
    logical(c_bool), intent(in), target, contiguous, optional :: mask(..)
    type(reduce_mpi_request), intent(inout), optional :: request
    call reduce_mpi_allreduce(op, x, weights, value, comm%mpi_val, ierr, client=client, nan=nan, root=root, mask=mask, &
      request=request)
  end subroutine

  subroutine f08_of_r4_by_r8(op, x, weights, value, comm, ierr, client, nan, root, mask, request)
    integer(c_int), intent(in) :: op
    real(c_float), intent(in), target, contiguous :: x(..)
    real(c_double), intent(in), target, contiguous :: weights(..)
    real(c_double), intent(inout), target :: value
    type(MPI_Comm), intent(in) :: comm
    integer, intent(out) :: ierr
    type(c_ptr), intent(in), optional :: client
    integer, intent(in), optional :: nan, root
    logical(c_bool), intent(in), target, contiguous, optional :: mask(..)
    type(reduce_mpi_request), intent(inout), optional :: request
    call reduce_mpi_allreduce(op, x, weights, value, comm%mpi_val, ierr, client=client, nan=nan, root=root, mask=mask, &
      request=request)
  end subroutine

  subroutine f08_of_r8_by_r8(op, x, weights, value, comm, ierr, client, nan, root, mask, request)
    integer(c_int), intent(in) :: op
    real(c_double), intent(in), target, contiguous :: x(..)
    real(c_double), intent(in), target, contiguous :: weights(..)
    real(c_double), intent(inout), target :: value
    type(MPI_Comm), intent(in) :: comm
    integer, intent(out) :: ierr
    type(c_ptr), intent(in), optional :: client
    integer, intent(in), optional :: nan, root
    logical(c_bool), intent(in), target, contiguous, optional :: mask(..)
    type(reduce_mpi_request), intent(inout), optional :: request
    call reduce_mpi_allreduce(op, x, weights, value, comm%mpi_val, ierr, client=client, nan=nan, root=root, mask=mask, &
      request=request)
  end subroutine

  subroutine f08_quantile_of_r4(q, x, values, comm, ierr, nan)
    real(c_double), intent(in), target, contiguous :: q(:)
    real(c_float), intent(in), target, contiguous :: x(..)
    real(c_double), intent(inout), target, contiguous :: values(:)
    type(MPI_Comm), intent(in) :: comm
    integer, intent(out) :: ierr
    integer, intent(in), optional :: nan
    call reduce_mpi_quantile(q, x, values, comm%mpi_val, ierr, nan=nan)
  end subroutine

  subroutine f08_quantile_of_r8(q, x, values, comm, ierr, nan)
    real(c_double), intent(in), target, contiguous :: q(:)
    real(c_double), intent(in), target, contiguous :: x(..)
    real(c_double), intent(inout), target, contiguous :: values(:)
    type(MPI_Comm), intent(in) :: comm
    integer, intent(out) :: ierr
    integer, intent(in), optional :: nan
    call reduce_mpi_quantile(q, x, values, comm%mpi_val, ierr, nan=nan)
  end subroutine

  subroutine f08_quantile_of_i4(q, x, values, comm, ierr, nan)
    real(c_double), intent(in), target, contiguous :: q(:)
    integer(c_int32_t), intent(in), target, contiguous :: x(..)
    real(c_double), intent(inout), target, contiguous :: values(:)
    type(MPI_Comm), intent(in) :: comm
    integer, intent(out) :: ierr
    integer, intent(in), optional :: nan
    call reduce_mpi_quantile(q, x, values, comm%mpi_val, ierr, nan=nan)
  end subroutine

  subroutine f08_quantile_of_i8(q, x, values, comm, ierr, nan)
    real(c_double), intent(in), target, contiguous :: q(:)
    integer(c_int64_t), intent(in), target, contiguous :: x(..)
    real(c_double), intent(inout), target, contiguous :: values(:)
    type(MPI_Comm), intent(in) :: comm
    integer, intent(out) :: ierr
    integer, intent(in), optional :: nan
    call reduce_mpi_quantile(q, x, values, comm%mpi_val, ierr, nan=nan)
  end subroutine
  ! end of kinds
end module
