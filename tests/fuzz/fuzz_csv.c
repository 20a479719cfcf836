/* Any bytes as a table. Byte 0: the column's number, byte 1: the type, byte 2: how long the pieces are. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/ctl/formats/container.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fail(const char *what)
{
    fprintf(stderr, "%s\n", what);
    abort();
}

enum { MOST = 64 };

/* Feed it in pieces of `step` bytes more at a time; returns the elements' sum of bytes and their number. */
static long feed(ctl_csv c, const char *bytes, size_t len, size_t step, uint64_t *sum)
{
    uint8_t out[8 * MOST];
    char why[CTL_WHY] = "";
    size_t at = 0, have = 0, used;
    long all = 0, made;
    *sum = 0;
    do {
        have = have + step < len ? have + step : len;
        do {
            made = ctl_csv_feed(&c, bytes + at, have - at, have == len, out, MOST, &used, why);
            if (made < 0 && !why[0])
                fail("a refusal without a reason");
            if (made < 0)
                return -1;
            if (used > have - at || made > MOST)
                fail("more than there was");
            at += used;
            all += made;
            for (size_t i = 0; i < (size_t)made * reduce_dtype_size(c.dtype); i++)
                *sum = *sum * 31 + out[i];
        } while (used);
    } while (have < len);
    if (at != len)
        fail("something is left over");
    return all;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char why[CTL_WHY] = "", column[8];
    size_t skip;
    uint64_t one, two;
    if (size < 3)
        return 0;
    ctl_csv c = {.dtype = 1 + data[1] % 12};
    const char *bytes = (const char *)data + 3;
    size_t len = size - 3 < 4096 ? size - 3 : 4096, step = 1 + data[2]; /* pieces of a record are looked at again and again */
    snprintf(column, sizeof column, "%d", data[0] % 8);
    int err = ctl_csv_begin(&c, bytes, len, data[0] & 64 ? NULL : column, &skip, why);
    if (err && !why[0])
        fail("a refusal without a reason");
    if (err)
        return 0;
    if (skip > len)
        fail("a header behind the end");
    long whole = feed(c, bytes + skip, len - skip, len ? len : 1, &one);
    if (feed(c, bytes + skip, len - skip, step, &two) != whole || (whole >= 0 && one != two))
        fail("pieces give other elements than the whole");
    return 0;
}
