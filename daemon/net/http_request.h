/* The head of an http request (RFC 9112), as far as a server of a few pages needs it. Pure. */
#ifndef RD_HTTP_REQUEST_H
#define RD_HTTP_REQUEST_H

#include <stdbool.h>
#include <stddef.h>

enum { RD_HTTP_MAX_HEAD = 4096, RD_HTTP_MAX_PATH = 64 };

typedef struct rd_http_request {
    int status;     /* 200, or the error that answers it: the connection ends then */
    bool head_only; /* HEAD */
    bool keep;      /* the connection stays for another request */
    bool has_host;
    bool host_is_local;          /* its one Host is localhost, 127.0.0.1 or [::1], at any port */
    bool gzip, gzip_named;       /* a reply may be gzip'd; and Accept-Encoding says so of gzip itself, which goes before "*" */
    char path[RD_HTTP_MAX_PATH]; /* without the query; "" if it is longer than any page's */
    size_t size;                 /* bytes of the head */
} rd_http_request;

/* The request that [in, in + n) begins with. False: more bytes are needed. */
bool rd_http_parse(rd_http_request *r, const char *in, size_t n);

#endif
