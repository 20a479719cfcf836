#include "client/message.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client/error.h"
#include "client/packed.h"
#include "client/spec.h"
#include "kernels/exact/check.h"

enum { MAGIC = 0x47534d52, FORM = 2, POISON = 0xff, MOST_HELD = RC_MESSAGE_ROOM / RK_STATE_HEAD };
_Static_assert(sizeof(rc_message) == REDUCE_MESSAGE, "a message has its size in every version");

void rc_message_init(rc_message *m, uint32_t rank)
{
    memset(m, 0, sizeof *m);
    m->magic = MAGIC;
    m->form = FORM;
    m->rank = m->other = RC_NO_RANK;
    m->first = rank;
    m->key = 0xcbf29ce484222325;
}

/* ---- what is reduced --------------------------------------------------------------------------------------------- */

static void mix(rc_message *m, uint64_t v)
{
    m->key = (m->key ^ v) * 0x9e3779b97f4a7c15;
    m->key ^= m->key >> 32;
}

/* All that must be equal at every rank. */
static void mix_spec(rc_message *m, const reduce_spec *s)
{
    uint64_t initial = 0;
    const uint32_t flags = s->flags & (REDUCE_STATES_OUT | REDUCE_WRAP | REDUCE_COLUMNS | REDUCE_DROP_ZERO_WEIGHTS);
    if (s->initial)
        memcpy(&initial, s->initial, rp_dtype_size(s->dtype));
    mix(m, (uint64_t)(uint32_t)s->op << 32 | (uint32_t)rc_states_dtype(s));
    mix(m, (uint64_t)(uint32_t)s->out << 32 | (uint32_t)s->nan);
    mix(m, (uint64_t)flags << 32 | s->ddof);
    mix(m, s->flags & REDUCE_COLUMNS ? 0 : s->rows);
    mix(m, s->initial != NULL);
    mix(m, initial);
    if (s->keys_dtype)
        mix(m, 1); /* the keys of each rank have a type of their own */
}

/* Is there room for another one? */
static bool put(rc_message *m, size_t *used, const rk_state *s, rc_spans spans)
{
    const size_t size = rc_packed_size(s->layout, spans);
    if (size > sizeof m->room - *used)
        return false;
    rc_pack(m->room + *used, s, spans);
    *used += size;
    m->held++;
    return true;
}

void rc_message_add(rc_message *m, size_t *used, const reduce_spec *spec, const uint8_t *states, uint64_t size, uint64_t bytes)
{
    mix_spec(m, spec);
    m->total += bytes;
    for (uint64_t at = 0; at < bytes && *used < sizeof m->room; at += size) {
        const rk_state *s = (const void *)(states + at);
        if (!put(m, used, s, rc_spans_of(s)))
            *used = sizeof m->room; /* nor anything after it */
    }
}

/* ---- errors ------------------------------------------------------------------------------------------------------ */

static void fail(rc_message *m, int err, uint32_t rank, const char *text)
{
    m->err = err;
    m->rank = rank;
    m->held = 0;
    memset(m->room, 0, sizeof m->room);
    snprintf((char *)m->room, sizeof m->room, "%.160s", text); /* which may be another message's, without an end */
}

void rc_message_fail(rc_message *m, int err, uint32_t rank)
{
    const char *name_ends = strstr(reduce_errmsg(), ": ");
    fail(m, err, rank, name_ends ? name_ends + 2 : reduce_strerror(err));
}

/* The error of some rank. */
static int report(const rc_message *m)
{
    if (m->err > 0 || m->err < REDUCE_E_INTERRUPTED) /* of a later version, or damaged */
        return rc_error(REDUCE_E_BAD_MESSAGE, "err", "a rank reports the error %d, which libreduce %s does not know", m->err,
                        REDUCED_VERSION);
    if (m->rank == RC_NO_RANK)
        return rc_error(m->err, "spec", "%.150s", (const char *)m->room);
    return rc_error(m->err, "rank", "rank %" PRIu32 ": %.150s", m->rank, (const char *)m->room);
}

int rc_message_end(const rc_message *m, const rc_message *mine)
{
    if (m->magic != MAGIC)
        return rc_error(REDUCE_E_BAD_MESSAGE, "exchange", "the exchange gave rank %" PRIu32 " bytes that are not a message",
                        mine->first);
    if (m->form != FORM)
        return rc_error(REDUCE_E_VERSION, "exchange", "the exchange gave rank %" PRIu32 " a message of another form, %" PRIu32,
                        mine->first, m->form);
    if (m->err || mine->err)
        return report(m->err ? m : mine);
    if (m->first > mine->first)
        return rc_error(REDUCE_E_BAD_MESSAGE, "exchange", "the exchange has left out the message of rank %" PRIu32,
                        mine->first);
    if (m->key != mine->key || m->total != mine->total || m->held > mine->held || m->other != RC_NO_RANK || m->reserved)
        return rc_error(REDUCE_E_BAD_MESSAGE, "exchange", "the exchange gave rank %" PRIu32 " a message of other reductions",
                        mine->first);
    return 0;
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
        err = reduce_state_merge(into + at, size, from + at, size);
    }
    return err;
}

