#include "client/message.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client/error.h"
#include "kernels/exact/check.h"

enum { MAGIC = 0x47534d52, FORM = 1, POISON = 0xff };
_Static_assert(sizeof(rc_message) == REDUCE_MESSAGE, "a message has its size in every version");

void rc_message_init(rc_message *m)
{
    memset(m, 0, sizeof *m);
    m->magic = MAGIC;
    m->form = FORM;
    m->rank = RC_NO_RANK;
    m->key = 0xcbf29ce484222325;
}

/* ---- what is reduced --------------------------------------------------------------------------------------------- */

static void mix(rc_message *m, uint64_t v)
{
    for (int i = 0; i < 8; i++)
        m->key = (m->key ^ (v >> 8 * i & 0xff)) * 0x100000001b3; /* FNV-1a */
}

/* All that must be equal at every rank. */
static void mix_spec(rc_message *m, const reduce_spec *s)
{
    uint64_t initial = 0;
    const uint32_t flags = s->flags & (REDUCE_STATES_OUT | REDUCE_WRAP | REDUCE_COLUMNS);
    if (s->initial)
        memcpy(&initial, s->initial, rp_dtype_size(s->dtype));
    mix(m, (uint64_t)(uint32_t)s->op << 32 | (uint32_t)s->dtype);
    mix(m, (uint64_t)(uint32_t)s->out << 32 | (uint32_t)s->nan);
    mix(m, (uint64_t)flags << 32 | s->ddof);
    mix(m, s->flags & REDUCE_COLUMNS ? 0 : s->rows);
    mix(m, s->initial != NULL);
    mix(m, initial);
}

void rc_message_add(rc_message *m, const reduce_spec *spec, const uint8_t *states, uint64_t bytes)
{
    const uint64_t size = reduce_state_size(spec->op, spec->dtype);
    mix_spec(m, spec);
    if (m->held == m->total && size) {
        uint64_t room = sizeof m->room - m->held, fits = bytes < room ? bytes : room / size * size;
        memcpy(m->room + m->held, states, fits);
        m->held += (uint32_t)fits;
    }
    m->total += bytes;
}

/* ---- errors ------------------------------------------------------------------------------------------------------ */

static void fail(rc_message *m, int err, uint32_t rank, const char *text)
{
    m->err = err;
    m->rank = rank;
    m->held = 0;
    memset(m->room, 0, sizeof m->room);
    snprintf((char *)m->room, sizeof m->room, "%s", text);
}

void rc_message_fail(rc_message *m, int err, uint32_t rank)
{
    reduce_fault f = REDUCE_FAULT_INIT;
    reduce_last_fault(&f);
    fail(m, err, rank, f.text[0] ? f.text : reduce_strerror(err));
}

int rc_message_end(const rc_message *m)
{
    if (!m->err)
        return 0;
    if (m->err > 0 || m->err < REDUCE_E_INTERRUPTED) /* of a later version, or damaged */
        return rc_error(REDUCE_E_BAD_MESSAGE, "err", "a rank reports the error %d, which libreduce %s does not know", m->err,
                        REDUCED_VERSION);
    if (m->rank == RC_NO_RANK)
        return rc_error(m->err, "spec", "%.150s", (const char *)m->room);
    return rc_error(m->err, "rank", "rank %" PRIu32 ": %.150s", m->rank, (const char *)m->room);
}

/* ---- joining ----------------------------------------------------------------------------------------------------- */

/* States one after the other, `bytes` in all, merged pairwise. 0, or the reported error. */
static int merge_states(uint8_t *into, const uint8_t *from, size_t bytes)
{
    int err = 0;
    for (size_t at = 0, size; at < bytes && !err; at += size) {
        size = bytes - at >= RK_STATE_HEAD ? rp_state_size(into[at]) : 0;
        if (size == 0 || size > bytes - at || from[at] != into[at])
            return rc_error(REDUCE_E_BAD_MESSAGE, "layout", "the states are of different operations");
        err = reduce_state_merge(into + at, from + at);
    }
    return err;
}

/* Why two messages without an error cannot be joined; NULL: they can. */
static const char *disagreement(const rc_message *a, const rc_message *b)
{
    if (a->key != b->key || a->total != b->total)
        return "the ranks do not ask for the same reductions";
    if (a->held != b->held || a->held > sizeof a->room)
        return "the ranks do not send the same states";
    return NULL;
}

static void join(rc_message *a, const rc_message *b)
{
    const char *why = disagreement(a, b);
    int err = why ? rc_error(REDUCE_E_BAD_MESSAGE, "spec", "%s", why) : merge_states(a->room, b->room, a->held);
    if (err)
        rc_message_fail(a, err, RC_NO_RANK);
}

static void merge_messages(rc_message *a, const rc_message *b)
{
    if (a->magic != b->magic) {
        rc_message_init(a);
        fail(a, REDUCE_E_BAD_MESSAGE, RC_NO_RANK, "a message is not from reduce_collective");
    } else if (a->form != b->form) {
        a->form = FORM;
        fail(a, REDUCE_E_VERSION, RC_NO_RANK, "the ranks have versions of libreduce that do not work together");
    } else if (b->err && (!a->err || b->rank < a->rank)) {
        *a = *b;
    } else if (!a->err) {
        join(a, b);
    }
}

/* The first byte of the magic number is not a layout, so a state does not begin with it. */
static bool is_message(const void *data, size_t bytes)
{
    static const uint32_t magic = MAGIC;
    return bytes == sizeof(rc_message) && !memcmp(data, &magic, sizeof magic);
}

void reduce_states_merge(void *into, const void *from, size_t bytes)
{
    rc_message a, b; /* any alignment */
    if (is_message(into, bytes) || is_message(from, bytes)) {
        memcpy(&a, into, sizeof a);
        memcpy(&b, from, sizeof b);
        merge_messages(&a, &b);
        memcpy(into, &a, sizeof a);
    } else if (merge_states(into, from, bytes)) {
        memset(into, POISON, bytes);
    }
}
