/* Headers of .npy files, versions 1 to 3: magic, version, length, then a Python dict literal of three known keys. Read
 * strictly: input that numpy would not write is refused, and nothing is evaluated. */
#include <inttypes.h>
#include <string.h>

#include "client/ctl/ctl.h"

static const uint8_t MAGIC[6] = {0x93, 'N', 'U', 'M', 'P', 'Y'};

bool ctl_npy_is(const uint8_t *prefix, size_t len) { return len >= sizeof MAGIC && memcmp(prefix, MAGIC, sizeof MAGIC) == 0; }

size_t ctl_npy_data_offset(const uint8_t *p, size_t len, char why[CTL_WHY])
{
    if (len < 10) {
        snprintf(why, CTL_WHY, "the .npy header is cut");
        return 0;
    }
    if (p[6] < 1 || p[6] > 3) {
        snprintf(why, CTL_WHY, ".npy version %u.%u is unknown", p[6], p[7]);
        return 0;
    }
    size_t fixed = p[6] == 1 ? 10 : 12;
    if (len < fixed) {
        snprintf(why, CTL_WHY, "the .npy header is cut");
        return 0;
    }
    uint64_t text = p[6] == 1 ? p[8] | (uint64_t)p[9] << 8
                              : p[8] | (uint64_t)p[9] << 8 | (uint64_t)p[10] << 16 | (uint64_t)p[11] << 24;
    if (text > CTL_NPY_MAX_HEADER) {
        snprintf(why, CTL_WHY, "the .npy header has %" PRIu64 " bytes; the limit is %d", text, CTL_NPY_MAX_HEADER);
        return 0;
    }
    return fixed + (size_t)text;
}

/* ---- the dict ---- */

typedef struct cursor {
    const char *at, *end;
} cursor;

static void skip_blanks(cursor *c)
{
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\n' || *c->at == '\t'))
        c->at++;
}

static bool take(cursor *c, char want)
{
    skip_blanks(c);
    if (c->at == c->end || *c->at != want)
        return false;
    c->at++;
    return true;
}

static bool take_word(cursor *c, const char *word)
{
    size_t n = strlen(word);
    skip_blanks(c);
    if ((size_t)(c->end - c->at) < n || memcmp(c->at, word, n))
        return false;
    c->at += n;
    return true;
}

/* 'text' or "text", without escapes */
static bool take_string(cursor *c, char *out, size_t cap)
{
    skip_blanks(c);
    if (c->at == c->end || (*c->at != '\'' && *c->at != '"'))
        return false;
    char quote = *c->at++;
    size_t n = 0;
    while (c->at < c->end && *c->at != quote) {
        if (n + 1 >= cap || *c->at == '\\' || (unsigned char)*c->at < ' ')
            return false;
        out[n++] = *c->at++;
    }
    out[n] = 0;
    return take(c, quote);
}

static bool take_number(cursor *c, uint64_t *v)
{
    skip_blanks(c);
    if (c->at == c->end || *c->at < '0' || *c->at > '9')
        return false;
    for (*v = 0; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++)
        if (__builtin_mul_overflow(*v, (uint64_t)10, v) || __builtin_add_overflow(*v, (uint64_t)(*c->at - '0'), v))
            return false;
    take(c, 'L'); /* what Python 2 wrote */
    return true;
}

/* (), (3,), (3, 4) */
static bool take_shape(cursor *c, ctl_npy *npy)
{
    if (!take(c, '('))
        return false;
    npy->dims = 0;
    npy->count = 1;
    bool zero = false, huge = false;
    while (!take(c, ')')) {
        uint64_t n;
        if (npy->dims == CTL_MAX_DIMS || !take_number(c, &n))
            return false;
        npy->shape[npy->dims++] = n;
        zero |= n == 0;
        huge |= n && __builtin_mul_overflow(npy->count, n, &npy->count);
        if (!take(c, ',')) {
            if (npy->dims < 2 || !take(c, ')'))
                return false;
            break;
        }
    }
    if (zero)
        npy->count = 0;
    return zero || !huge;
}

enum { DESCR = 1, ORDER = 2, SHAPE = 4, ALL = 7 };

