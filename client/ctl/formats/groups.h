/* The groups of a table's records: those with the same texts in some of its columns. A hash table with open addressing. */
#ifndef CTL_GROUPS_H
#define CTL_GROUPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CTL_MAX_BY = 8 /* columns of a key */ };

typedef struct ctl_group_key {
    size_t at, len; /* its texts, with 0 bytes between and one behind, in `text` */
} ctl_group_key;

typedef struct ctl_groups {
    const char *name[CTL_MAX_BY]; /* of the columns, as the user gave them */
    uint64_t column[CTL_MAX_BY];  /* their numbers, which the table's reader finds */
    int columns;
    ctl_group_key *key; /* of each group, in the order of their first records */
    uint32_t n;
    size_t room;
    char *text;
    size_t text_len, text_room;
    uint32_t *slot; /* 1 + a group; 0: free. `slots` of them, a power of 2 */
    size_t slots;
    uint32_t *of; /* [next, given) of `of_room`: the groups of the elements that were read and not taken so far */
    size_t next, given, of_room;
} ctl_groups;

/* There is a group with this key, texts with 0 bytes between, and the next element is of it, unless its record misses that.
 * False: no memory, or more than 2^30 groups. */
bool ctl_groups_add(ctl_groups *g, const char *key, size_t len, bool element);

/* The groups of the next n elements, which the reader has given. */
const uint32_t *ctl_groups_take(ctl_groups *g, size_t n);

/* The table begins again: the groups stay. */
void ctl_groups_rewind(ctl_groups *g);

/* The text of column `c` in the key of group `i`. */
const char *ctl_groups_text(const ctl_groups *g, uint32_t i, int c);

void ctl_groups_free(ctl_groups *g);

#endif
