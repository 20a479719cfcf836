/* The table of the daemon's options. config_set.c sets them, config.c reads them from the file and the command line,
 * config_text.c shows them. */
#ifndef RD_CONFIG_OPTIONS_H
#define RD_CONFIG_OPTIONS_H

#include "daemon/base/config.h"

typedef enum {
    RD_OPTION_NUMBER,
    RD_OPTION_CHOICE,
    RD_OPTION_OCTAL,
    RD_OPTION_URLS,
    RD_OPTION_USERS,
    RD_OPTION_GROUPS,
    RD_OPTION_NAMES,
    RD_OPTION_GROUP,
    RD_OPTION_ACCOUNTS,
    RD_OPTION_PATH,
    RD_OPTION_HTTP,
    RD_OPTION_DEVICES
} rd_option_kind;

typedef struct rd_option {
    const char *name;
    rd_option_kind kind;
    size_t at; /* offset of the field in rd_config */
    uint64_t min, max, preset;
    const char *choices; /* RD_OPTION_CHOICE: names of the values 0, 1, ..., separated by '|' */
    bool live;           /* can change at run time (SIGHUP) */
    const char *help;
} rd_option;

enum { RD_OPTIONS = 46 };
extern const rd_option rd_options[RD_OPTIONS];

const rd_option *rd_option_find(const char *name); /* NULL: there is none */

/* The name of an option of an earlier version, which has no effect any more. NULL: there is none of that name. */
const char *rd_option_removed(const char *name);

/* The name of value i of an RD_OPTION_CHOICE; its length in *n. NULL past the last one. */
const char *rd_option_choice(const char *choices, uint64_t i, size_t *n);

/* The option's field. */
static inline uint64_t *rd_option_number(rd_config *c, const rd_option *o) { return (uint64_t *)((char *)c + o->at); }
static inline uint64_t rd_option_value(const rd_config *c, const rd_option *o)
{
    return *(const uint64_t *)((const char *)c + o->at);
}
static inline rd_ids *rd_option_ids(const rd_config *c, const rd_option *o) { return (rd_ids *)((char *)c + o->at); }
static inline const char *rd_option_text(const rd_config *c, const rd_option *o) { return (const char *)c + o->at; }

/* A number, choice or path as the config file has it. */
void rd_option_print(const rd_config *c, const rd_option *o, char *out, size_t cap);

static inline bool rd_option_is_number(const rd_option *o)
{
    return o->kind == RD_OPTION_NUMBER || o->kind == RD_OPTION_CHOICE || o->kind == RD_OPTION_OCTAL;
}

#endif
