/* The metrics over http, by nng's own server: GET /metrics at one address. With transport.c the only file of the daemon
 * with nng in it.
 *
 * nng's threads answer with the text that the loop made last, so scrapes, however many, are nothing to the loop. */
#ifndef RD_METRICS_HTTP_H
#define RD_METRICS_HTTP_H

#include <stdbool.h>
#include <stddef.h>

typedef struct rd_http rd_http;

/* A copy of the text, to be freed; NULL: there is none. Any thread. */
typedef char *rd_http_text(void *arg, size_t *len);

/* Serve `url`, http://ADDRESS:PORT. NULL: `why` tells. `bound` gets the URL of the metrics, with the port that was taken if
 * `url` asks for port 0. */
rd_http *rd_http_open(const char *url, rd_http_text *text, void *arg, char *bound, size_t bound_cap, char *why, size_t cap);

/* `text` is not called any more. NULL is fine. */
void rd_http_close(rd_http *h);

#endif
