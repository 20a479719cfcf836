/* reducectl-hdf5: tells reducectl of the datasets of an HDF5 or netCDF-4 file, and writes their elements. The file is standard
 * input; it is opened again by libhdf5, which wants a name. */
/* The calls of 1.10, which later versions have, too: there H5O_info_t is another type without it. */
#define H5_USE_110_API
#include <hdf5.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/ctl/hdf5/confine.h"
#include "client/ctl/hdf5/datasets.h"
#include "client/ctl/hdf5/packing.h"
#include "client/reduce.h"

#define THE_FILE "/proc/self/fd/0"

enum { BLOCK = 4 << 20 }; /* bytes of elements read at a time, at least a row of chunks */
static const char NO_VARIABLE[] = "This is a netCDF dimension but not a netCDF variable";

/* One line on standard error; reducectl shows it. */
static int fail(const char *what)
{
    fprintf(stderr, "%s\n", what);
    return 1;
}

/* ---- types ---- */

static int integer_type(size_t size, bool is_signed)
{
    switch (size) {
    case 1:
        return is_signed ? REDUCE_I8 : REDUCE_U8;
    case 2:
        return is_signed ? REDUCE_I16 : REDUCE_U16;
    case 4:
        return is_signed ? REDUCE_I32 : REDUCE_U32;
    case 8:
        return is_signed ? REDUCE_I64 : REDUCE_U64;
    default:
        return 0;
    }
}

/* The float type by the position of its fields, which identifies f64, f32, f16 and bf16. */
static int float_type(hid_t t)
{
    static const struct {
        size_t size, exponent, exponent_bits, mantissa_bits, bias;
        int dtype;
    } types[] = {{8, 52, 11, 52, 1023, REDUCE_F64},
                 {4, 23, 8, 23, 127, REDUCE_F32},
                 {2, 10, 5, 10, 15, REDUCE_F16},
                 {2, 7, 8, 7, 127, REDUCE_BF16}};
    size_t sign, exponent, exponent_bits, mantissa, mantissa_bits;
    if (H5Tget_fields(t, &sign, &exponent, &exponent_bits, &mantissa, &mantissa_bits) < 0 || H5Tget_norm(t) != H5T_NORM_IMPLIED)
        return 0;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (H5Tget_size(t) == types[i].size && exponent == types[i].exponent && exponent_bits == types[i].exponent_bits &&
            mantissa == 0 && mantissa_bits == types[i].mantissa_bits && H5Tget_ebias(t) == types[i].bias &&
            sign == 8 * types[i].size - 1)
            return types[i].dtype;
    return 0;
}

/* Is it the enumeration of FALSE and TRUE that h5py writes for bool? */
static bool is_bool(hid_t t)
{
    static const char *const names[] = {"FALSE", "TRUE"};
    bool fine = H5Tget_nmembers(t) == 2;
    for (int8_t i = 0, value; i < 2 && fine; i++)
        fine = H5Tenum_valueof(t, names[i], &value) >= 0 && value == i;
    return fine;
}

/* reduce_dtype, or 0. Of enumerations only those of one byte are elements. */
static int element_type(hid_t t)
{
    H5T_class_t class = H5Tget_class(t);
    size_t size = H5Tget_size(t);
    if (class == H5T_ENUM)
        return size != 1 ? 0 : is_bool(t) ? REDUCE_BOOL : integer_type(size, H5Tget_sign(t) != H5T_SGN_NONE);
    if (class == H5T_FLOAT && H5Tget_precision(t) == 8 * size && H5Tget_offset(t) == 0)
        return float_type(t);
    if (class != H5T_INTEGER || H5Tget_precision(t) != 8 * size || H5Tget_offset(t) != 0)
        return 0;
    return integer_type(size, H5Tget_sign(t) != H5T_SGN_NONE);
}

static const char *class_name(hid_t t)
{
    switch (H5Tget_class(t)) {
    case H5T_STRING:
        return "string";
    case H5T_COMPOUND:
        return "compound";
    case H5T_ENUM:
        return "enum";
    case H5T_VLEN:
        return "vlen";
    case H5T_ARRAY:
        return "array";
    case H5T_REFERENCE:
        return "reference";
    case H5T_FLOAT:
        return "other float";
    case H5T_INTEGER:
        return "other integer";
    default:
        return "other";
    }
}

/* ---- what is there ---- */

/* Where its elements lie in one piece in this file; false: they have to be read. */
static bool is_contiguous(hid_t set, uint64_t *offset)
{
    hid_t plan = H5Dget_create_plist(set);
    bool whole = plan >= 0 && H5Pget_layout(plan) == H5D_CONTIGUOUS && H5Pget_external_count(plan) == 0;
    if (plan >= 0)
        H5Pclose(plan);
    haddr_t at = whole ? H5Dget_offset(set) : HADDR_UNDEF;
    *offset = at == HADDR_UNDEF ? 0 : at;
    return at != HADDR_UNDEF;
}

