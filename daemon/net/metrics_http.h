/* A few pages over http: the metrics, and what a browser shows of them. GET and HEAD at one address.
 *
 * One thread answers all, from texts that the loop made last, so requests, however many, are nothing to the loop. Connections
 * are few: when one more comes than there is room for, the one that has been silent for longest goes. */
#ifndef RD_METRICS_HTTP_H
#define RD_METRICS_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct rd_http rd_http;

/* A copy of the text, to be freed; NULL: there is none. The thread of http. */
typedef char *rd_http_text(void *arg, size_t *len);

/* The same, for the user who asks; NULL: it is not of this machine, or not known. */
typedef char *rd_http_own_text(void *arg, const uint64_t *uid, size_t *len);

typedef struct rd_http_page {
    const char *path, *type;
    rd_http_text *text;         /* made anew for each request */
    rd_http_own_text *own;      /* ... */
    const unsigned char *bytes; /* gzip'd; NULL: one of the above */
    size_t size;
} rd_http_page;

/* Serve `url`, http://ADDRESS:PORT, by the socket `passed`, which is closed at the end, or a new one if that is -1. NULL: `why`
 * says why not. `bound` gets the URL of the first page, with the port that was taken if `url` asks for port 0. The pages stay
 * the caller's. */
rd_http *rd_http_open(const char *url, int passed, const rd_http_page *pages, size_t n, void *arg, char *bound,
                      size_t bound_cap, char *why, size_t cap);

/* No page's text is called any more. NULL is fine. */
void rd_http_close(rd_http *h);

#endif
