/* Any bytes as the head of a .npy file: byte 0 is the type that the user claims, the rest the file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/ctl/ctl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fail(const char *what)
{
    fprintf(stderr, "%s\n", what);
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char why[CTL_WHY] = "";
    ctl_npy npy;
    if (size < 1)
        return 0;
    int claimed = data[0] % 14;
    const uint8_t *file = data + 1;
    size_t len = size - 1;
    size_t prefix = len < CTL_NPY_PREFIX ? len : CTL_NPY_PREFIX;
    if (!ctl_npy_is(file, prefix))
        return 0;
    size_t offset = ctl_npy_data_offset(file, prefix, why);
    if (offset == 0 ? !why[0] : offset > CTL_NPY_PREFIX + (size_t)CTL_NPY_MAX_HEADER)
        fail("an impossible data offset");
    if (offset == 0 || offset > len)
        return 0;
    int err = ctl_npy_parse(file, offset, claimed, &npy, why);
    if (err && !why[0])
        fail("a refusal without a reason");
    if (!err && (reduce_dtype_size(npy.dtype) == 0 || npy.dims < 0 || memchr(npy.descr, 0, sizeof npy.descr) == NULL))
        fail("an accepted header that makes no sense");
    return 0;
}