/* Elements in other files are not read, because a hostile file could name any file. */
static bool is_elsewhere(hid_t set)
{
    hid_t plan = H5Dget_create_plist(set);
    bool elsewhere = plan < 0 || H5Pget_layout(plan) == H5D_VIRTUAL || H5Pget_external_count(plan) != 0;
    if (plan >= 0)
        H5Pclose(plan);
    return elsewhere;
}

static bool is_bare_dimension(hid_t set)
{
    char text[sizeof NO_VARIABLE + 16] = "";
    if (H5Aexists(set, "NAME") <= 0)
        return false;
    hid_t a = H5Aopen(set, "NAME", H5P_DEFAULT), t = a < 0 ? -1 : H5Aget_type(a);
    size_t size = t < 0 ? 0 : H5Tget_size(t);
    if (size && size < 256 && H5Tget_class(t) == H5T_STRING && H5Tis_variable_str(t) == 0) {
        char all[256] = "";
        if (H5Aread(a, t, all) >= 0)
            memcpy(text, all, sizeof NO_VARIABLE - 1);
    }
    if (t >= 0)
        H5Tclose(t);
    if (a >= 0)
        H5Aclose(a);
    return !strcmp(text, NO_VARIABLE);
}

/* How the file is looked at. */
typedef struct view {
    bool stored; /* attributes of netCDF are left alone */
    bool netcdf; /* netCDF wrote the file */
} view;

/* Does a variable have what only netCDF writes? */
static bool is_netcdf(const view *w, hid_t set)
{
    return w->netcdf || H5Aexists(set, "_Netcdf4Dimid") > 0 || H5Aexists(set, "DIMENSION_LIST") > 0;
}

/* What the attributes make of the elements, in the record. */
static void describe_packing(const view *w, hid_t set, h5r_record *r)
{
    h5r_packing p;
    const char *stored = reduce_dtype_name((int)r->dtype);
    snprintf(r->type, sizeof r->type, "%s", stored);
    if (w->stored)
        return;
    if (!h5r_examine(&p, set, (int)r->dtype, is_netcdf(w, set))) {
        r->dtype = 0;
        snprintf(r->type, sizeof r->type, "%s in an unknown packing", stored);
        return;
    }
    r->dtype = (uint32_t)p.stored;
    r->flags |= p.masked ? H5R_MASKED : 0;
    if (h5r_is_scaled(&p)) {
        r->dtype = REDUCE_F64;
        r->flags = (r->flags & H5R_MASKED) | H5R_PACKED;
        snprintf(r->type, sizeof r->type, "%s packed", stored);
    }
}

static bool describe(const view *w, hid_t set, h5r_record *r)
{
    hsize_t shape[H5S_MAX_RANK];
    hid_t type = H5Dget_type(set), space = H5Dget_space(set);
    int dims = space < 0 ? -1 : H5Sget_simple_extent_dims(space, shape, NULL);
    bool ok = type >= 0 && dims >= 0 && dims <= H5R_MAX_DIMS;
    if (ok) {
        r->dtype = is_elsewhere(set) ? 0 : (uint32_t)element_type(type);
        r->dims = (uint32_t)dims;
        for (int i = 0; i < dims; i++)
            r->shape[i] = shape[i];
        if (H5Sget_simple_extent_type(space) == H5S_NULL) {
            r->dims = 1;
            r->shape[0] = 0;
        }
        r->flags = H5Tget_order(type) == H5T_ORDER_BE ? H5R_SWAPPED : 0;
        r->flags |= is_contiguous(set, &r->offset) ? H5R_CONTIGUOUS : 0;
        if (!(r->flags & H5R_CONTIGUOUS)) /* libhdf5 swaps what it reads */
            r->flags = 0;
        if (r->dtype)
            describe_packing(w, set, r);
        else
            snprintf(r->type, sizeof r->type, "%s", is_elsewhere(set) ? "in other files" : class_name(type));
    }
    if (type >= 0)
        H5Tclose(type);
    if (space >= 0)
        H5Sclose(space);
    return ok;
}

/* Its record, and a name that begins with a slash. What cannot be described is in the list without a type: the other datasets
 * can be read. */
