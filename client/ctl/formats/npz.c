/* .npz: a zip archive of .npy files, stored (numpy.savez) or deflated (numpy.savez_compressed). */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/ctl/formats/container.h"

enum { MAX_DIRECTORY = 64 << 20 }; /* bytes: half a million members */

/* A member's .npy header: from the file, or out of the decoder. */
typedef struct opened {
    int fd;
    ctl_array *a;
    ctl_pull *pull;
    uint64_t bytes; /* of the member, header and elements */
} opened;

static int read_header(opened *m, uint8_t *to, size_t n, size_t done, char why[CTL_WHY])
{
    if (n > m->bytes - done) {
        snprintf(why, CTL_WHY, "its .npy header is cut");
        return REDUCE_E_BAD_MESSAGE;
    }
    if (!m->pull)
        return ctl_read_at(m->fd, to, n, m->a->offset + done, why);
    long got = ctl_pull_full(m->pull, to, n, why);
    if (got >= 0 && (size_t)got < n)
        return ctl_pull_fail(m->pull, REDUCE_E_IO, why, "the zip member ends too early"), REDUCE_E_IO;
    return got < 0 ? m->pull->err : 0;
}

/* What the header says, into the array. Types that cannot be reduced stay in the list. */
static int describe(opened *m, const uint8_t *header, size_t len, char why[CTL_WHY])
{
    ctl_array *a = m->a;
    ctl_npy npy;
    int err = ctl_npy_parse(header, len, 0, &npy, why);
    if (err && err != REDUCE_E_TYPE)
        return err;
    snprintf(a->type, sizeof a->type, "%s", npy.descr[0] ? npy.descr : "structured");
    if (err)
        return 0;
    a->dtype = npy.dtype;
    a->swapped = npy.swapped;
    a->fortran = npy.fortran;
    if (!ctl_array_shape(a, (size_t)npy.dims, npy.shape) || a->count * reduce_dtype_size(a->dtype) != m->bytes - len) {
        snprintf(why, CTL_WHY, "its .npy header does not describe the %" PRIu64 " bytes that follow", m->bytes - len);
        return REDUCE_E_IO;
    }
    return 0;
}

static int read_npy(opened *m, char why[CTL_WHY])
{
    uint8_t prefix[CTL_NPY_PREFIX];
    int err = read_header(m, prefix, sizeof prefix, 0, why);
    if (err)
        return err;
    size_t len = ctl_npy_is(prefix, sizeof prefix) ? ctl_npy_data_offset(prefix, sizeof prefix, why) : 0;
    if (len < sizeof prefix) {
        snprintf(why, CTL_WHY, "it is not a .npy file");
        return REDUCE_E_BAD_MESSAGE;
    }
    uint8_t *header = malloc(len);
    if (!header) {
        snprintf(why, CTL_WHY, "no memory for a header");
        return REDUCE_E_NO_MEMORY;
    }
    memcpy(header, prefix, sizeof prefix);
    err = read_header(m, header + sizeof prefix, len - sizeof prefix, sizeof prefix, why);
    if (!err)
        err = describe(m, header, len, why);
    free(header);
    if (m->a->coding == CTL_PLAIN)
        m->a->offset += len;
    m->a->skip = len;
    return err;
}

/* Where its bytes begin, and how they are stored. */
static int locate(const ctl_zip_member *z, ctl_array *a, int fd, uint64_t size, char why[CTL_WHY])
{
    uint8_t local[CTL_ZIP_LOCAL];
    int err = ctl_read_at(fd, local, sizeof local, z->offset, why);
    if (err)
        return err;
    size_t skip = ctl_zip_data(local);
    if (skip == 0 || z->offset + skip > size || z->stored > size - z->offset - skip || z->encrypted ||
        (z->method != CTL_ZIP_STORED && z->method != CTL_ZIP_DEFLATED) ||
        (z->method == CTL_ZIP_STORED && z->stored != z->unpacked)) {
        snprintf(why, CTL_WHY, "%s",
                 z->encrypted ? "it is encrypted" : "the zip archive is malformed, or packed in another way");
        return z->encrypted ? REDUCE_E_TYPE : REDUCE_E_BAD_MESSAGE;
    }
    a->coding = z->method == CTL_ZIP_STORED ? CTL_PLAIN : CTL_DEFLATED;
    a->offset = z->offset + skip;
    a->stored = z->stored;
    a->unpacked = z->unpacked;
    a->crc = z->crc;
    return 0;
}

static int add_member(ctl_directory *d, const ctl_zip_member *z, int fd, uint64_t size, char why[CTL_WHY])
{
    if (z->name_len <= 4 || memcmp(z->name + z->name_len - 4, ".npy", 4))
        return 0;
    ctl_array *a = ctl_directory_add(d, z->name, z->name_len - 4);
    char reason[CTL_WHY] = "no memory for the list";
    int err = a ? locate(z, a, fd, size, reason) : REDUCE_E_NO_MEMORY;
    opened m = {.fd = fd, .a = a, .bytes = z->unpacked};
    if (!err && a->coding == CTL_DEFLATED && !(m.pull = ctl_array_pull(fd, a, &err, reason)))
        err = err ? err : REDUCE_E_NO_MEMORY;
    if (!err)
        err = read_npy(&m, reason);
    ctl_pull_close(m.pull);
    if (err)
        snprintf(why, CTL_WHY, "member '%.60s': %.180s", a ? a->name : "", reason);
    return err;
}

int ctl_npz_list(ctl_directory *d, int fd, uint64_t size, char why[CTL_WHY])
{
    size_t tail = size < CTL_ZIP_TAIL ? (size_t)size : CTL_ZIP_TAIL;
    uint8_t *bytes = malloc(tail);
    ctl_zip_end end;
    d->kind = ".npz";
    int err = bytes ? ctl_read_at(fd, bytes, tail, size - tail, why) : REDUCE_E_NO_MEMORY;
    if (!err)
        err = ctl_zip_find_end(bytes, tail, size, &end, why);
    free(bytes);
    if (err)
        return err;
    if (end.bytes > MAX_DIRECTORY) {
        snprintf(why, CTL_WHY, "a zip directory of %" PRIu64 " bytes, the limit is %d", end.bytes, MAX_DIRECTORY);
        return REDUCE_E_TOO_LARGE;
    }
    bytes = malloc((size_t)end.bytes + 1);
    err = bytes ? ctl_read_at(fd, bytes, (size_t)end.bytes, end.offset, why) : REDUCE_E_NO_MEMORY;
    size_t at = 0;
    for (uint64_t i = 0; i < end.members && !err; i++) {
        ctl_zip_member m;
        err = ctl_zip_next(bytes, (size_t)end.bytes, &at, &m, why) ? add_member(d, &m, fd, size, why) : REDUCE_E_BAD_MESSAGE;
    }
    free(bytes);
    if (!err && d->n == 0) {
        snprintf(why, CTL_WHY, "a zip archive without .npy members is not an array (of PyTorch? write it with safetensors)");
        return REDUCE_E_TYPE;
    }
    return err;
}
