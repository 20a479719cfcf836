/* Files that hold arrays, and files whose bytes have to be decoded first.
 *
 *   sniff.c        what the first bytes of a file say it is (pure)
 *   directory.c    the arrays of a file: "dtype, byte order, offset, length, shape"
 *   read_directory.c   the same, filled by the reader of its kind        array_pull.c   the elements of one as a stream
 *   zip.c          central directories (pure)         npz.c     .npz: a zip archive of .npy files
 *   safetensors.c  headers of safetensors (pure)      hdf5.c    HDF5 and netCDF-4, read by the program reducectl-hdf5
 *   pull.c         streams of bytes                   inflate.c, unzstd.c   decoders
 *   csv_fields.c, csv_guess.c, csv.c   tables as text (pure)       csv_column.c   a column of one as a stream */
#ifndef CTL_CONTAINER_H
#define CTL_CONTAINER_H

#include "client/ctl/ctl.h"

/* ---- sniff.c ---- */

enum { CTL_SAFETENSORS_MAX_HEADER = 25 << 20 }; /* bytes: 200,000 tensors; parsed, it takes up to 20 times as much memory */

typedef enum ctl_kind {
    CTL_IS_RAW, /* nothing known */
    CTL_IS_TEXT,
    CTL_IS_NPY,
    CTL_IS_ZIP,
    CTL_IS_SAFETENSORS,
    CTL_IS_HDF5,
    CTL_IS_GZIP,
    CTL_IS_ZSTD,
    CTL_IS_OTHER_TEXT, /* in an encoding that is not read, or elements that look like it */
    CTL_IS_PACKED,     /* has numbers in a form that is not read: its bytes are none */
    CTL_IS_FOREIGN     /* known, but cannot be read */
} ctl_kind;

typedef struct ctl_sniffed {
    ctl_kind kind;
    const char *name;   /* "a Parquet file" */
    const char *advice; /* what the user can do with a foreign file */
} ctl_sniffed;

/* What the first bytes of a file say; CTL_HEAD of them, or the whole file, are enough. */
ctl_sniffed ctl_sniff(const uint8_t *head, size_t len);

/* ---- pull.c: streams of bytes ---- */

struct ctl_pull {
    /* Up to `room` bytes; 0: the end; -1: `err` and `why` say why. */
    long (*read)(ctl_pull *p, void *space, size_t room, char why[CTL_WHY]);
    void (*close)(ctl_pull *p);  /* frees it, and what it reads from */
    int err;                     /* reduce_err */
    bool (*rewind)(ctl_pull *p); /* to where it began; NULL: it cannot */
};

/* Functions that make a stream return NULL on failure: with `why` and *err set, or without if there is no memory. They own
 * `from` in any case. */

/* The bytes of a descriptor, which stays the caller's, from its position on: at most `limit`. */
ctl_pull *ctl_pull_fd(int fd, uint64_t limit);
/* `len` bytes of `head`, then those of `from`. */
ctl_pull *ctl_pull_behind(const uint8_t *head, size_t len, ctl_pull *from);
/* To where it began. False: it cannot. */
bool ctl_pull_rewind(ctl_pull *p);
/* As ctl_pull.read, until `room` bytes are read or the stream ends. */
long ctl_pull_full(ctl_pull *p, void *space, size_t room, char why[CTL_WHY]);
void ctl_pull_close(ctl_pull *p); /* NULL is fine */
/* Set why and err; returns -1. */
long ctl_pull_fail(ctl_pull *p, int err, char why[CTL_WHY], const char *text);

ctl_pull *ctl_gunzip(ctl_pull *from, int *err, char why[CTL_WHY]);
/* A deflated zip member: `bytes` bytes of this CRC come out. */
ctl_pull *ctl_inflate(ctl_pull *from, uint64_t bytes, uint32_t crc, int *err, char why[CTL_WHY]);
/* Have `bytes` bytes at `offset` this CRC? 0, or a reduce_err with `why`. */
int ctl_check_crc(int fd, uint64_t offset, uint64_t bytes, uint32_t want, char why[CTL_WHY]);
ctl_pull *ctl_unzstd(ctl_pull *from, int *err, char why[CTL_WHY]);

