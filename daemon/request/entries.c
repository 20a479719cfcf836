#include "daemon/request/entries.h"

#include <stdio.h>
#include <string.h>

static rp_entry entry(rp_kind kind, const char *key)
{
    return (rp_entry){.kind = (uint8_t)kind, .key = key, .key_len = (uint8_t)strlen(key)};
}

void rd_put_u64(rp_writer *w, const char *key, uint64_t v)
{
    rp_entry e = entry(RP_KIND_U64, key);
    e.u64 = v;
    rp_put_entry(w, &e);
}

void rd_put_f64(rp_writer *w, const char *key, double v)
{
    rp_entry e = entry(RP_KIND_F64, key);
    e.f64 = v;
    rp_put_entry(w, &e);
}

void rd_put_text(rp_writer *w, const char *key, const char *text)
{
    rp_entry e = entry(RP_KIND_TEXT, key);
    e.text = text;
    e.text_len = (uint16_t)strlen(text);
    rp_put_entry(w, &e);
}

typedef struct full_key {
    char text[RP_MAX_KEY + 1];
} full_key;

static full_key join(const char *group, const char *name)
{
    full_key k;
    snprintf(k.text, sizeof k.text, "%s.%s", group, name);
    return k;
}

void rd_put_u64_of(rp_writer *w, const char *group, const char *name, uint64_t v) { rd_put_u64(w, join(group, name).text, v); }

void rd_put_f64_of(rp_writer *w, const char *group, const char *name, double v) { rd_put_f64(w, join(group, name).text, v); }

void rd_put_text_of(rp_writer *w, const char *group, const char *name, const char *text)
{
    rd_put_text(w, join(group, name).text, text);
}
