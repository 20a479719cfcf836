/* What attributes of netCDF say about the elements of a dataset: which are missing, and which values stored numbers stand for.
 * As netCDF4-python has it, but values are f64, whatever the attributes' type. */
#ifndef CTL_HDF5_PACKING_H
#define CTL_HDF5_PACKING_H

#include <hdf5.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { H5R_MISSING_VALUES = 64 /* different values that stand for missing ones, at most */ };

typedef struct h5r_packing {
    int stored;  /* reduce_dtype, unsigned if _Unsigned says so */
    bool masked; /* elements may be missing */
    bool has_scale, has_offset;
    double scale, offset;
    long double missing[H5R_MISSING_VALUES + 1]; /* which have the values of all types */
    int n_missing;
    bool nan_is_missing, has_min, has_max;
    long double min, max;
} h5r_packing;

/* Examine a dataset with elements of type `dtype`, of a file that netCDF wrote or not. False: packed in a way that cannot be
 * read. */
bool h5r_examine(h5r_packing *p, hid_t set, int dtype, bool netcdf);
/* Is a value computed from each element? */
bool h5r_is_scaled(const h5r_packing *p);
/* Values as f64 of n stored elements, little-endian. */
void h5r_unpack(const h5r_packing *p, double *to, const uint8_t *from, size_t n);
/* 1 for each element that is not missing, else 0. */
void h5r_mask(const h5r_packing *p, uint8_t *to, const uint8_t *from, size_t n);

#endif
