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
end module
