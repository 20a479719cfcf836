/* Any bytes as what reducectl-hdf5 tells: a hostile file may have taken it over. Bytes 0 and 1: the size of the file. */
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char why[CTL_WHY] = "";
    ctl_directory d = {0};
    if (size < 2)
        return 0;
    uint64_t file = (uint64_t)data[0] << data[1] % 56;
    int err = ctl_hdf5_parse(&d, data + 2, size - 2, file, why);
    if (err && !why[0])
        fail("a refusal without a reason");
    for (size_t i = 0; i < d.n && !err; i++) {
        const ctl_array *a = &d.arrays[i];
        if (memchr(a->type, 0, sizeof a->type) == NULL || a->dims > CTL_MAX_DIMS)
            fail("an accepted dataset that makes no sense");
        if (a->dtype && a->coding == CTL_PLAIN &&
            (a->offset > file || a->count * reduce_dtype_size(a->dtype) > file - a->offset))
            fail("a dataset outside of the file");
    }
    ctl_directory_free(&d);
    return 0;
}
