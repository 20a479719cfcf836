/* Any bytes as compressed data. Byte 0: 0 gzip, 1 a deflated zip member, 2 zstd; byte 1: bytes read at a time. */
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

static long nothing_read(ctl_pull *p, void *space, size_t room, char why[CTL_WHY])
{
    (void)p, (void)space, (void)room, (void)why;
    return 0;
}
static void nothing_close(ctl_pull *p) { (void)p; }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char why[CTL_WHY] = "";
    uint8_t out[257];
    int err = 0;
    static ctl_pull nothing = {nothing_read, nothing_close, 0, NULL};
    if (size < 2)
        return 0;
    size_t room = 1 + data[1];
    ctl_pull *from = ctl_pull_behind(data + 2, size - 2, &nothing);
    ctl_pull *p = data[0] % 3 == 0   ? ctl_gunzip(from, &err, why)
                  : data[0] % 3 == 1 ? ctl_inflate(from, 4096, 0, &err, why)
                                     : ctl_unzstd(from, &err, why);
    if (!p)
        return 0;
    for (uint64_t all = 0; all < 1 << 20;) {
        long n = p->read(p, out, room, why);
        if (n > (long)room)
            fail("more than there is room for");
        if (n < 0 && (!why[0] || !p->err))
            fail("a refusal without a reason");
        if (n <= 0)
            break;
        all += (uint64_t)n;
    }
    ctl_pull_close(p);
    return 0;
}
