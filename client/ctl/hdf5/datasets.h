/* What reducectl-hdf5 tells reducectl of a file: a record for each dataset, then its name. One machine, one byte order.
 *
 * libhdf5 may read hostile files, so it runs in a process of its own, which contains any damage. And reducectl starts faster
 * without it. */
#ifndef CTL_HDF5_DATASETS_H
#define CTL_HDF5_DATASETS_H

#include <stdint.h>

/* The file is standard input.
 *   reducectl-hdf5 list [NAME]          what all datasets are, or the one of a path
 *   reducectl-hdf5 list-stored [NAME]   the same without what attributes of netCDF make of them
 *   reducectl-hdf5 read NAME            the stored elements
 *   reducectl-hdf5 unpack NAME          what the attributes make of them
 *   reducectl-hdf5 mask NAME            a byte for each, 0 if it is missing */
#define H5R_PROGRAM "reducectl-hdf5"

enum { H5R_MAX_DIMS = 32, H5R_TYPE_NAME = 32, H5R_MAX_NAME = 4096 };
enum { H5R_CPU_S = 10 }; /* of processor time, until the next dataset or the next elements are there */
enum { H5R_SWAPPED = 1, H5R_CONTIGUOUS = 2, H5R_PACKED = 4, H5R_MASKED = 8 };

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
