/* Files and pipes as a sequence of elements. Files are read, never mapped: one that shrinks is an error, not a SIGBUS. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/ctl/formats/container.h"

enum { FIRST_ROOM = 1 << 20 }; /* bytes for all that a pipe brings; doubled when it is full */

static long read_some(ctl_input *in, void *space, size_t room, char why[CTL_WHY])
{
    ssize_t n;
    if (in->pull) {
        n = in->pull->read(in->pull, space, room, why);
        in->err = n < 0 ? in->pull->err : in->err;
        return (long)n;
    }
    if (in->ended)
        return 0;
    n = ctl_read_some(in->fd, space, room, &in->err, why);
    in->ended = n == 0 && room && !in->regular; /* a terminal would wait for a second end */
    return (long)n;
}

/* What the descriptor has beyond the bytes that were read ahead. */
static ctl_pull *rest_of(const ctl_input *in) { return ctl_pull_fd(in->fd, in->ended ? 0 : UINT64_MAX); }

/* Bytes of the file until at least `least` of `want` are there, or it ends; -1 on an error. */
static long read_head(ctl_input *in, uint8_t *space, size_t least, size_t want, char why[CTL_WHY])
{
    size_t have = 0;
    while (have < least) {
        long n = read_some(in, space + have, want - have, why);
        if (n < 0)
            return -1;
        if (n == 0)
            break;
        have += (size_t)n;
    }
    return (long)have;
}

/* Reads the bytes that were read ahead, then the rest of the file. */
static long read_bytes(ctl_input *in, void *space, size_t room, char why[CTL_WHY])
{
    if (in->head_at < in->head_len) {
        size_t n = in->head_len - in->head_at < room ? in->head_len - in->head_at : room;
        memcpy(space, in->head + in->head_at, n);
        in->head_at += n;
        return (long)n;
    }
    return read_some(in, space, room, why);
}

/* ---- what is in it ---- */

/* The size of a regular file. Pipes, and /proc files, whose size reads as 0, have an unknown size. */
static bool file_size(int fd, uint64_t *size)
{
    struct stat st;
    if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size <= 0)
        return false;
    off_t at = lseek(fd, 0, SEEK_CUR); /* stdin may be a file that was read from before */
    *size = at < 0 || at > st.st_size ? 0 : (uint64_t)(st.st_size - at);
    return at >= 0;
}

static int no_memory(char why[CTL_WHY])
{
    snprintf(why, CTL_WHY, "no memory to read it");
    return REDUCE_E_NO_MEMORY;
}

static int wrong_type(char why[CTL_WHY], int said, int dtype, const char *as)
{
    snprintf(why, CTL_WHY, "--dtype says %s, the file %s ('%s')", reduce_dtype_name(said), reduce_dtype_name(dtype), as);
    return REDUCE_E_TYPE;
}

static int open_npy(ctl_input *in, const ctl_source *source, uint64_t file_bytes, char why[CTL_WHY])
{
    ctl_npy npy;
    size_t offset = ctl_npy_data_offset(in->head, in->head_len, why);
    if (offset == 0)
        return in->head_len < CTL_NPY_PREFIX ? REDUCE_E_IO : REDUCE_E_BAD_MESSAGE;
    uint8_t *header = malloc(offset > CTL_NPY_PREFIX ? offset : CTL_NPY_PREFIX);
    if (!header)
        return no_memory(why);
    size_t here = offset < in->head_len ? offset : in->head_len; /* of the header: read ahead */
    memcpy(header, in->head, here);
    long more = offset > here ? read_head(in, header + here, offset - here, offset - here, why) : 0;
    int err = more < 0 ? in->err : ctl_npy_parse(header, here + (size_t)more, source->dtype, &npy, why);
    if (err && more >= 0 && here + (size_t)more < offset)
        err = REDUCE_E_IO; /* as of all files that are cut */
    free(header);
    if (err)
        return err;
    in->npy = true;
    in->kind = ".npy";
    in->dtype = npy.dtype;
    in->swapped = npy.swapped;
    in->fortran = npy.fortran;
    in->dims = npy.dims;
    memcpy(in->shape, npy.shape, sizeof in->shape);
    in->sized = true;
    in->start += offset;
    in->head_at = here;
    if (npy.count > CTL_MAX_COUNT) {
        snprintf(why, CTL_WHY, "the .npy header says more than 2^60 elements");
        return REDUCE_E_TOO_LARGE;
    }
    in->bytes = npy.count * reduce_dtype_size(npy.dtype);
    if (in->regular && file_bytes - offset != in->bytes) {
        snprintf(why, CTL_WHY, "the .npy header says %" PRIu64 " bytes of data, but the file holds %" PRIu64, in->bytes,
                 file_bytes - offset);
        return REDUCE_E_IO;
    }
    return 0;
}

