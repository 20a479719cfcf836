/* Files and pipes as a sequence of elements. Files are read, never mapped: one that shrinks is an error, not a SIGBUS. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/ctl/ctl.h"

enum { TEXT_PIECE = 1 << 16 };

static long read_some(int fd, void *space, size_t room, char why[CTL_WHY])
{
    ssize_t n;
    do
        n = ctl_interrupted() ? -1 : read(fd, space, room);
    while (n < 0 && errno == EINTR && !ctl_interrupted());
    if (ctl_interrupted())
        snprintf(why, CTL_WHY, "interrupted");
    else if (n < 0)
        snprintf(why, CTL_WHY, "cannot read: %s", strerror(errno));
    return (long)n;
}

/* Bytes of the file until `want` are there or it ends; -1 on an error. */
static long read_head(int fd, uint8_t *space, size_t want, char why[CTL_WHY])
{
    size_t have = 0;
    while (have < want) {
        long n = read_some(fd, space + have, want - have, why);
        if (n < 0)
            return -1;
        if (n == 0)
            break;
        have += (size_t)n;
    }
    return (long)have;
}

/* ---- what is in it ---- */

/* Size of a regular file with a size, else unknown (pipes; /proc files say 0). */
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

static int open_npy(ctl_input *in, const ctl_source *source, uint64_t file_bytes, char why[CTL_WHY])
{
    ctl_npy npy;
    size_t offset = ctl_npy_data_offset(in->head, in->head_len, why);
    if (offset == 0)
        return REDUCE_E_BAD_MESSAGE;
    uint8_t *header = malloc(offset > CTL_NPY_PREFIX ? offset : CTL_NPY_PREFIX);
    if (!header)
        return no_memory(why);
    memcpy(header, in->head, in->head_len);
    long more = offset > in->head_len ? read_head(in->fd, header + in->head_len, offset - in->head_len, why) : 0;
    int err = more < 0 ? REDUCE_E_IO : ctl_npy_parse(header, in->head_len + (size_t)more, source->dtype, &npy, why);
    free(header);
    if (err)
        return err;
    in->npy = true;
    in->dtype = npy.dtype;
    in->fortran = npy.fortran;
    in->dims = npy.dims;
    memcpy(in->shape, npy.shape, sizeof in->shape);
    in->sized = true;
    in->start += offset;
    in->head_len = 0;
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
    in->defaulted = source->dtype == 0;
    in->dtype = in->defaulted ? source->raw_dtype : source->dtype;
    in->sized = in->regular || in->head_len == 0; /* nothing came */
    in->bytes = file_bytes;
    size_t element = reduce_dtype_size(in->dtype);
    if (in->sized && in->bytes % element) {
        snprintf(why, CTL_WHY, "%" PRIu64 " bytes are not a multiple of the %zu of %s%s", in->bytes, element,
                 reduce_dtype_name(in->dtype), in->defaulted ? " (the default; --dtype names another)" : "");
        return REDUCE_E_SHAPE;
    }
    return 0;
}

int ctl_open(ctl_input *in, const ctl_source *source, char why[CTL_WHY])
{
    bool pipe = !strcmp(source->name, "-");
    *in = (ctl_input){.name = pipe ? "stdin" : source->name, .fd = -1};
    in->fd = pipe ? STDIN_FILENO : open(source->name, O_RDONLY | O_CLOEXEC);
    if (in->fd < 0) {
        snprintf(why, CTL_WHY, "cannot open: %s", strerror(errno));
        return REDUCE_E_IO;
    }
    uint64_t size = 0;
    in->regular = file_size(in->fd, &size);
    in->start = in->regular ? (uint64_t)lseek(in->fd, 0, SEEK_CUR) : 0;
    if (source->text) {
        in->text = true;
        in->dtype = REDUCE_F64;
        in->numbers = malloc((TEXT_PIECE / 2 + 1) * sizeof *in->numbers);
        return in->numbers ? 0 : no_memory(why);
    }
    long n = read_head(in->fd, in->head, sizeof in->head, why);
    if (n < 0)
        return REDUCE_E_IO;
    in->head_len = (size_t)n;
    return ctl_npy_is(in->head, in->head_len) ? open_npy(in, source, size, why) : open_raw(in, source, size, why);
}

void ctl_close(ctl_input *in)
{
    if (in->fd > STDIN_FILENO)
        close(in->fd);
    free(in->numbers);
    in->fd = -1;
    in->numbers = NULL;
}

bool ctl_rewind(ctl_input *in)
{
    if (!in->regular || lseek(in->fd, (off_t)in->start, SEEK_SET) < 0)
        return false;
    in->done = 0;
    in->head_len = in->head_at = 0;
    in->n_numbers = in->numbers_at = 0;
    in->parser = (ctl_text){0};
    in->ended = false;
    return true;
}

/* ---- reading ---- */

static long read_bytes(ctl_input *in, uint8_t *space, size_t room, char why[CTL_WHY])
{
    if (in->head_at < in->head_len) {
        size_t n = in->head_len - in->head_at < room ? in->head_len - in->head_at : room;
        memcpy(space, in->head + in->head_at, n);
        in->head_at += n;
        return (long)n;
    }
    return read_some(in->fd, space, room, why);
}

/* Elements as they lie in the file. */
static long read_binary(ctl_input *in, void *space, size_t room, char why[CTL_WHY])
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
    return n;
}

/* Parse until there are numbers or the end. */
static bool more_numbers(ctl_input *in, char why[CTL_WHY])
{
    char piece[TEXT_PIECE];
    in->numbers_at = in->n_numbers = 0;
    while (in->n_numbers == 0 && !in->ended) {
        long n = read_some(in->fd, piece, sizeof piece, why);
        if (n < 0)
            return false;
        in->ended = n == 0;
        long made = n ? ctl_text_feed(&in->parser, piece, (size_t)n, in->numbers, why)
                      : ctl_text_end(&in->parser, in->numbers, why);
        if (made < 0) {
            in->err = REDUCE_E_TYPE;
            return false;
        }
        in->n_numbers = (size_t)made;
    }
    return true;
}

static long read_text(ctl_input *in, void *space, size_t room, char why[CTL_WHY])
{
    if (in->numbers_at == in->n_numbers && !more_numbers(in, why))
        return -1;
    size_t n = in->n_numbers - in->numbers_at;
    if (n > room / sizeof *in->numbers)
        n = room / sizeof *in->numbers;
    memcpy(space, in->numbers + in->numbers_at, n * sizeof *in->numbers);
    in->numbers_at += n;
    return (long)(n * sizeof *in->numbers);
}

long ctl_read(ctl_input *in, void *space, size_t room, char why[CTL_WHY])
{
    in->err = REDUCE_E_IO;
    long n = in->text ? read_text(in, space, room, why) : read_binary(in, space, room, why);
    if (n > 0)
        in->done += (uint64_t)n;
    return n;
}

long ctl_read_full(ctl_input *in, void *space, size_t room, char why[CTL_WHY])
{
    size_t have = 0;
    while (have < room) {
        if (in->text && room - have < sizeof *in->numbers)
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

bool ctl_shuffled(const ctl_input *in)
{
    int wide = 0; /* dimensions that have an order */
    for (int d = 0; d < in->dims; d++)
        wide += in->shape[d] > 1;
    return in->fortran && wide > 1;
}
