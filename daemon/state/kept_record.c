#include "daemon/state/kept_record.h"

#include <stddef.h>
#include <string.h>

static const char MAGIC[8] = "RDCEKEPT";

typedef struct layout {
    char magic[sizeof MAGIC];
    uint32_t version, store_len;
    uint64_t uid, id, since_ns, until_ns;
    uint64_t checksum;                  /* of the data */
    uint64_t own;                       /* of the record, with this field 0 */
    uint8_t store[RD_KEPT_RECORD - 64]; /* the body of a STORE, then zeros */
} layout;

_Static_assert(sizeof(layout) == RD_KEPT_RECORD && RP_STORE_MAX <= sizeof((layout *)0)->store, "the record has one layout");

/* ---- checksum ---- */
enum { LANES = 8, BLOCK = LANES * 8, TURN = 29 };

static const uint64_t ODD = UINT64_C(0x9e3779b97f4a7c15);

/* Each word enters its lane by a bijection, so a change of a single word always changes the sum. Independent lanes hide
 * latency. */
static uint64_t step(uint64_t lane, uint64_t word)
{
    lane = (lane ^ word) * ODD;
    return lane << TURN | lane >> (64 - TURN);
}

static void add_block(uint64_t lane[LANES], const uint8_t *from)
{
    uint64_t word[LANES];
    memcpy(word, from, BLOCK);
    for (int i = 0; i < LANES; i++)
        lane[i] = step(lane[i], word[i]);
}

uint64_t rd_checksum(const void *data, size_t n)
{
    const uint8_t *from = data;
    uint64_t lane[LANES], sum = n;
    uint8_t rest[BLOCK] = {0};
    for (int i = 0; i < LANES; i++)
        lane[i] = ODD * (uint64_t)(i + 1);
    for (size_t left = n; left >= BLOCK; left -= BLOCK, from += BLOCK)
        add_block(lane, from);
    if (n % BLOCK)
        memcpy(rest, from, n % BLOCK);
    add_block(lane, rest);
    for (int i = 0; i < LANES; i++)
        sum = step(sum, lane[i]);
    return sum ^ sum >> 32;
}

/* ---- record ---- */
static uint64_t own_sum(layout l)
{
    l.own = 0;
    return rd_checksum(&l, sizeof l);
}

void rd_kept_sum(uint8_t record[RD_KEPT_RECORD])
{
    layout l;
    memcpy(&l, record, sizeof l);
    l.own = own_sum(l);
    memcpy(record, &l, sizeof l);
}

void rd_kept_put(uint8_t out[RD_KEPT_RECORD], const rd_kept_record *r)
{
    layout l = {.version = RD_KEPT_VERSION,
                .uid = r->uid,
                .id = r->id,
                .since_ns = r->since_ns,
                .until_ns = r->until_ns,
                .checksum = r->checksum};
    memcpy(l.magic, MAGIC, sizeof MAGIC);
    l.store_len = (uint32_t)rp_put_store(l.store, &r->store);
    l.own = own_sum(l);
    memcpy(out, &l, sizeof l);
}

static bool is_zero(const uint8_t *p, size_t n)
{
    while (n && !*p)
        p++, n--;
    return n == 0;
}

static const char *check_store(const layout *l, const uint8_t *store, rp_store *to)
{
    rp_fault f;
    if (l->store_len > RP_STORE_MAX || !is_zero(store + l->store_len, sizeof l->store - l->store_len))
        return "its record has bytes that this version does not know";
    if (rp_get_store(store, l->store_len, to, &f))
        return "its record describes no array";
    return NULL;
}

const char *rd_kept_get(const uint8_t in[RD_KEPT_RECORD], rd_kept_record *r)
{
    layout l;
    memcpy(&l, in, sizeof l);
    if (memcmp(l.magic, MAGIC, sizeof MAGIC) != 0)
        return "it has no record";
    if (l.version != RD_KEPT_VERSION)
        return "its record has an unknown version";
    if (l.own != own_sum(l))
        return "the checksum of its record is wrong";
    if (!l.id || l.since_ns > l.until_ns)
        return "its record is not one of committed data";
    *r = (rd_kept_record){.uid = l.uid, .id = l.id, .since_ns = l.since_ns, .until_ns = l.until_ns, .checksum = l.checksum};
    return check_store(&l, in + offsetof(layout, store), &r->store);
}