static int open_raw(ctl_input *in, const ctl_source *source, uint64_t file_bytes, char why[CTL_WHY])
{
    in->kind = "raw elements";
    in->dtype = source->dtype ? source->dtype : source->raw_dtype;
    in->swapped = source->swapped && reduce_dtype_size(in->dtype) > 1;
    in->sized = in->regular || (in->head_len == 0 && !in->pull); /* nothing came */
    in->bytes = file_bytes;
    size_t element = reduce_dtype_size(in->dtype);
    if (in->sized && in->bytes % element) {
        snprintf(why, CTL_WHY, "%" PRIu64 " bytes are not a multiple of the %zu of %s", in->bytes, element,
                 reduce_dtype_name(in->dtype));
        return REDUCE_E_SHAPE;
    }
    return 0;
}

/* The bytes from the first one on, but for `skip` that were read ahead. */
static ctl_pull *from_begin(ctl_input *in, size_t skip)
{
    ctl_pull *from = in->pull ? in->pull : rest_of(in);
    in->pull = NULL;
    return ctl_pull_behind(in->head + skip, in->head_len - skip, from);
}

/* Numbers as text, from the stream. */
static int read_text(ctl_input *in, const ctl_source *source, ctl_pull *from, char why[CTL_WHY])
{
    in->text = true;
    in->guessed = !in->dtype;
    in->reader = ctl_reader_open(from, source->brief, source->floats || !in->dtype, &in->dtype, &in->err, why);
    if (!in->reader)
        return in->err;
    if (in->dtype || source->wide)
        return 0;
    snprintf(why, CTL_WHY, "integers that fit neither i64 nor u64; --dtype f64 reads them rounded");
    return REDUCE_E_TYPE;
}

static int open_text(ctl_input *in, const ctl_source *source, char why[CTL_WHY])
{
    bool marked = in->head_len >= 3 && !memcmp(in->head, "\xef\xbb\xbf", 3); /* UTF-8's mark */
    in->kind = "text";
    in->dtype = source->dtype;
    return read_text(in, source, from_begin(in, marked ? 3 : 0), why);
}

/* ---- containers ---- */

/* From now on read the bytes from `pull`. If it is NULL: `err` and `why` are set, or there is no memory. */
static int read_through(ctl_input *in, ctl_pull *pull, int err, char why[CTL_WHY])
{
    if (!pull)
        return err ? err : no_memory(why);
    in->pull = pull;
    in->regular = false;
    in->head_len = in->head_at = 0;
    return 0;
}

static int open_stream(ctl_input *in, ctl_kind kind, char why[CTL_WHY])
{
    int err = 0;
    ctl_pull *from = ctl_pull_behind(in->head, in->head_len, rest_of(in));
    from = (kind == CTL_IS_GZIP ? ctl_gunzip : ctl_unzstd)(from, &err, why);
    err = read_through(in, from, err, why);
    in->checked = true;
    long n = err ? 0 : read_head(in, in->head, CTL_NPY_PREFIX, sizeof in->head, why);
    in->head_len = n > 0 ? (size_t)n : 0;
    return n < 0 ? in->err : err;
}

