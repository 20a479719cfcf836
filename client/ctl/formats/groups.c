#include "client/ctl/formats/groups.h"

#include <stdlib.h>
#include <string.h>

#include "client/ctl/formats/grow.h"

enum { FIRST_SLOTS = 1 << 10, MOST_GROUPS = 1 << 30 };

/* Up to seven bytes as a number. Of one length, other bytes are another number. */
static uint64_t last_bytes(const char *p, size_t n)
{
    uint32_t first = 0, last = 0;
    if (n >= sizeof first) {
        memcpy(&first, p, sizeof first);
        memcpy(&last, p + n - sizeof last, sizeof last);
    } else if (n) {
        first = (uint32_t)(uint8_t)p[0] | (uint32_t)(uint8_t)p[n / 2] << 8 | (uint32_t)(uint8_t)p[n - 1] << 16;
    }
    return first | (uint64_t)last << 32;
}

/* The halves of a product joined: each bit of x changes lower and upper bits. The factor is 2^64 by the golden ratio. */
static uint64_t mix(uint64_t x)
{
    const unsigned __int128 product = (unsigned __int128)x * UINT64_C(0x9e3779b97f4a7c15);
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static size_t hash(const char *key, size_t len)
{
    uint64_t h = len, word;
    for (; len >= sizeof word; key += sizeof word, len -= sizeof word) {
        memcpy(&word, key, sizeof word);
        h = mix(h ^ word);
    }
    return (size_t)mix(h ^ last_bytes(key, len));
}

static bool is_key(const ctl_groups *g, uint32_t i, const char *key, size_t len)
{
    return g->key[i].len == len && !memcmp(g->text + g->key[i].at, key, len);
}

/* The slot of the key: its own, or a free one. */
static uint32_t *find(const ctl_groups *g, const char *key, size_t len)
{
    size_t at = hash(key, len) & (g->slots - 1);
    while (g->slot[at] && !is_key(g, g->slot[at] - 1, key, len))
        at = (at + 1) & (g->slots - 1);
    return g->slot + at;
}

static bool more_slots(ctl_groups *g)
{
    const size_t slots = g->slots ? 2 * g->slots : FIRST_SLOTS;
    uint32_t *slot = calloc(slots, sizeof *slot);
    if (!slot)
        return false;
    free(g->slot);
    g->slot = slot;
    g->slots = slots;
    for (uint32_t i = 0; i < g->n; i++)
        *find(g, g->text + g->key[i].at, g->key[i].len) = i + 1;
    return true;
}

static bool new_group(ctl_groups *g, const char *key, size_t len)
{
    if (g->n >= MOST_GROUPS || !ctl_grow(&g->text, &g->text_room, g->text_len, len + 1, 1) ||
        !ctl_grow(&g->key, &g->room, g->n, 1, sizeof *g->key))
        return false;
    memcpy(g->text + g->text_len, key, len);
    g->key[g->n++] = (ctl_group_key){g->text_len, len};
    g->text[g->text_len + len] = 0;
    g->text_len += len + 1;
    return true;
}

bool ctl_groups_add(ctl_groups *g, const char *key, size_t len, bool element)
{
    if (2 * (size_t)g->n >= g->slots && !more_slots(g)) /* at most half of them are taken */
        return false;
    if (g->next == g->given)
        g->next = g->given = 0;
    uint32_t *slot = find(g, key, len);
    if (!ctl_grow(&g->of, &g->of_room, g->given, 1, sizeof *g->of) || (!*slot && !new_group(g, key, len)))
        return false;
    *slot = *slot ? *slot : g->n;
    g->of[g->given] = *slot - 1;
    g->given += element;
    return true;
}

const uint32_t *ctl_groups_take(ctl_groups *g, size_t n)
{
    const uint32_t *of = g->of + g->next;
    g->next += n;
    return of;
}

void ctl_groups_rewind(ctl_groups *g) { g->next = g->given = 0; }

const char *ctl_groups_text(const ctl_groups *g, uint32_t i, int c)
{
    const char *text = g->text + g->key[i].at;
    while (c-- > 0)
        text += strlen(text) + 1;
    return text;
}

void ctl_groups_free(ctl_groups *g)
{
    free(g->key);
    free(g->text);
    free(g->slot);
    free(g->of);
}
