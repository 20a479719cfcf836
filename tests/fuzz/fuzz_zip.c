/* Any bytes as a zip archive: its end record, its directory, local headers. */
#include <stdio.h>
#include <stdlib.h>

#include "client/ctl/formats/container.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fail(const char *what)
{
    fprintf(stderr, "%s\n", what);
    abort();
}

static void walk(const uint8_t *data, size_t size, const ctl_zip_end *end)
{
    char why[CTL_WHY] = "";
    ctl_zip_member m;
    size_t at = 0;
    for (uint64_t i = 0; i < end->members; i++) {
        size_t before = at;
        if (!ctl_zip_next(data + end->offset, (size_t)end->bytes, &at, &m, why)) {
            if (!why[0])
                fail("a refusal without a reason");
            return;
        }
        if (at <= before || at > end->bytes)
            fail("a member that ends nowhere");
        if ((const uint8_t *)m.name < data || (const uint8_t *)m.name + m.name_len > data + size)
            fail("a name outside of the file");
        if (m.offset <= size && size - m.offset >= CTL_ZIP_LOCAL)
            ctl_zip_data(data + m.offset);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char why[CTL_WHY] = "";
    ctl_zip_end end;
    size_t tail = size < CTL_ZIP_TAIL ? size : CTL_ZIP_TAIL;
    int err = ctl_zip_find_end(data + size - tail, tail, size, &end, why);
    if (err && !why[0])
        fail("a refusal without a reason");
    if (!err && (end.offset > size || end.bytes > size - end.offset))
        fail("a directory outside of the file");
    if (!err)
        walk(data, size, &end);
    return 0;
}
