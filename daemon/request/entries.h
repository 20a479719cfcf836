/* Writes entries of QUERY's replies (proto/codec.h). An entry is left out if the reply has no room for it. */
#ifndef RD_ENTRIES_H
#define RD_ENTRIES_H

#include "proto/codec.h"

void rd_put_u64(rp_writer *w, const char *key, uint64_t v);
void rd_put_f64(rp_writer *w, const char *key, double v);
void rd_put_text(rp_writer *w, const char *key, const char *text);

/* The same with the key "group.name". */
void rd_put_u64_of(rp_writer *w, const char *group, const char *name, uint64_t v);
void rd_put_f64_of(rp_writer *w, const char *group, const char *name, double v);
void rd_put_text_of(rp_writer *w, const char *group, const char *name, const char *text);

#endif
