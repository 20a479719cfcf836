#include "daemon/telemetry/processes_json.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/peer.h"
#include "daemon/telemetry/json_text.h"

static bool is_seen_by(const rd_process *p, uint64_t uid) { return rd_uid_is_admin(uid) || uid == p->uid; }

static void put_process(FILE *f, const rd_process *p)
{
    fprintf(f, "{\"connection\":%" PRIu32 ",\"uid\":\"%" PRIu64 "\",\"pid\":%" PRIu64 ",\"name\":", p->connection, p->uid,
            p->pid);
    rd_json_text(f, p->name, strlen(p->name));
    fprintf(f,
            ",\"requests\":%" PRIu64 ",\"pieces\":%" PRIu64 ",\"errors\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"engine_s\":%.9f}",
            p->requests, p->pieces, p->errors, p->bytes, (double)p->engine_ns * 1e-9);
}

char *rd_processes_json(const rd_process *p, size_t n, const uint64_t *uid, size_t *len)
{
    char *text = NULL;
    size_t seen = 0;
    FILE *f = open_memstream(&text, len);
    if (!f)
        return NULL;
    fputs("{\"processes\":[", f);
    for (size_t i = 0; uid && i < n; i++)
        if (is_seen_by(&p[i], *uid) && seen++ < RD_PROCESSES_SHOWN) {
            fputs(seen > 1 ? "," : "", f);
            put_process(f, &p[i]);
        }
    fprintf(f, "],\"sessions\":%zu,\"known\":%s}\n", seen, uid ? "true" : "false");
    if (fclose(f) == 0)
        return text;
    free(text);
    return NULL;
}
