/* What reducectl-hdf5 tells reducectl of a file: a record for each dataset, then its name. One machine, one byte order.
 *
 * libhdf5 may read hostile files, so it runs in a process of its own, which contains any damage. And reducectl starts faster
 * without it. */
#ifndef CTL_HDF5_DATASETS_H
#define CTL_HDF5_DATASETS_H

#include <stdint.h>

#define H5R_PROGRAM "reducectl-hdf5" /* reducectl-hdf5 list; reducectl-hdf5 read NAME: the file is standard input */

enum { H5R_MAX_DIMS = 32, H5R_TYPE_NAME = 32, H5R_MAX_NAME = 4096 };
enum { H5R_CPU_S = 10 }; /* of processor time, until the next dataset or the next elements are there */
enum { H5R_SWAPPED = 1, H5R_CONTIGUOUS = 2 };

typedef struct h5r_record {
    uint32_t name_len; /* of the bytes behind this record */
    uint32_t dtype;    /* reduce_dtype, or 0 */
    uint32_t flags;
    uint32_t dims;
    uint64_t shape[H5R_MAX_DIMS];
    uint64_t offset; /* in the file, if contiguous */
    char type[H5R_TYPE_NAME];
} h5r_record;

#endif