static int take_array(ctl_input *in, const ctl_source *source, const ctl_array *a, char why[CTL_WHY])
{
    bool opaque_bf16 = source->dtype == REDUCE_BF16 && (!strcmp(a->type, "|V2") || !strcmp(a->type, "<V2"));
    int err = 0;
    in->dtype = opaque_bf16 ? REDUCE_BF16 : a->dtype;
    if (!in->dtype) {
        snprintf(why, CTL_WHY, "elements of type '%s' cannot be reduced", a->type);
        return REDUCE_E_TYPE;
    }
    if (source->dtype && source->dtype != in->dtype)
        return wrong_type(why, source->dtype, in->dtype, a->type);
    in->kind = a->kind;
    in->npy = in->sized = true;
    in->swapped = a->swapped;
    in->fortran = a->fortran;
    in->dims = a->dims;
    memcpy(in->shape, a->shape, sizeof in->shape);
    in->bytes = a->count * reduce_dtype_size(in->dtype);
    in->start = a->offset;
    in->head_len = in->head_at = 0;
    in->checked = a->coding != CTL_PLAIN;
    if (source->verify && a->coding == CTL_PLAIN && a->stored) {
        err = ctl_check_crc(in->fd, a->offset - a->skip, a->stored, a->crc, why);
        in->checked = true;
    }
    if (err)
        return err;
    if (a->masked && !(in->keep = ctl_hdf5_mask(in->fd, a, &err, why)))
        return err ? err : no_memory(why);
    if (a->coding == CTL_PLAIN)
        return lseek(in->fd, (off_t)in->start, SEEK_SET) < 0 ? REDUCE_E_IO : 0;
    ctl_pull *pull = ctl_array_pull(in->fd, a, &err, why);
    return read_through(in, pull, err, why);
}

/* A dataset of HDF5 by a path that is not in the list: of a soft link, of a further hard link, with dots. */
static const ctl_array *find_path(ctl_input *in, const ctl_source *source, ctl_directory *d, const char *member, uint64_t size)
{
    char why[CTL_WHY], *path = strdup(member);
    ctl_directory one = {0};
    bool found = path && !ctl_hdf5_list(&one, in->fd, size, source->no_scale, path, why) && one.n == 1;
    free(path);
    if (!found) {
        ctl_directory_free(&one);
        return NULL;
    }
    ctl_directory_free(d);
    *d = one;
    return d->arrays;
}

/* A container's directory may be at its end, and members are where it says: what a pipe brings is kept, but for libhdf5, which
 * opens files by their names. */
static int keep_container(ctl_input *in, const ctl_source *source, ctl_kind kind, uint64_t *size, char why[CTL_WHY])
{
    if (!source->spool || kind == CTL_IS_HDF5) {
        snprintf(why, CTL_WHY, "a pipe of it cannot be read: it has to be a file");
        return REDUCE_E_TYPE;
    }
    int kept = -1;
    uint64_t all = 0;
    ctl_pull *from = ctl_pull_behind(in->head, in->head_len, rest_of(in));
    const int err = ctl_keep_pipe(in->name, from, &all, source->spool, &kept, why);
    if (in->fd > STDIN_FILENO)
        close(in->fd);
    in->fd = kept;
    in->regular = !err && lseek(kept, 0, SEEK_SET) == 0 && file_size(kept, size);
    in->start = 0;
    return err;
}

/* The member that the name says, or the only one. */
static int open_member(ctl_input *in, const ctl_source *source, ctl_kind kind, const char *member, uint64_t size,
                       char why[CTL_WHY])
{
    ctl_directory d;
    int err = in->regular && !in->start ? 0 : keep_container(in, source, kind, &size, why);
    if (err)
        return err;
    err = ctl_directory_read(&d, kind, in->fd, size, source->no_scale, why);
    if (err)
        return err;
    const ctl_array *a = ctl_directory_find(&d, member, why);
    if (!a && member && kind == CTL_IS_HDF5)
        a = find_path(in, source, &d, member, size);
    err = a ? take_array(in, source, a, why) : REDUCE_E_TYPE;
    ctl_directory_free(&d);
    return err;
}

