/* Any bytes as numbers in text, in one piece and in small pieces (byte 0 says how small): the same numbers, or the same
 * refusal. */
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

/* Numbers at `out`; -1 with `why`. Each call gets a block of its own, so that a sanitizer sees its end. */
static long parse(const uint8_t *bytes, size_t n, size_t piece, double *out, char *why)
{
    ctl_text t;
    long made = 0, more;
    memset(&t, 0, sizeof t);
    for (size_t at = 0; at < n; at += piece) {
        size_t part = n - at < piece ? n - at : piece;
        char *copy = malloc(part);
        double *room = malloc((part / 2 + 1) * sizeof *room);
        if (!copy || !room)
            abort();
        memcpy(copy, bytes + at, part);
        more = ctl_text_feed(&t, copy, part, room, why);
        if (more > 0)
            memcpy(out + made, room, (size_t)more * sizeof *room);
        free(copy);
        free(room);
        if (more < 0)
            return -1;
        made += more;
    }
    more = ctl_text_end(&t, out + made, why);
    return more < 0 ? -1 : made + more;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char one[CTL_WHY] = "", two[CTL_WHY] = "";
    if (size < 1 || size > 65536)
        return 0;
    double *a = malloc((size / 2 + 2) * sizeof *a), *b = malloc((size / 2 + 2) * sizeof *b);
    if (!a || !b)
        abort();
    long n = parse(data + 1, size - 1, size, a, one), m = parse(data + 1, size - 1, data[0] % 16 + 1u, b, two);
    if (n != m || strcmp(one, two) != 0 || (n < 0 && !one[0]))
        fail("pieces change what is read");
    if (n > 0 && memcmp(a, b, (size_t)n * sizeof *a) != 0)
        fail("pieces change a number");
    free(a);
    free(b);
    return 0;
}
