#include "client/ctl/hdf5/packing.h"

#include <math.h>
#include <string.h>

#include "client/reduce.h"

/* ---- attributes ---- */

/* Its numbers, `most` at most. Returns how many; 0: it is missing, or not of numbers; -1: there are more. */
static int read_numbers(hid_t set, const char *name, long double *out, int most)
{
    union {
        double d[H5R_MISSING_VALUES];
        int64_t i[H5R_MISSING_VALUES];
        uint64_t u[H5R_MISSING_VALUES];
    } all;
    hid_t a = H5Aexists(set, name) > 0 ? H5Aopen(set, name, H5P_DEFAULT) : -1, t = a < 0 ? -1 : H5Aget_type(a),
          space = a < 0 ? -1 : H5Aget_space(a);
    hssize_t n = space < 0 ? 0 : H5Sget_simple_extent_npoints(space);
    H5T_class_t class = t < 0 ? H5T_NO_CLASS : H5Tget_class(t);
    bool is_signed = class == H5T_INTEGER && H5Tget_sign(t) != H5T_SGN_NONE;
    hid_t as = class == H5T_FLOAT ? H5T_NATIVE_DOUBLE : is_signed ? H5T_NATIVE_INT64 : H5T_NATIVE_UINT64;
    bool known = class == H5T_FLOAT || class == H5T_INTEGER;
    int got = !known || n < 1 ? 0 : n > most ? -1 : H5Aread(a, as, &all) < 0 ? 0 : (int)n;
    for (int i = 0; i < got; i++)
        out[i] = class == H5T_FLOAT ? (long double)all.d[i] : is_signed ? (long double)all.i[i] : (long double)all.u[i];
    if (space >= 0)
        H5Sclose(space);
    if (t >= 0)
        H5Tclose(t);
    if (a >= 0)
        H5Aclose(a);
    return got;
}

static bool is_true(hid_t set, const char *name)
{
    char text[16] = "", *long_text = NULL;
    hid_t a = H5Aexists(set, name) > 0 ? H5Aopen(set, name, H5P_DEFAULT) : -1, t = a < 0 ? -1 : H5Aget_type(a);
    bool word = t >= 0 && H5Tget_class(t) == H5T_STRING;
    if (word && H5Tis_variable_str(t) > 0) {
        hid_t memory = H5Tcopy(t);
        if (H5Aread(a, memory, &long_text) >= 0 && long_text) {
            strncpy(text, long_text, sizeof text - 1);
            H5free_memory(long_text);
        }
        H5Tclose(memory);
    } else if (word && H5Tget_size(t) < sizeof text) {
        H5Aread(a, t, text);
    }
    if (t >= 0)
        H5Tclose(t);
    if (a >= 0)
        H5Aclose(a);
    return !strcmp(text, "true") || !strcmp(text, "True");
}

/* ---- numbers of a type ---- */

static bool is_float(int dtype) { return dtype >= REDUCE_F16 && dtype <= REDUCE_F64; }
static bool is_signed(int dtype)
{
    return dtype == REDUCE_I8 || dtype == REDUCE_I16 || dtype == REDUCE_I32 || dtype == REDUCE_I64;
}

static int unsigned_of(int dtype)
{
    switch (dtype) {
    case REDUCE_I8:
        return REDUCE_U8;
    case REDUCE_I16:
        return REDUCE_U16;
    case REDUCE_I32:
        return REDUCE_U32;
    case REDUCE_I64:
        return REDUCE_U64;
    default:
        return dtype;
    }
}

static long double half_value(uint16_t bits)
{
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    long double v = exponent == 31 ? (fraction ? (long double)NAN : (long double)INFINITY)
                    : exponent     ? ldexpl(1024 + fraction, exponent - 25)
                                   : ldexpl(fraction, -24);
    return bits >> 15 ? -v : v;
}

static long double value_of(int dtype, const uint8_t *p)
{
    union {
        uint64_t u;
        int64_t i;
        uint32_t word;
        float f;
        double d;
    } x = {0};
    const size_t size = reduce_dtype_size(dtype);
    memcpy(&x, p, size);
    if (dtype == REDUCE_F64)
        return x.d;
    if (dtype == REDUCE_F16)
        return half_value((uint16_t)x.u);
    if (dtype == REDUCE_BF16)
        x.word <<= 16;
    if (is_float(dtype))
        return x.f;
    if (!is_signed(dtype))
        return (long double)x.u;
    const unsigned shift = (unsigned)(64 - 8 * size);
    x.u <<= shift;
    return (long double)(x.i >> shift);
}

/* Does an element of the type have this value? Attributes whose values none has say nothing, as for netCDF4-python. */
static bool fits(int dtype, long double v)
{
    const unsigned bits = (unsigned)(8 * reduce_dtype_size(dtype));
    if (is_float(dtype))
        return isnan(v) || dtype == REDUCE_F64 || (dtype == REDUCE_F32 ? (long double)(float)v == v : true);
    long double low = is_signed(dtype) ? -ldexpl(1, (int)bits - 1) : 0, high = ldexpl(1, (int)bits - is_signed(dtype));
    return v >= low && v < high && v == truncl(v);
}