/* ---- directory.c, read_directory.c, array_pull.c ---- */

typedef enum ctl_coding { CTL_PLAIN, CTL_DEFLATED, CTL_BY_HDF5 } ctl_coding;

enum { CTL_TYPE_NAME = 32 };

/* An array in a file. */
typedef struct ctl_array {
    char *name;               /* of the member */
    const char *kind;         /* of the file: ".npz" */
    char type[CTL_TYPE_NAME]; /* as the file names it: "F8_E4M3" */
    int dtype;                /* reduce_dtype, or 0: cannot be reduced */
    bool swapped;             /* big-endian */
    bool fortran;             /* the first index runs fastest */
    bool packed, masked;      /* by attributes of netCDF: values are computed, elements may be missing */
    int dims;
    uint64_t shape[CTL_MAX_DIMS];
    uint64_t count; /* elements, the product of shape */
    ctl_coding coding;
    uint64_t offset;           /* plain: of the first element in the file; deflated: of the first byte to decode */
    uint64_t stored, unpacked; /* deflated: bytes before and after, */
    uint64_t skip;             /* those in front of the elements */
    uint32_t crc;
} ctl_array;

typedef struct ctl_directory {
    ctl_array *arrays;
    size_t n;
    const char *kind; /* ".npz" */
} ctl_directory;

/* One more array, zeroed but for a copy of its name; NULL: no memory. */
ctl_array *ctl_directory_add(ctl_directory *d, const char *name, size_t len);
void ctl_directory_free(ctl_directory *d);
/* The array of this name, or the only one if `name` is NULL; NULL: `why` lists what there is. */
const ctl_array *ctl_directory_find(const ctl_directory *d, const char *name, char why[CTL_WHY]);
/* Set dims and shape and compute count. False: more than CTL_MAX_DIMS dimensions, or too many elements. */
bool ctl_array_shape(ctl_array *a, size_t dims, const uint64_t *shape);

/* The arrays of an open regular file of `size` bytes; `stored`: without what attributes of netCDF make of them. 0, or a
 * reduce_err with `why`. */
int ctl_directory_read(ctl_directory *d, ctl_kind kind, int fd, uint64_t size, bool stored, char why[CTL_WHY]);
/* The arrays of a file that may hold several, if no member is named. Otherwise the list is empty, and ctl_open finds out
 * whether the file can be read. 0, or a reduce_err with `why`. (input.c) */
int ctl_arrays(const char *name, const ctl_options *o, ctl_directory *d, char why[CTL_WHY]);
/* The elements of an array that is not CTL_PLAIN, as a stream. */
ctl_pull *ctl_array_pull(int fd, const ctl_array *a, int *err, char why[CTL_WHY]);

/* ---- zip.c ---- */

enum { CTL_ZIP_TAIL = 22 + 65535 + 20 + 56, CTL_ZIP_LOCAL = 30, CTL_ZIP_STORED = 0, CTL_ZIP_DEFLATED = 8 };

typedef struct ctl_zip_end {
    uint64_t offset, bytes, members; /* of the central directory */
} ctl_zip_end;

typedef struct ctl_zip_member {
    const char *name; /* in the directory's bytes */
    size_t name_len;
    unsigned method;
    bool encrypted;
    uint32_t crc;
    uint64_t stored, unpacked, offset; /* bytes, and where its local header begins */
} ctl_zip_member;

/* Find the end record in the last `len` bytes of a file of `size`: all, or CTL_ZIP_TAIL. 0, or a reduce_err with `why`. */
int ctl_zip_find_end(const uint8_t *tail, size_t len, uint64_t size, ctl_zip_end *end, char why[CTL_WHY]);
/* The member whose entry begins at *at, which moves on behind it. False: `why`. */
bool ctl_zip_next(const uint8_t *directory, size_t len, size_t *at, ctl_zip_member *m, char why[CTL_WHY]);
/* Bytes from a local header's begin to the member's data, 0 if it is not such a header. */
size_t ctl_zip_data(const uint8_t local[CTL_ZIP_LOCAL]);

