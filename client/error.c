/* Error texts: one last fault per thread, so that clients can be shared between threads. */
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "client/error.h"
#include "client/sized.h"
#include "proto/clean.h"

static _Thread_local rp_fault last;
static _Thread_local bool last_is_whole; /* its request had one result */
static _Thread_local char line[RP_MAX_TEXT + 160];

#define SAME(NAME, code, help) _Static_assert(REDUCE_E_##NAME == -(code), "reduce.h disagrees with types.def: " #NAME);
_Static_assert((int)REDUCE_OK == (int)RP_OK, "reduce.h disagrees with types.def: OK");
#define REDUCE_E_OK REDUCE_OK
#define X(NAME, code, help) SAME(NAME, code, help)
RP_ERRORS(X)
#undef X

/* The library's own errors. X(NAME, help) */
#define LIBRARY_ERRORS(X)                                                             \
    X(ARGUMENT, "an argument is invalid")                                             \
    X(NO_DAEMON, "no daemon answers; start `reduced`, or open with REDUCE_AUTOSTART") \
    X(TIMEOUT, "the daemon made no progress in time")                                 \
    X(STREAM_LOST, "the daemon restarted during a stream; begin again")               \
    X(FORKED, "used in a forked child; open a client before any in the parent")       \
    X(PROTOCOL, "the reply does not follow the protocol")                             \
    X(START, "the daemon could not be started")                                       \
    X(INTERRUPTED, "the program interrupted the call")

/* The daemon's code of an error. Any number may be given; -INT_MIN would overflow. */
static int code_of(int err) { return err > INT_MIN ? -err : err; }

const char *reduce_errname(int err)
{
    switch (err) {
#define X(NAME, help)     \
    case REDUCE_E_##NAME: \
        return #NAME;
        LIBRARY_ERRORS(X)
#undef X
    default:
        return rp_err_name(code_of(err));
    }
}

const char *reduce_strerror(int err)
{
    switch (err) {
#define X(NAME, help)     \
    case REDUCE_E_##NAME: \
        return help;
        LIBRARY_ERRORS(X)
#undef X
    default:
        return rp_err_help(code_of(err));
    }
}

void rc_clean_text(char *text) { rp_clean(text, strlen(text) + 1, text, 0); }
void rc_clean_lines(char *text) { rp_clean(text, strlen(text) + 1, text, '\n'); }

static void fill(rp_fault *f, int err, const char *field, const char *fmt, va_list args)
{
    memset(f, 0, sizeof *f);
    f->code = (rp_err)-err;
    f->index = RP_NO_INDEX;
    snprintf(f->field, sizeof f->field, "%s", field);
    vsnprintf(f->text, sizeof f->text, fmt, args);
}

int rc_fail(rp_fault *f, int err, const char *field, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fill(f, err, field, fmt, args);
    va_end(args);
    return err;
}

/* `last` is a new fault. Its texts may come from a daemon. */
static int reported(bool whole)
{
    rc_clean_text(last.field);
    rc_clean_text(last.text);
    last_is_whole = whole;
    return -(int)last.code;
}

int rc_report_of(const rp_fault *f, bool whole)
{
    last = *f;
    return reported(whole);
}

int rc_report(const rp_fault *f) { return rc_report_of(f, false); }

int rc_error(int err, const char *field, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fill(&last, err, field, fmt, args);
    va_end(args);
    return reported(false);
}

int reduce_error(int err, const char *field, const char *text)
{
    return err ? rc_error(err, field ? field : "", "%s", text ? text : "") : 0;
}

void rc_drop_row(rp_fault *f)
{
    static const char *const units[] = {"row ", "segment ", "column "};
    char *text = f->text, *rest = text;
    for (size_t i = 0; i < sizeof units / sizeof *units && rest == text; i++)
        if (!strncmp(text, units[i], strlen(units[i])))
            rest += strlen(units[i]);
    if (*rest < '0' || *rest > '9' || rest == text)
        return;
    while (*rest >= '0' && *rest <= '9')
        rest++;
    while (*rest == ':' || *rest == ' ')
        rest++;
    memmove(text, rest, strlen(rest) + 1);
}

void rc_name_element(rp_fault *f)
{
    if (f->index != RP_NO_INDEX)
        snprintf(f->text, sizeof f->text, "the key of element %" PRIu64 " is not a group: there are %" PRIu64, f->index,
                 f->limit);
}

/* A 128-bit integer in decimal, from the end of `out` backwards. */
static const char *decimal(char out[48], const uint64_t value[2])
{
    unsigned __int128 v = (unsigned __int128)value[1] << 64 | value[0];
    bool negative = value[1] >> 63;
    char *p = out + 47;
    v = negative ? -v : v;
    *p = 0;
    do
        *--p = (char)('0' + (int)(v % 10));
    while (v /= 10);
    if (negative)
        *--p = '-';
    return p;
}

/* What the words of an error leave out: "; the exact value is ...", "; the cap is ...". */
static void figures(const rp_fault *f, char *out, size_t room)
{
    char number[48];
    bool unknown = f->value[0] == UINT64_MAX && f->value[1] == INT64_MAX;
    if (f->code == RP_OVERFLOW && unknown)
        snprintf(out, room, "; the exact value has more than 64 bits");
    else if (f->code == RP_OVERFLOW)
        snprintf(out, room, "; the exact value is %s", decimal(number, f->value));
    else if (f->limit && (f->code == RP_QUOTA || f->code == RP_TOO_LARGE))
        snprintf(out, room, "; the cap is %" PRIu64, f->limit);
}

/* "row 3: ", or nothing. In "offsets" the index is the number of an offset, in "keys" of an element. */
static void row_of_last(char *out, size_t room)
{
    out[0] = 0;
    if (!last_is_whole && last.index != RP_NO_INDEX && strcmp(last.field, "offsets") && strcmp(last.field, "keys"))
        snprintf(out, room, "row %" PRIu64 ": ", last.index);
}

int rc_within(const char *part, uint64_t number, int err)
{
    char row[32], text[sizeof last.text];
    row_of_last(row, sizeof row);
    snprintf(text, sizeof text, "%s", last.text[0] ? last.text : reduce_strerror(err));
    snprintf(last.text, sizeof last.text, "%s %" PRIu64 ": %s%.100s", part, number, row, text);
    last_is_whole = true; /* the text names the row */
    return err;
}

const char *reduce_errmsg(void)
{
    int err = -(int)last.code;
    if (err == 0)
        return "";
    const char *text = last.text[0] ? last.text : reduce_strerror(err);
    char row[32];
    row_of_last(row, sizeof row);
    size_t n = (size_t)snprintf(line, sizeof line, "%s: %s%s", reduce_errname(err), row, text);
    figures(&last, line + n, sizeof line - n);
    return line;
}

int reduce_last_fault(reduce_fault *f)
{
    reduce_fault mine = REDUCE_FAULT_INIT;
    if (rc_check_sized(f, RC_UP_TO(reduce_fault, text), "fault", NULL))
        return REDUCE_E_ARGUMENT; /* not reported: the last fault stays */
    mine.code = -(int)last.code;
    mine.limit = last.limit;
    mine.index = last.index;
    mine.value_low = last.value[0];
    mine.value_high = last.value[1];
    mine.retry_ms = last.retry_ms;
    memcpy(mine.field, last.field, sizeof last.field);
    memcpy(mine.text, last.text, sizeof last.text);
    rc_give_sized(f, &mine, sizeof mine);
    return REDUCE_OK;
}
