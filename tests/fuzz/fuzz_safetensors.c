/* Any bytes as a safetensors file; and as the first bytes of any file. */
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
    uint64_t len;
    ctl_sniffed s = ctl_sniff(data, size < CTL_HEAD ? size : CTL_HEAD);
    if (!s.name || (s.kind == CTL_IS_FOREIGN && !s.advice))
        fail("a kind without a name or advice");
    if (size < 8)
        return 0;
    memcpy(&len, data, sizeof len);
    if (len > size - 8)
        len = size - 8;
    int err = ctl_safetensors_parse(&d, (const char *)data + 8, (size_t)len, size, why);
    if (err && !why[0])
        fail("a refusal without a reason");
    for (size_t i = 0; i < d.n && !err; i++) {
        const ctl_array *a = &d.arrays[i];
        if (a->offset > size || (a->dtype && a->count * reduce_dtype_size(a->dtype) > size - a->offset))
            fail("a tensor outside of the file");
    }
    if (!err)
        ctl_directory_find(&d, "none", why);
    ctl_directory_free(&d);
    return 0;
}