static bool take_value(cursor *c, const char *key, ctl_npy *npy, int *seen, char why[CTL_WHY])
{
    int what = !strcmp(key, "descr") ? DESCR : !strcmp(key, "fortran_order") ? ORDER : !strcmp(key, "shape") ? SHAPE : 0;
    bool ok = what && !(*seen & what);
    *seen |= what;
    if (ok && what == DESCR) {
        skip_blanks(c);
        if (c->at < c->end && *c->at == '[') {
            snprintf(why, CTL_WHY, "structured types cannot be reduced");
            return false;
        }
        ok = take_string(c, npy->descr, sizeof npy->descr);
    } else if (ok && what == ORDER) {
        npy->fortran = take_word(c, "True");
        ok = npy->fortran || take_word(c, "False");
    } else if (ok) {
        ok = take_shape(c, npy);
    }
    if (!ok)
        snprintf(why, CTL_WHY, "the .npy header is malformed at '%.24s'", key);
    return ok;
}

/* The keys and their values. False with an empty `why`: it is not a dict of all three. */
static bool take_items(cursor *c, ctl_npy *npy, char why[CTL_WHY])
{
    char key[32] = "";
    int seen = 0;
    if (!take(c, '{'))
        return false;
    while (!take(c, '}')) {
        if (!take_string(c, key, sizeof key) || !take(c, ':'))
            return false;
        if (!take_value(c, key, npy, &seen, why))
            return false;
        if (!take(c, ',')) {
            if (!take(c, '}'))
                return false;
            break;
        }
    }
    skip_blanks(c);
    return c->at == c->end && seen == ALL;
}

/* `why` is touched only if it fails. */
static bool take_dict(cursor *c, ctl_npy *npy, char why[CTL_WHY])
{
    char reason[CTL_WHY] = "";
    bool ok = take_items(c, npy, reason);
    if (!ok)
        snprintf(why, CTL_WHY, "%s", reason[0] ? reason : "the .npy header is not a dict of descr, fortran_order and shape");
    return ok;
}

/* ---- types ---- */

static const struct {
    const char *descr; /* without the byte order */
    int dtype;
} TYPES[] = {{"b1", REDUCE_BOOL}, {"i1", REDUCE_I8},  {"u1", REDUCE_U8},  {"i2", REDUCE_I16},
             {"u2", REDUCE_U16},  {"i4", REDUCE_I32}, {"u4", REDUCE_U32}, {"i8", REDUCE_I64},
             {"u8", REDUCE_U64},  {"f2", REDUCE_F16}, {"f4", REDUCE_F32}, {"f8", REDUCE_F64}};

static int find_type(const char *kind)
{
    for (size_t i = 0; i < sizeof TYPES / sizeof *TYPES; i++)
        if (!strcmp(kind, TYPES[i].descr))
            return TYPES[i].dtype;
    return 0;
}

static bool resolve_type(ctl_npy *npy, int wanted, char why[CTL_WHY])
{
    char order = npy->descr[0];
    const char *kind = npy->descr[0] ? npy->descr + 1 : "";
    npy->dtype = find_type(kind);
    if (wanted == REDUCE_BF16 && !strcmp(kind, "V2"))
        npy->dtype = REDUCE_BF16; /* numpy itself has no bf16; others save it as 2 opaque bytes */
    if (!npy->dtype || !strchr("<>|=", order)) {
        snprintf(why, CTL_WHY, "elements of numpy type '%s' cannot be reduced", npy->descr);
        return false;
    }
    npy->swapped = order == '>' && reduce_dtype_size(npy->dtype) > 1;
    if (wanted && wanted != npy->dtype) {
        snprintf(why, CTL_WHY, "--dtype says %s, but the file holds %s ('%s')", reduce_dtype_name(wanted),
                 reduce_dtype_name(npy->dtype), npy->descr);
        return false;
    }
    return true;
}

int ctl_npy_parse(const uint8_t *header, size_t len, int dtype, ctl_npy *npy, char why[CTL_WHY])
{
    memset(npy, 0, sizeof *npy);
    size_t end = ctl_npy_is(header, len) ? ctl_npy_data_offset(header, len, why) : 0;
    if (end > len)
        snprintf(why, CTL_WHY, "the .npy header is cut");
    if (end == 0 || end > len)
        return REDUCE_E_BAD_MESSAGE;
    cursor c = {(const char *)header + (header[6] == 1 ? 10 : 12), (const char *)header + end};
    if (!take_dict(&c, npy, why))
        return strncmp(why, "structured", 10) ? REDUCE_E_BAD_MESSAGE : REDUCE_E_TYPE;
    return resolve_type(npy, dtype, why) ? 0 : REDUCE_E_TYPE;
}
