/* Zip archives: the end record, the central directory, local headers. Bytes in, structs out. */
#include <inttypes.h>
#include <string.h>

#include "client/ctl/formats/container.h"

enum { END = 22, END64 = 56, LOCATOR64 = 20, ENTRY = 46 }; /* bytes of the fixed parts */

static uint64_t little(const uint8_t *p, int bytes)
{
    uint64_t v = 0;
    memcpy(&v, p, (size_t)bytes);
    return v;
}

static bool begins(const uint8_t *p, const char *magic) { return !memcmp(p, magic, 4); }

static int bad(char why[CTL_WHY], const char *text)
{
    snprintf(why, CTL_WHY, "the zip archive is malformed: %s", text);
    return REDUCE_E_BAD_MESSAGE;
}

/* The zip64 record that a locator in front of the end record leads to, if there is one. */
static int find_end64(const uint8_t *tail, size_t at, uint64_t first, ctl_zip_end *end, char why[CTL_WHY])
{
    if (at < LOCATOR64 || !begins(tail + at - LOCATOR64, "PK\6\7"))
        return 0;
    uint64_t place = little(tail + at - LOCATOR64 + 8, 8);
    if (place < first || place - first > at - LOCATOR64 || at - LOCATOR64 - (place - first) < END64)
        return bad(why, "its zip64 record is somewhere else");
    const uint8_t *record = tail + (place - first);
    if (!begins(record, "PK\6\6"))
        return bad(why, "its zip64 record is missing");
    *end = (ctl_zip_end){little(record + 48, 8), little(record + 40, 8), little(record + 32, 8)};
    return 0;
}

int ctl_zip_find_end(const uint8_t *tail, size_t len, uint64_t size, ctl_zip_end *end, char why[CTL_WHY])
{
    size_t at = len < END ? 0 : len - END + 1;
    uint64_t first = size - len; /* offset of the tail */
    while (at-- > 0)
        if (begins(tail + at, "PK\5\6") && at + END + little(tail + at + 20, 2) == len)
            break;
    if (at == SIZE_MAX)
        return snprintf(why, CTL_WHY, "the zip archive has no end record: it is cut"), REDUCE_E_IO;
    const uint8_t *record = tail + at;
    *end = (ctl_zip_end){little(record + 16, 4), little(record + 12, 4), little(record + 10, 2)};
    int err = find_end64(tail, at, first, end, why);
    if (err)
        return err;
    if (end->offset > first + at || end->bytes > first + at - end->offset)
        return bad(why, "its directory lies behind its end");
    if (end->members > end->bytes / ENTRY)
        return bad(why, "its directory has fewer bytes than members");
    return 0;
}

/* Values that do not fit 32 bits stand in the extra field 1, in this order, each only if its place has all ones. */
static bool take_zip64(const uint8_t *extra, size_t len, uint64_t *values[3])
{
    bool wide = false;
    for (int i = 0; i < 3; i++)
        wide |= *values[i] == UINT32_MAX;
    while (wide && len >= 4) {
        size_t n = (size_t)little(extra + 2, 2);
        if (n > len - 4)
            return false;
        if (little(extra, 2) == 1) {
            size_t at = 4;
            for (int i = 0; i < 3; i++) {
                if (*values[i] != UINT32_MAX)
                    continue;
                if (at + 8 > 4 + n)
                    return false;
                *values[i] = little(extra + at, 8);
                at += 8;
            }
            return true;
        }
        extra += 4 + n;
        len -= 4 + n;
    }
    return true;
}

bool ctl_zip_next(const uint8_t *directory, size_t len, size_t *at, ctl_zip_member *m, char why[CTL_WHY])
{
    const uint8_t *p = directory + *at;
    size_t left = len - *at;
    if (left < ENTRY || !begins(p, "PK\1\2"))
        return bad(why, "its directory is cut"), false;
    size_t name = (size_t)little(p + 28, 2), extra = (size_t)little(p + 30, 2), comment = (size_t)little(p + 32, 2);
    if (name + extra + comment > left - ENTRY)
        return bad(why, "its directory is cut"), false;
    *m = (ctl_zip_member){.name = (const char *)p + ENTRY,
                          .name_len = name,
                          .method = (unsigned)little(p + 10, 2),
                          .encrypted = p[8] & 1,
                          .crc = (uint32_t)little(p + 16, 4),
                          .stored = little(p + 20, 4),
                          .unpacked = little(p + 24, 4),
                          .offset = little(p + 42, 4)};
    uint64_t *values[3] = {&m->unpacked, &m->stored, &m->offset};
    if (!take_zip64(p + ENTRY + name, extra, values))
        return bad(why, "a zip64 field is cut"), false;
    *at += ENTRY + name + extra + comment;
    return true;
}

size_t ctl_zip_data(const uint8_t local[CTL_ZIP_LOCAL])
{
    if (!begins(local, "PK\3\4"))
        return 0;
    return CTL_ZIP_LOCAL + (size_t)little(local + 26, 2) + (size_t)little(local + 28, 2);
}