static void tell(const view *w, hid_t set, const char *slash, const char *name)
{
    h5r_record r = {0};
    if (set < 0 || !describe(w, set, &r)) {
        r = (h5r_record){0};
        snprintf(r.type, sizeof r.type, "unknown to this libhdf5");
    }
    r.name_len = (uint32_t)(strlen(slash) + strlen(name));
    fwrite(&r, sizeof r, 1, stdout);
    fputs(slash, stdout);
    fputs(name, stdout);
}

/* Called for each object that hard links lead to: links into other files are not followed. */
static herr_t hdf5_each(hid_t root, const char *name, const H5O_info_t *info, void *arg)
{
    if (info->type != H5O_TYPE_DATASET || strlen(name) + 1 > H5R_MAX_NAME)
        return 0;
    h5r_more_time(0);
    hid_t set = H5Dopen2(root, name, H5P_DEFAULT);
    if (set < 0 || !is_bare_dimension(set))
        tell(arg, set, "/", name);
    if (set >= 0)
        H5Dclose(set);
    return 0;
}

static int list(hid_t file, view *w)
{
    if (H5Ovisit2(file, H5_INDEX_NAME, H5_ITER_INC, hdf5_each, w, H5O_INFO_BASIC) < 0)
        return fail("libhdf5 cannot read its groups: the file is malformed");
    return 0;
}

/* The dataset of any path, also by soft links; nothing if there is none. */
static int list_one(hid_t file, view *w, const char *name)
{
    hid_t set = H5Dopen2(file, name, H5P_DEFAULT);
    if (set >= 0 && !is_bare_dimension(set))
        tell(w, set, "", name);
    return 0;
}

/* ---- elements ---- */

/* The type in memory: little-endian, the same width. */
static hid_t native_type(hid_t t)
{
    if (H5Tget_class(t) == H5T_ENUM)
        return H5Tcopy(t);
    hid_t native = H5Tcopy(t);
    if (native >= 0)
        H5Tset_order(native, H5T_ORDER_LE);
    return native;
}

/* Rows of the first dimension read at a time: whole rows of chunks. */
static hsize_t rows_at_a_time(hid_t set, const hsize_t *shape, int dims, size_t element)
{
    hsize_t row = element, chunk[H5S_MAX_RANK], per = 1;
    for (int i = 1; i < dims; i++)
        row *= shape[i];
    hid_t plan = H5Dget_create_plist(set);
    if (plan >= 0 && H5Pget_layout(plan) == H5D_CHUNKED && H5Pget_chunk(plan, dims, chunk) >= 0)
        per = chunk[0];
    if (plan >= 0)
        H5Pclose(plan);
    hsize_t rows = row ? (BLOCK + row - 1) / row : 1;
    return (rows + per - 1) / per * per;
}

/* What goes out of a block of stored elements. */
typedef struct conversion {
    enum { AS_STORED, UNPACKED, MASK } kind;
    h5r_packing packing;
    void *out; /* of a block */
} conversion;

static bool put_elements(const conversion *c, const void *block, size_t bytes, size_t element)
{
    size_t n = bytes / element, size = c->kind == UNPACKED ? sizeof(double) : c->kind == MASK ? 1 : element;
    if (c->kind == UNPACKED)
        h5r_unpack(&c->packing, c->out, block, n);
    else if (c->kind == MASK)
        h5r_mask(&c->packing, c->out, block, n);
    return n == 0 || fwrite(c->kind == AS_STORED ? block : c->out, n * size, 1, stdout) == 1;
}

/* libhdf5 could not read: by its name the filter that it lacks, if that is why. */
static int fail_to_read(hid_t set)
{
    hid_t plan = H5Dget_create_plist(set);
    int n = plan < 0 ? 0 : H5Pget_nfilters(plan);
    for (int i = 0; i < n; i++) {
        unsigned flags, settings[32], config;
        size_t room = sizeof settings / sizeof *settings;
        char name[64] = "", text[192];
        H5Z_filter_t filter = H5Pget_filter2(plan, (unsigned)i, &flags, &room, settings, sizeof name, name, &config);
        if (filter < 0 || H5Zfilter_avail(filter) > 0)
            continue;
        snprintf(text, sizeof text,
                 "the filter %d of its elements%s%s%s is missing: h5repack -f NONE FILE NEW, where it is installed", filter,
                 name[0] ? " (" : "", name, name[0] ? ")" : "");
        return fail(text);
    }
    return fail("libhdf5 cannot read the elements: the file is damaged");
}