/* A column of a table. */
static int open_column(ctl_input *in, const ctl_source *source, const char *column, char why[CTL_WHY])
{
    static const ctl_dialect unknown;
    int err = 0, said = source->dtype ? source->dtype : source->raw_dtype;
    bool real = ctl_is_float(said) || (!said && source->floats);
    ctl_csv_options o = {.dialect = source->dialect ? source->dialect : &unknown,
                         .policy = real           ? CTL_MISSING_NAN
                                   : source->omit ? CTL_MISSING_OMITTED
                                   : said         ? CTL_MISSING_REFUSED
                                                  : CTL_MISSING_NAN};
    in->kind = "a column of text";
    in->column = true;
    in->dtype = said ? said : source->floats ? REDUCE_F64 : 0;
    in->holes.placed = source->places;
    in->holes.groups = source->groups;
    ctl_pull *from = ctl_csv_column(from_begin(in, 0), column, &o, &in->holes, &err, why);
    if (!from)
        return err ? err : no_memory(why);
    return read_text(in, source, from, why);
}

static int refuse(const ctl_input *in, const ctl_sniffed *s, char why[CTL_WHY])
{
    if (s->kind == CTL_IS_RAW && in->head_len == 0)
        snprintf(why, CTL_WHY, "it is empty: --dtype says of which type no elements are");
    else if (s->kind == CTL_IS_RAW)
        snprintf(why, CTL_WHY, "raw elements need --dtype T (i8 u8 i16 u16 i32 u32 i64 u64 f16 bf16 f32 f64 bool)");
    else if (s->advice)
        snprintf(why, CTL_WHY, "this is %s: %s%s", s->name, s->advice,
                 s->kind == CTL_IS_PACKED ? " (--no-unpack takes its bytes)" : "");
    else
        snprintf(why, CTL_WHY, "%s in a compressed stream: unpack it first", s->name);
    return REDUCE_E_TYPE;
}

static bool is_container(ctl_kind kind) { return kind == CTL_IS_ZIP || kind == CTL_IS_SAFETENSORS || kind == CTL_IS_HDF5; }

static bool is_stream(ctl_kind kind) { return kind == CTL_IS_GZIP || kind == CTL_IS_ZSTD; }

/* Behind a user block of 2^10 bytes or more, HDF5 begins later than what was read ahead. */
static bool is_hdf5_behind(int fd, uint64_t size)
{
    uint8_t head[8];
    for (uint64_t at = CTL_HEAD; at + sizeof head <= size && at < UINT64_C(1) << 62; at *= 2)
        if (pread(fd, head, sizeof head, (off_t)at) == (ssize_t)sizeof head && ctl_sniff(head, sizeof head).kind == CTL_IS_HDF5)
            return true;
    return false;
}

/* What the bytes are. Packed ones are raw elements if the user says so. */
static ctl_sniffed sniff(const ctl_input *in, const ctl_source *source, uint64_t size)
{
    ctl_sniffed s = ctl_sniff(in->head, in->head_len);
    bool packed = is_stream(s.kind) || s.kind == CTL_IS_PACKED || s.kind == CTL_IS_ZIP;
    bool unknown = s.kind == CTL_IS_RAW || s.kind == CTL_IS_TEXT || s.kind == CTL_IS_OTHER_TEXT;
    if (unknown && in->regular && !in->pull && !source->dtype && !source->raw_dtype && !source->text &&
        is_hdf5_behind(in->fd, size))
        return (ctl_sniffed){CTL_IS_HDF5, "HDF5", NULL};
    return source->no_unpack && packed ? (ctl_sniffed){CTL_IS_RAW, "raw elements", NULL} : s;
}

/* Text that is certainly not elements of several bytes: digits, or letters for long enough. */
static bool is_surely_text(const ctl_input *in, const ctl_source *source, const ctl_sniffed *s)
{
    static const char numbers[] = "0123456789+-.eE,; \t\r\n";
    enum { DIGITS = 8, LETTERS = 64 /* bytes: among 10^8 elements less than one is all of these by chance */ };
    int dtype = source->dtype ? source->dtype : source->raw_dtype;
    if (s->kind != CTL_IS_TEXT || reduce_dtype_size(dtype) == 1 || in->head_len < DIGITS)
        return false;
    for (size_t i = 0; i < in->head_len; i++)
        if (!in->head[i] || !strchr(numbers, in->head[i]))
            return in->head_len >= LETTERS;
    return true;
}

