/* Any bytes as a table. Byte 0: the column and the marks, byte 1: what is said about header and marks, byte 2: how long the
 * pieces are, and what becomes of missing values. The highest bit of byte 1: each number has a group, by the first column or
 * two. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/ctl/formats/container.h"
#include "client/ctl/formats/groups.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fail(const char *what)
{
    fprintf(stderr, "%s\n", what);
    abort();
}

enum { MOST = 4096, ROOM = 2048 };

/* Each number that came out has a group. Adds them to the hash. */
static void check_groups(const ctl_groups *g, uint64_t numbers, uint64_t *sum)
{
    if (g->given != numbers)
        fail("a number without a group");
    for (size_t i = 0; i < g->given; i++) {
        if (g->of[i] >= g->n)
            fail("a group that is not there");
        for (int k = 0; k < g->columns; k++)
            *sum = *sum * 31 + g->of[i] + strlen(ctl_groups_text(g, g->of[i], k));
    }
}

/* Feed it in pieces of `step` bytes more at a time; returns how many bytes come out, and their hash. */
static long feed(ctl_csv c, const char *bytes, size_t len, size_t step, uint64_t *sum)
{
    char out[ROOM], why[CTL_WHY] = "";
    size_t at = 0, have = 0, used;
    long all = 0, made;
    uint64_t lines = 0, numbers = 0;
    bool in_number = false;
    *sum = 0;
    if (c.holes->groups)
        ctl_groups_rewind(c.holes->groups);
    do {
        have = have + step < len ? have + step : len;
        do {
            made = ctl_csv_feed(&c, bytes + at, have - at, have == len, out, sizeof out, &used, why);
            if (made < 0 && !why[0])
                fail("a refusal without a reason");
            if (made < 0)
                return -1;
            if (used > have - at || made > ROOM)
                fail("more than there was");
            at += used;
            all += made;
            for (long i = 0; i < made; i++) {
                *sum = *sum * 31 + (unsigned char)out[i];
                lines += out[i] == '\n';
                numbers += in_number && out[i] == '\n';
                in_number = out[i] != '\n';
            }
        } while (used || made);
    } while (have < len);
    if (at != len)
        fail("something is left over");
    if (lines < c.record)
        fail("a record without a line");
    if (c.holes->groups)
        check_groups(c.holes->groups, numbers, sum);
    return all;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char why[CTL_WHY] = "", column[16], *bytes;
    size_t skip;
    uint64_t one, two;
    if (size < 3)
        return 0;
    ctl_groups groups = {.name = {"#1", "#2"}, .columns = 1 + (data[2] & 1)};
    ctl_holes holes = {.placed = data[1] & 64, .groups = data[1] & 128 ? &groups : NULL};
    ctl_dialect d = {.header = data[1] % 3 - 1, .skip_lines = data[1] & 4 ? 1 : 0, .missing = data[1] & 8 ? "-1,x" : NULL};
    ctl_csv c = {.delimiter = ",;\t \0"[data[0] >> 3 & 3] * (data[0] & 128 ? 1 : 0),
                 .decimal = data[0] & 32 ? ',' : '.',
                 .quote = data[1] & 16 ? '\'' : '"',
                 .comment = data[1] & 32 ? '#' : 0,
                 .missing = d.missing,
                 .policy = data[2] % 3,
                 .holes = &holes};
    c.plain = c.decimal == '.' && !d.missing;
    if (c.delimiter == c.decimal)
        return 0;
    size_t len = size - 3 < MOST ? size - 3 : MOST, step = 1 + data[2]; /* pieces of a record are looked at again and again */
    if (!(bytes = malloc(len + 1)))
        abort();
    memcpy(bytes, data + 3, len);
    if (ctl_csv_line_ends(bytes, len, true) != len)
        fail("the end is not certain");
    snprintf(column, sizeof column, "%s%d", data[0] & 16 ? "#" : "", data[0] % 8);
    int err = ctl_csv_begin(&c, &d, bytes, len, true, data[0] & 64 ? NULL : column, &skip, why);
    if (err && !why[0])
        fail("a refusal without a reason");
    if (!err && skip > len)
        fail("a header behind the end");
    if (!err) {
        long whole = feed(c, bytes + skip, len - skip, len ? len : 1, &one);
        if (feed(c, bytes + skip, len - skip, step, &two) != whole || (whole >= 0 && one != two))
            fail("pieces give other numbers than the whole");
    }
    ctl_groups_free(&groups);
    free(holes.at);
    free(bytes);
    return 0;
}