static int not_states(void) { return rc_error(REDUCE_E_BAD_MESSAGE, "spec", "the ranks do not send the same states"); }

/* The next state of both messages, at `at`, to `to`. 1: it has no room; or the reported error. */
static int join_next(rc_message *to, size_t *used, const rc_message *const m[2], size_t at[2])
{
    rk_state s[2];
    rc_spans spans[2];
    size_t took[] = {sizeof m[0]->room - at[0], sizeof m[1]->room - at[1]};
    const size_t size = rc_join_sums(to->room + *used, sizeof to->room - *used, m[0]->room + at[0], m[1]->room + at[1], took);
    for (int j = 0; j < 2 && !size; j++)
        if (!(took[j] = rc_unpack(&s[j], &spans[j], m[j]->room + at[j], took[j])))
            return not_states();
    at[0] += took[0];
    at[1] += took[1];
    *used += size;
    to->held += size != 0;
    if (size)
        return 0;
    const size_t bytes = rp_state_size(s[0].layout);
    const int err = s[0].layout == s[1].layout ? reduce_state_merge(&s[0], bytes, &s[1], bytes) : not_states();
    return err ? err : !put(to, used, &s[0], rc_spans_join(spans[0], spans[1]));
}

/* The first states of both, as many as fit when they are joined. 0, or the reported error. */
static int join_packed(rc_message *to, const rc_message *a, const rc_message *b)
{
    const rc_message *const m[] = {a, b};
    const uint32_t both = a->held < b->held ? a->held : b->held;
    size_t used = 0, at[2] = {0};
    int err = 0;
    to->held = 0;
    if (a->held > MOST_HELD || b->held > MOST_HELD)
        return not_states();
    for (uint32_t i = 0; i < both && !err; i++)
        err = join_next(to, &used, m, at);
    memset(to->room + used, 0, sizeof to->room - used);
    return err < 0 ? err : 0;
}

static void join_states(rc_message *a, const rc_message *b)
{
    const rc_message mine = *a;
    const int err = join_packed(a, &mine, b);
    if (err)
        rc_message_fail(a, err, RC_NO_RANK);
}

int rc_message_states(const rc_message *m, uint8_t *states, size_t bytes, size_t *held)
{
    size_t at = 0, to = 0;
    for (uint32_t i = 0; i < m->held; i++) {
        rc_spans spans;
        const bool alike = to < bytes && at < sizeof m->room && states[to] == m->room[at];
        const size_t size = alike ? rp_state_size(states[to]) : 0, left = sizeof m->room - at;
        const size_t took = size && size <= bytes - to ? rc_unpack((void *)(states + to), &spans, m->room + at, left) : 0;
        if (!took)
            return rc_error(REDUCE_E_BAD_MESSAGE, "exchange", "the exchange gave states of other operations");
        at += took;
        to += size;
    }
    *held = to;
    return 0;
}

/* Messages of ranks that have not failed. The two lowest ranks that disagree do not depend on the order of the joins. */
static void join(rc_message *low, const rc_message *high)
{
    const bool alike = low->key == high->key && low->total == high->total;
    const uint32_t other = alike ? high->other : high->first;
    char why[80];
    if (other < low->other)
        low->other = other;
    if (low->other != RC_NO_RANK) {
        snprintf(why, sizeof why, "ranks %" PRIu32 " and %" PRIu32 " do not ask for the same reductions", low->first,
                 low->other);
        fail(low, REDUCE_E_BAD_MESSAGE, RC_NO_RANK, why);
    } else if (!low->err && high->err) {
        fail(low, high->err, RC_NO_RANK, (const char *)high->room);
    } else if (!low->err) {
        join_states(low, high);
    }
}

/* RC_NO_RANK: none has. */
static uint32_t failed_rank(const rc_message *m) { return m->err ? m->rank : RC_NO_RANK; }

static void refuse(rc_message *m, int err, const char *why)
{
    rc_message_init(m, RC_NO_RANK);
    fail(m, err, RC_NO_RANK, why);
}

/* The join comes to be at `a`. */
static void merge_messages(rc_message *a, rc_message *b)
{
    const uint32_t a_failed = failed_rank(a), b_failed = failed_rank(b);
    if (a->magic != b->magic) {
        refuse(a, REDUCE_E_BAD_MESSAGE, "a message is not from reduce_collective");
    } else if (a->form != b->form) {
        refuse(a, REDUCE_E_VERSION, "the ranks have versions of libreduce that do not work together");
    } else if (a_failed != b_failed) {
        if (b_failed < a_failed)
            *a = *b;
    } else if (a_failed == RC_NO_RANK && a->first <= b->first) {
        join(a, b);
    } else if (a_failed == RC_NO_RANK) {
        join(b, a);
        *a = *b;
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