/* Without a member: known types of elements make any bytes elements, but for packed ones and text, which would be sums of
 * nonsense. */
static int open_elements(ctl_input *in, const ctl_source *source, const ctl_sniffed *s, uint64_t size, char why[CTL_WHY])
{
    if (s->kind == CTL_IS_NPY)
        return open_npy(in, source, size, why);
    bool readable = !is_container(s->kind) && !is_stream(s->kind) && s->kind != CTL_IS_PACKED;
    if (!source->no_unpack && is_surely_text(in, source, s)) {
        snprintf(why, CTL_WHY, "this is text: --text reads its numbers, FILE:COLUMN a column, --no-unpack takes its bytes");
        return REDUCE_E_TYPE;
    }
    return readable && (source->dtype || source->raw_dtype) ? open_raw(in, source, size, why) : refuse(in, s, why);
}

static bool is_foreign(ctl_kind kind) { return kind == CTL_IS_PACKED || kind == CTL_IS_FOREIGN || kind == CTL_IS_OTHER_TEXT; }

static int open_kind(ctl_input *in, const ctl_source *source, const char *member, uint64_t size, char why[CTL_WHY])
{
    ctl_sniffed s = sniff(in, source, size);
    if (!in->pull && is_stream(s.kind)) {
        int err = open_stream(in, s.kind, why);
        if (err)
            return err;
        s = sniff(in, source, size);
    }
    if ((source->text || member) && is_foreign(s.kind))
        return refuse(in, &s, why);
    if (source->text)
        return open_text(in, source, why);
    if (is_container(s.kind) && !in->pull)
        return open_member(in, source, s.kind, member, size, why);
    if (s.kind == CTL_IS_TEXT && (member || !(source->dtype || source->raw_dtype)))
        return open_column(in, source, member, why);
    if (!member)
        return open_elements(in, source, &s, size, why);
    snprintf(why, CTL_WHY, "%s has no members or columns",
             !in->head_len          ? "an empty file"
             : s.kind == CTL_IS_RAW ? "a file of raw elements"
                                    : s.name);
    return REDUCE_E_TYPE;
}

const char *ctl_member_of(const char *name)
{
    if (!access(name, F_OK)) /* a file whose name has a colon */
        return NULL;
    for (const char *colon = name; (colon = strchr(colon, ':')) != NULL; colon++) {
        char *path = strndup(name, (size_t)(colon - name));
        bool there = path && !access(path, F_OK);
        free(path);
        if (there)
            return colon + 1;
    }
    return NULL;
}

char *ctl_path_of(const char *name, const char *member)
{
    return strndup(name, member ? strlen(name) - strlen(member) - 1 : strlen(name));
}

bool ctl_is_pipe(const char *name, struct stat *st)
{
    char *path = strcmp(name, "-") ? ctl_path_of(name, ctl_member_of(name)) : NULL;
    bool there = path ? !stat(path, st) : !strcmp(name, "-") && !fstat(STDIN_FILENO, st);
    free(path);
    return there && (S_ISFIFO(st->st_mode) || S_ISSOCK(st->st_mode) || S_ISCHR(st->st_mode));
}

