#include "daemon/net/http_request.h"

#include <string.h>
#include <strings.h>

typedef struct line {
    const char *at;
    size_t n;
} line;

/* The line at `p`, without its end; NULL: it has none. Returns where the next one begins. */
static const char *take_line(const char *p, const char *end, line *out)
{
    const char *feed = memchr(p, '\n', (size_t)(end - p));
    if (!feed)
        return NULL;
    *out = (line){p, (size_t)(feed - p)};
    if (out->n && p[out->n - 1] == '\r')
        out->n--;
    return feed + 1;
}

/* The next word of a request line, which has exactly one blank between. */
static line take_word(line *l)
{
    const char *blank = memchr(l->at, ' ', l->n);
    line word = {l->at, blank ? (size_t)(blank - l->at) : l->n};
    size_t used = word.n + (blank != NULL);
    l->at += used;
    l->n -= used;
    return word;
}

static bool is(line l, const char *text) { return l.n == strlen(text) && !memcmp(l.at, text, l.n); }

static bool is_printable(line l)
{
    for (size_t i = 0; i < l.n; i++)
        if (l.at[i] < '!' || l.at[i] > '~')
            return false;
    return l.n > 0;
}

static void take_path(rd_http_request *r, line target)
{
    const char *query = memchr(target.at, '?', target.n);
    size_t n = query ? (size_t)(query - target.at) : target.n;
    r->path[0] = '\0';
    if (n >= sizeof r->path)
        return;
    memcpy(r->path, target.at, n);
    r->path[n] = '\0';
}

static int take_request_line(rd_http_request *r, line l)
{
    line method = take_word(&l), target = take_word(&l);
    r->keep = is(l, "HTTP/1.1");
    if (!is_printable(method) || !is_printable(target) || (!r->keep && !is(l, "HTTP/1.0")))
        return 400;
    r->head_only = is(method, "HEAD");
    if (!r->head_only && !is(method, "GET"))
        return 405;
    take_path(r, target);
    return 200;
}

static line trimmed(line l)
{
    while (l.n && (*l.at == ' ' || *l.at == '\t')) {
        l.at++;
        l.n--;
    }
    while (l.n && (l.at[l.n - 1] == ' ' || l.at[l.n - 1] == '\t'))
        l.n--;
    return l;
}

static bool named(line l, const char *name, line *value)
{
    size_t n = strlen(name);
    if (l.n <= n || l.at[n] != ':' || strncasecmp(l.at, name, n))
        return false;
    *value = trimmed((line){l.at + n + 1, l.n - n - 1});
    return true;
}

/* Is the word in a list with commas between? */
static bool lists(line l, const char *word)
{
    for (bool more = true; more;) {
        const char *comma = memchr(l.at, ',', l.n);
        size_t n = comma ? (size_t)(comma - l.at) : l.n, used = n + (comma != NULL);
        line one = trimmed((line){l.at, n});
        if (one.n == strlen(word) && !strncasecmp(one.at, word, one.n))
            return true;
        more = comma != NULL;
        l = (line){l.at + used, l.n - used};
    }
    return false;
}

/* The next item of a list with commas between, cut at a semicolon: *rest is what follows that. */
static line take_item(line *l, line *rest)
{
    const char *comma = memchr(l->at, ',', l->n);
    line all = {l->at, comma ? (size_t)(comma - l->at) : l->n};
    const char *mark = memchr(all.at, ';', all.n);
    const size_t used = all.n + (comma != NULL), word = mark ? (size_t)(mark - all.at) : all.n;
    *rest = (line){all.at + word + (mark != NULL), all.n - word - (mark != NULL)};
    *l = (line){l->at + used, l->n - used};
    return trimmed((line){all.at, word});
}

/* "q=0", "q=0.000" (RFC 9110, 12.4.2): not at all */
static bool is_refusal(line weight)
{
    line w = trimmed(weight);
    if (w.n < 3 || strncasecmp(w.at, "q=", 2))
        return false;
    for (size_t i = 2; i < w.n; i++)
        if (w.at[i] != '0' && !(i == 3 && w.at[i] == '.'))
            return false;
    return true;
}

static void take_encodings(rd_http_request *r, line l)
{
    while (l.n) {
        line weight, coding = take_item(&l, &weight);
        const bool named = coding.n == strlen("gzip") && !strncasecmp(coding.at, "gzip", coding.n);
        if (named || (is(coding, "*") && !r->gzip_named))
            r->gzip = !is_refusal(weight);
        r->gzip_named |= named;
    }
}

static bool names_this_machine(line l)
{
    static const char *const names[] = {"localhost", "127.0.0.1", "[::1]"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        size_t n = strlen(names[i]);
        if (l.n >= n && !strncasecmp(l.at, names[i], n) && (l.n == n || l.at[n] == ':'))
            return true;
    }
    return false;
}

/* A GET with a body is refused, because bodies are not read. */
static int take_field(rd_http_request *r, line l)
{
    line value;
    if (named(l, "Content-Length", &value) && !is(value, "0"))
        return 413;
    if (named(l, "Transfer-Encoding", &value))
        return 413;
    if (named(l, "Connection", &value) && lists(value, "close"))
        r->keep = false;
    if (named(l, "Accept-Encoding", &value))
        take_encodings(r, value);
    if (named(l, "Host", &value)) {
        r->host_is_local = !r->has_host && names_this_machine(value);
        r->has_host = true;
    }
    return memchr(l.at, ':', l.n) && l.at[0] != ' ' && l.at[0] != '\t' ? 200 : 400;
}

bool rd_http_parse(rd_http_request *r, const char *in, size_t n)
{
    const char *p = in, *end = in + n;
    line l;
    *r = (rd_http_request){.status = 0};
    while ((p = take_line(p, end, &l))) {
        bool ends = r->status && l.n == 0;
        if (!r->status)
            r->status = take_request_line(r, l);
        else if (!ends && r->status == 200)
            r->status = take_field(r, l);
        r->size = (size_t)(p - in);
        if (ends || r->status == 400)
            break;
    }
    if (!p && n >= RD_HTTP_MAX_HEAD) /* the head is too long */
        r->status = 431;
    else if (!p)
        return false;
    r->keep = r->keep && r->status == 200;
    return true;
}