/* The value of an attribute of a signed type, which _Unsigned makes another. */
static long double as_stored(const h5r_packing *p, int dtype, long double v)
{
    return p->stored != dtype && v < 0 ? v + ldexpl(1, (int)(8 * reduce_dtype_size(dtype))) : v;
}

/* ---- what they say ---- */

static void add_missing(h5r_packing *p, int dtype, const long double *v, int n)
{
    for (int i = 0; i < n; i++)
        if (!fits(dtype, v[i]))
            return;
    for (int i = 0; i < n && p->n_missing <= H5R_MISSING_VALUES; i++) {
        if (isnan(v[i]))
            p->nan_is_missing = true;
        else
            p->missing[p->n_missing++] = as_stored(p, dtype, v[i]);
    }
}

/* The value of elements that netCDF never wrote, of a variable without _FillValue. netCDF4-python takes it for missing where
 * netCDF does not fill, too, but for elements of a byte. */
static bool default_fill(hid_t set, int dtype, long double *v)
{
    H5D_fill_value_t status = H5D_FILL_VALUE_UNDEFINED;
    hid_t plan = H5Dget_create_plist(set);
    bool filled = plan >= 0 && H5Pfill_value_defined(plan, &status) >= 0 && status == H5D_FILL_VALUE_USER_DEFINED;
    if (plan >= 0)
        H5Pclose(plan);
    const int bits = (int)(8 * reduce_dtype_size(dtype));
    if ((!filled && bits == 8) || dtype == REDUCE_F16 || dtype == REDUCE_BF16)
        return false;
    if (is_float(dtype))
        *v = 9.9692099683868690e+36;
    else if (is_signed(dtype))
        *v = bits == 64 ? -ldexpl(1, 63) + 2 : -ldexpl(1, bits - 1) + 1;
    else
        *v = ldexpl(1, bits) - (bits == 64 ? 2 : 1);
    return true;
}

static void take_limits(h5r_packing *p, hid_t set, int dtype)
{
    long double range[2];
    bool both = read_numbers(set, "valid_range", range, 2) == 2 && fits(dtype, range[0]) && fits(dtype, range[1]);
    p->has_min = both || (read_numbers(set, "valid_min", &range[0], 1) == 1 && fits(dtype, range[0]));
    p->has_max = both || (read_numbers(set, "valid_max", &range[1], 1) == 1 && fits(dtype, range[1]));
    p->min = p->has_min ? as_stored(p, dtype, range[0]) : 0;
    p->max = p->has_max ? as_stored(p, dtype, range[1]) : 0;
}

/* One number. Returns 1; 0: it is missing; -1: it is something else. */
static int read_one(hid_t set, const char *name, long double *out)
{
    return H5Aexists(set, name) > 0 && read_numbers(set, name, out, 1) != 1 ? -1 : read_numbers(set, name, out, 1);
}

/* One alone that changes nothing leaves the type as it is. */
static bool take_scale(h5r_packing *p, hid_t set)
{
    long double scale = 1, offset = 0;
    int a = read_one(set, "scale_factor", &scale), b = read_one(set, "add_offset", &offset);
    p->scale = (double)scale;
    p->offset = (double)offset;
    p->has_scale = a == 1 && (b == 1 || p->scale != 1);
    p->has_offset = b == 1 && (a == 1 || p->offset != 0);
    return a >= 0 && b >= 0;
}

bool h5r_examine(h5r_packing *p, hid_t set, int dtype, bool netcdf)
{
    long double v[H5R_MISSING_VALUES];
    *p = (h5r_packing){.stored = is_true(set, "_Unsigned") ? unsigned_of(dtype) : dtype};
    int n = read_numbers(set, "missing_value", v, H5R_MISSING_VALUES);
    bool good = n >= 0;
    add_missing(p, dtype, v, n);
    n = read_numbers(set, "_FillValue", v, 1);
    good &= n >= 0;
    if (n == 1 && fits(dtype, v[0]))
        add_missing(p, dtype, v, 1);
    else if (netcdf && p->stored == dtype && p->n_missing <= H5R_MISSING_VALUES && default_fill(set, dtype, v))
        p->missing[p->n_missing++] = v[0];
    take_limits(p, set, dtype);
    p->masked = p->n_missing || p->nan_is_missing || p->has_min || p->has_max;
    return take_scale(p, set) && good;
}

bool h5r_is_scaled(const h5r_packing *p) { return p->has_scale || p->has_offset; }

void h5r_unpack(const h5r_packing *p, double *to, const uint8_t *from, size_t n)
{
    const size_t size = reduce_dtype_size(p->stored);
    for (size_t i = 0; i < n; i++) {
        double v = (double)value_of(p->stored, from + i * size);
        if (p->has_scale)
            v *= p->scale;
        if (p->has_offset)
            v += p->offset;
        to[i] = v;
    }
}

void h5r_mask(const h5r_packing *p, uint8_t *to, const uint8_t *from, size_t n)
{
    const size_t size = reduce_dtype_size(p->stored);
    for (size_t i = 0; i < n; i++) {
        long double v = value_of(p->stored, from + i * size);
        bool missing = (p->has_min && v < p->min) || (p->has_max && v > p->max) || (p->nan_is_missing && isnan(v));
        for (int k = 0; k < p->n_missing && !missing; k++)
            missing = v == p->missing[k];
        to[i] = !missing;
    }
}