/* ---- the kinds ---- */

int ctl_npz_list(ctl_directory *d, int fd, uint64_t size, char why[CTL_WHY]);
/* `header`: the JSON, without the length in front of it, of a file of `size` bytes. */
int ctl_safetensors_parse(ctl_directory *d, const char *header, size_t len, uint64_t size, char why[CTL_WHY]);
int ctl_safetensors_list(ctl_directory *d, int fd, uint64_t size, char why[CTL_WHY]);
/* `stored`: without what attributes of netCDF make of them. `name`: only the dataset of this path, if there is one; or NULL. */
int ctl_hdf5_list(ctl_directory *d, int fd, uint64_t size, bool stored, char *name, char why[CTL_WHY]);
/* `records`: what reducectl-hdf5 reports about a file of `size` bytes. */
int ctl_hdf5_parse(ctl_directory *d, const uint8_t *records, size_t len, uint64_t size, char why[CTL_WHY]);
ctl_pull *ctl_hdf5_pull(int fd, const ctl_array *a, int *err, char why[CTL_WHY]);
/* A byte for each element of a masked array: 0 if it is missing. */
ctl_pull *ctl_hdf5_mask(int fd, const ctl_array *a, int *err, char why[CTL_WHY]);

/* Read `n` bytes at `offset`; fewer are an error. 0, or a reduce_err with `why`. */
int ctl_read_at(int fd, void *to, size_t n, uint64_t offset, char why[CTL_WHY]);

/* ---- tables as text ---- */

enum { CTL_CSV_RECORD = 1 << 20 }; /* bytes of a record, at most */

/* What becomes of a missing value */
typedef enum {
    CTL_MISSING_NAN,
    CTL_MISSING_OMITTED, /* it is not an element, but it has an index */
    CTL_MISSING_REFUSED
} ctl_missing;

typedef struct ctl_csv_options {
    const ctl_dialect *dialect;
    ctl_missing policy;
} ctl_csv_options;

typedef struct ctl_csv {
    char delimiter, decimal, quote, comment; /* delimiter 0: to be guessed; others 0: none */
    const char *missing;                     /* words with commas between; NULL: the usual ones */
    bool plain;                              /* digits, signs, points and e are numbers as they are */
    ctl_missing policy;
    uint64_t fields, column; /* of each record; from 0 on */
    uint64_t line, record;   /* ended so far */
    uint64_t owed;           /* line feeds to be written, so that a number has the line of its record */
    ctl_holes *holes;
} ctl_csv;

/* Look at the first `len` bytes of a table, the `last` ones or CTL_CSV_RECORD: find out what is not said about it, and the
 * column. *skip: bytes before the first record. 0, or a reduce_err with `why`. `column` NULL: `why` lists the columns. */
int ctl_csv_begin(ctl_csv *c, const ctl_dialect *d, const char *bytes, size_t len, bool last, const char *column, size_t *skip,
                  char why[CTL_WHY]);
/* Take whole records out of `bytes` and write the column's number of each as a line to the `room` bytes at `out`. *used: bytes
 * taken. `last`: nothing follows. Returns how many bytes were written, or -1 with `why`. */
long ctl_csv_feed(ctl_csv *c, const char *bytes, size_t len, bool last, char *out, size_t room, size_t *used,
                  char why[CTL_WHY]);
/* Make a line feed of each CR that none follows. Returns how many bytes are certain. */
size_t ctl_csv_line_ends(char *bytes, size_t len, bool last);

/* A column of the table as text, given by its name or number; `holes` is the caller's. */
ctl_pull *ctl_csv_column(ctl_pull *from, const char *column, const ctl_csv_options *o, ctl_holes *holes, int *err,
                         char why[CTL_WHY]);

#endif
