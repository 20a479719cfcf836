/* Any bytes as http requests, one after the other: the same answer however many bytes follow, none before the head is whole. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/net/http_request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fail(const char *what)
{
    fprintf(stderr, "%s\n", what);
    abort();
}

/* In memory of its own size, so that a sanitizer sees its end. */
static bool parse(rd_http_request *r, const uint8_t *data, size_t n)
{
    char *copy = malloc(n + 1);
    if (!copy)
        abort();
    memcpy(copy + 1, data, n);
    bool whole = rd_http_parse(r, copy + 1, n);
    free(copy);
    return whole;
}

static void check(const rd_http_request *r, size_t n)
{
    static const int known[] = {200, 400, 405, 413, 431};
    bool found = false;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        found |= r->status == known[i];
    if (!found)
        fail("a status that nobody answers");
    if (r->size > n || (r->status == 431 && n < RD_HTTP_MAX_HEAD))
        fail("a head longer than what there is");
    if (r->keep && r->status != 200)
        fail("the connection stays after an error");
    if (!memchr(r->path, 0, sizeof r->path))
        fail("a path without an end");
    for (const char *p = r->path; *p; p++)
        if (*p < '!' || *p > '~' || *p == '?')
            fail("a path that is not plain");
}

/* What follows a head changes nothing, and a byte less is not enough. */
static void check_end(const rd_http_request *r, const uint8_t *data)
{
    rd_http_request again;
    if (r->status == 431)
        return;
    if (!parse(&again, data, r->size))
        fail("a head that needs what follows it");
    if (again.status != r->status || again.head_only != r->head_only || again.keep != r->keep || again.size != r->size ||
        again.host_is_local != r->host_is_local || strcmp(again.path, r->path) != 0)
        fail("what follows a head changes it");
    if (r->size <= RD_HTTP_MAX_HEAD && parse(&again, data, r->size - 1))
        fail("whole before its end");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    rd_http_request r;
    while (size && parse(&r, data, size)) {
        check(&r, size);
        check_end(&r, data);
        if (!r.keep)
            break;
        data += r.size;
        size -= r.size;
    }
    return 0;
}
