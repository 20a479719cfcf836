/* A few pages over http: the metrics, and what a browser shows of them. GET and HEAD at one address.
 *
 * One thread answers all requests from the texts that the loop made last, so any number of requests costs the loop nothing.
 * Connections are few: when all places are taken, a new one replaces the one that has been silent for longest. */
#ifndef RD_METRICS_HTTP_H
#define RD_METRICS_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct rd_http rd_http;

/* A copy of the text, to be freed; NULL: there is none. The thread of http. */
typedef char *rd_http_text(void *arg, size_t *len);

/* The same for the user at the other end; NULL: the user is unknown or on another machine. */
typedef char *rd_http_own_text(void *arg, const uint64_t *uid, size_t *len);

typedef struct rd_http_page {
    const char *path, *type;
    rd_http_text *text;         /* made anew for each request */
    rd_http_own_text *own;      /* ... */
    const unsigned char *bytes; /* NULL: one of the above */
    size_t size;
    const unsigned char *small; /* the same, gzip'd, for those who accept that */
    size_t small_size;
} rd_http_page;

/* Serve `url`, http://ADDRESS:PORT, by the socket `passed`, which is closed at the end, or a new one if that is -1. NULL: `why`
 * says why not. `bound` gets the URL of the first page, with the port that was taken if `url` asks for port 0. The pages stay
 * the caller's. */
rd_http *rd_http_open(const char *url, int passed, const rd_http_page *pages, size_t n, void *arg, char *bound,
                      size_t bound_cap, char *why, size_t cap);

/* Afterwards no page's functions are called. NULL is allowed. */
void rd_http_close(rd_http *h);

#endif
