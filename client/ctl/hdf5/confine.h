/* What the process may do that reads a file of another author: libhdf5 may be made to run code of the file's author. */
#ifndef CTL_HDF5_CONFINE_H
#define CTL_HDF5_CONFINE_H

#include <stdbool.h>
#include <stdint.h>

/* From now on it ends with reducectl, has little memory, leaves no core, and may only read files, compute and write to what is
 * open. False, with errno: it could not be confined. */
bool h5r_confine(void);

/* It may compute this much longer: H5R_CPU_S, and a second for each 16 MiB that it has been asked for. Then SIGXCPU ends it. */
void h5r_more_time(uint64_t bytes);

#endif