static int write_block(hid_t set, hid_t type, hid_t space, hsize_t from, hsize_t rows, hsize_t *shape, int dims, size_t element,
                       void *block, const conversion *c)
{
    hsize_t start[H5S_MAX_RANK] = {from}, count[H5S_MAX_RANK], bytes = element;
    for (int i = 0; i < dims; i++) {
        count[i] = i ? shape[i] : rows;
        bytes *= count[i];
    }
    h5r_more_time(bytes);
    hid_t memory = H5Screate_simple(dims, count, NULL);
    bool ok = memory >= 0 && H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL) >= 0 &&
              H5Dread(set, type, memory, space, H5P_DEFAULT, block) >= 0;
    if (memory >= 0)
        H5Sclose(memory);
    if (!ok)
        return fail_to_read(set);
    return put_elements(c, block, (size_t)bytes, element) ? 0 : 1;
}

static int write_scalar(hid_t set, hid_t type, conversion *c)
{
    uint8_t value[16];
    double out;
    c->out = &out;
    if (H5Dread(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, value) < 0)
        return fail_to_read(set);
    return put_elements(c, value, H5Tget_size(type), H5Tget_size(type)) ? 0 : 1;
}

static int write_all(hid_t set, hid_t type, hid_t space, conversion *c)
{
    hsize_t shape[H5S_MAX_RANK] = {1};
    size_t element = H5Tget_size(type);
    int dims = H5Sget_simple_extent_dims(space, shape, NULL), code = 0;
    if (dims == 0)
        return write_scalar(set, type, c);
    hsize_t rows = rows_at_a_time(set, shape, dims, element), bytes = element;
    if (rows > shape[0])
        rows = shape[0];
    for (int i = 0; i < dims; i++)
        if (__builtin_mul_overflow(bytes, i ? shape[i] : rows, &bytes))
            return fail("a row of chunks is larger than memory");
    void *block = malloc((size_t)bytes + 1);
    c->out = c->kind == AS_STORED ? NULL : malloc((size_t)bytes / element * sizeof(double) + 1);
    if (!block || (c->kind != AS_STORED && !c->out))
        return fail("a row of chunks is larger than memory");
    for (hsize_t at = 0; at < shape[0] && bytes && !code; at += rows)
        code = write_block(set, type, space, at, rows < shape[0] - at ? rows : shape[0] - at, shape, dims, element, block, c);
    free(block);
    free(c->out);
    return code;
}

static int read_set(hid_t file, const view *w, const char *name, conversion *c)
{
    hid_t set = H5Dopen2(file, name, H5P_DEFAULT);
    if (set < 0)
        return fail("libhdf5 cannot open the dataset");
    if (is_elsewhere(set))
        return fail("the elements lie in other files");
    hid_t stored = H5Dget_type(set), type = native_type(stored), space = H5Dget_space(set);
    const int dtype = element_type(stored);
    if (type < 0 || space < 0 || !dtype || !h5r_examine(&c->packing, set, dtype, is_netcdf(w, set)))
        return fail("the elements cannot be reduced");
    return write_all(set, type, space, c);
}

static int obey(hid_t file, const char *command, const char *name)
{
    view w = {.stored = !strcmp(command, "list-stored"), .netcdf = H5Aexists(file, "_NCProperties") > 0};
    conversion c = {.kind = !strcmp(command, "unpack") ? UNPACKED : !strcmp(command, "mask") ? MASK : AS_STORED};
    if (strncmp(command, "list", 4) != 0)
        return read_set(file, &w, name, &c);
    return name ? list_one(file, &w, name) : list(file, &w);
}

/* Is this what reducectl says? */
static bool is_command(int argc, char **argv)
{
    static const char *const commands[] = {"list", "list-stored", "read", "unpack", "mask"};
    bool known = false;
    for (size_t i = 0; i < sizeof commands / sizeof *commands && argc > 1; i++)
        known |= !strcmp(argv[1], commands[i]) && (argc == 3 || (argc == 2 && i < 2));
    return known;
}

int main(int argc, char **argv)
{
    if (!is_command(argc, argv))
        return fail("reducectl-hdf5 is a part of reducectl, which runs it: reducectl OP FILE.h5:/NAME");
    if (!h5r_confine())
        return fail("the process that reads HDF5 cannot be confined");
    setenv("HDF5_USE_FILE_LOCKING", "FALSE", 1); /* read-only mounts refuse locks */
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    H5Lunregister(H5L_TYPE_EXTERNAL);
    hid_t file = H5Fopen(THE_FILE, H5F_ACC_RDONLY, H5P_DEFAULT);
    char path[PATH_MAX];
    if (file < 0 && !realpath(THE_FILE, path))
        return fail("libhdf5 opens files by their names, and a pipe has none: write it to a file");
    if (file < 0)
        return fail("libhdf5 cannot open it: the file is malformed or cut");
    int code = obey(file, argv[1], argc > 2 ? argv[2] : NULL);
    if (fflush(stdout) && !code)
        code = 1;
    _exit(code); /* nothing was written, so nothing needs closing */
}