/* Opens regular files only: the writer of a FIFO would see a reader come and go. */
int ctl_arrays(const char *name, const ctl_options *o, ctl_directory *d, char why[CTL_WHY])
{
    uint8_t head[CTL_HEAD];
    struct stat st;
    *d = (ctl_directory){0};
    bool file = strcmp(name, "-") && !ctl_member_of(name) && !stat(name, &st) && S_ISREG(st.st_mode);
    int err = 0, fd = file ? open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    if (fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode)) {
        ssize_t n = pread(fd, head, sizeof head, 0);
        ctl_kind kind = n > 0 ? ctl_sniff(head, (size_t)n).kind : CTL_IS_RAW;
        bool unknown = kind == CTL_IS_RAW || kind == CTL_IS_TEXT || kind == CTL_IS_OTHER_TEXT;
        if (unknown && !o->spec.dtype && is_hdf5_behind(fd, (uint64_t)st.st_size))
            kind = CTL_IS_HDF5;
        bool read = is_container(kind) && !(kind == CTL_IS_ZIP && o->no_unpack);
        err = read ? ctl_directory_read(d, kind, fd, (uint64_t)st.st_size, o->no_scale, why) : 0;
    }
    if (fd >= 0)
        close(fd);
    return err;
}

static int open_unknown(ctl_input *in, const ctl_source *source, const char *member, uint64_t size, char why[CTL_WHY])
{
    long n = read_head(in, in->head, CTL_NPY_PREFIX, sizeof in->head, why);
    if (n < 0)
        return in->err;
    in->head_len = (size_t)n;
    return open_kind(in, source, member, size, why);
}

/* Options about tables would be dropped without a word. */
static int check_dialect(const ctl_input *in, const ctl_source *source, char why[CTL_WHY])
{
    if (in->column || !source->dialect || !ctl_has_dialect(source->dialect))
        return 0;
    snprintf(why, CTL_WHY, "it is not a table as text, which --delimiter, --header and the like are about");
    return REDUCE_E_ARGUMENT;
}

int ctl_open(ctl_input *in, const ctl_source *source, char why[CTL_WHY])
{
    const char *member = source->array ? source->array->name : ctl_member_of(source->name);
    char *path = ctl_path_of(source->name, member);
    bool pipe = path && !strcmp(path, "-");
    *in = (ctl_input){.name = pipe ? "stdin" : source->name, .fd = -1};
    if (!path)
        return no_memory(why);
    in->fd = ctl_open_path(path);
    free(path);
    if (in->fd < 0) {
        snprintf(why, CTL_WHY, "cannot open: %s", strerror(errno));
        return REDUCE_E_IO;
    }
    uint64_t size = 0;
    in->regular = file_size(in->fd, &size);
    in->start = in->regular ? (uint64_t)lseek(in->fd, 0, SEEK_CUR) : 0;
    in->err = REDUCE_E_IO;
    int err = source->array ? take_array(in, source, source->array, why) : open_unknown(in, source, member, size, why);
    if (err || !source->verify || in->checked)
        return err ? err : check_dialect(in, source, why);
    snprintf(why, CTL_WHY, "it has no checksum, which --verify is about");
    return REDUCE_E_ARGUMENT;
}

void ctl_close(ctl_input *in)
{
    if (in->fd > STDIN_FILENO)
        close(in->fd);
    ctl_reader_free(in->reader);
    ctl_pull_close(in->pull);
    ctl_pull_close(in->keep);
    in->pull = in->keep = NULL;
    in->fd = -1;
    in->reader = NULL;
}

bool ctl_rewind(ctl_input *in)
{
    if (!in->regular || lseek(in->fd, (off_t)in->start, SEEK_SET) < 0)
        return false;
    in->done = 0;
    in->head_len = in->head_at = 0;
    return !in->reader || ctl_reader_rewind(in->reader);
}

/* ---- reading ---- */

/* The last element came from a pipe or a decoder. It must end here, too: what follows would be lost, and only at its end does a
 * decoder verify the checksum. */
static bool ends_here(ctl_input *in, char why[CTL_WHY])
{
    uint8_t more;
    long n = in->head_at < in->head_len ? 1 : read_some(in, &more, 1, why);
    if (n > 0)
        snprintf(why, CTL_WHY, "the header says %" PRIu64 " bytes of data, but the %s has more", in->bytes,
                 in->pull ? "stream" : "pipe");
    return n == 0;
}

/* Bytes of elements as they lie in the file. */
static long read_stored(ctl_input *in, void *space, size_t room, char why[CTL_WHY])
{
    if (in->sized && in->bytes - in->done < room)
        room = (size_t)(in->bytes - in->done);
    if (room == 0)
        return 0;
    long n = read_bytes(in, space, room, why);
    if (n == 0 && in->sized) {
        snprintf(why, CTL_WHY, "the data end after %" PRIu64 " of %" PRIu64 " bytes%s", in->done, in->bytes,
                 in->regular ? ": the file has shrunk" : "");
        return -1;
    }
    if (n > 0 && !in->regular && in->sized && in->done + (uint64_t)n == in->bytes && !ends_here(in, why))
        return -1;
    return n;
}

#define TURN(bits)                                   \
    for (uint##bits##_t v; p < end; p += sizeof v) { \
        memcpy(&v, p, sizeof v);                     \
        v = __builtin_bswap##bits(v);                \
        memcpy(p, &v, sizeof v);                     \
    }
static void turn(uint8_t *p, const uint8_t *end, size_t size)
{
    if (size == 2)
        TURN(16)
    else if (size == 4)
        TURN(32)
    else
        TURN(64)
}
#undef TURN

/* Whole elements, with their bytes swapped. */
static long read_swapped(ctl_input *in, uint8_t *space, size_t room, char why[CTL_WHY])
{
    size_t size = reduce_dtype_size(in->dtype), have = 0;
    uint64_t done = in->done;
    room -= room % size;
    do {
        long n = read_stored(in, space + have, have ? size - have % size : room, why);
        if (n < 0)
            return n;
        if (n == 0)
            break;
        have += (size_t)n;
        in->done += (uint64_t)n;
    } while (have % size);
    in->done = done; /* the caller counts */
    turn(space, space + have, size);
    return (long)have;
}

static long read_binary(ctl_input *in, void *space, size_t room, char why[CTL_WHY])
{
    return in->swapped ? read_swapped(in, space, room, why) : read_stored(in, space, room, why);
}

static void say_which(const ctl_input *in, char why[CTL_WHY])
{
    char text[CTL_WHY];
    snprintf(text, sizeof text, "%.80s: %.160s", in->name, why);
    snprintf(why, CTL_WHY, "%s", text);
}

long ctl_read(ctl_input *in, void *space, size_t room, char why[CTL_WHY])
{
    in->err = REDUCE_E_IO;
    long n = in->text ? ctl_reader_read(in->reader, space, room, &in->err, why) : read_binary(in, space, room, why);
    if (n > 0)
        in->done += (uint64_t)n;
    if (n < 0 && in->beside)
        say_which(in, why);
    return n;
}

long ctl_read_full(ctl_input *in, void *space, size_t room, char why[CTL_WHY])
{
    size_t have = 0;
    while (have < room) {
        if (in->text && room - have < reduce_dtype_size(in->dtype))
            break;
        long n = ctl_read(in, (uint8_t *)space + have, room - have, why);
        if (n < 0)
            return n;
        if (n == 0)
            break;
        have += (size_t)n;
    }
    return (long)have;
}

int ctl_read_all(ctl_input *in, uint8_t **data, size_t *bytes, char why[CTL_WHY])
{
    size_t room = 0;
    *bytes = 0;
    for (;;) {
        if (*bytes == room) {
            room = room ? 2 * room : FIRST_ROOM;
            uint8_t *more = realloc(*data, room);
            if (!more) {
                snprintf(why, CTL_WHY, "no memory for what the pipe brings");
                return REDUCE_E_NO_MEMORY;
            }
            *data = more;
        }
        long n = ctl_read_full(in, *data + *bytes, room - *bytes, why);
        if (n < 0)
            return in->err;
        if (n == 0)
            return 0;
        *bytes += (size_t)n;
    }
}

bool ctl_in_file(const ctl_input *in)
{
    return in->regular && in->sized && !in->text && !in->swapped && !in->pull && !in->keep;
}

bool ctl_shuffled(const ctl_input *in)
{
    int wide = 0; /* dimensions that have an order */
    for (int d = 0; d < in->dims; d++)
        wide += in->shape[d] > 1;
    return in->fortran && wide > 1;
}
