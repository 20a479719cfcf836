/* The metrics' text, which is Prometheus', as numbers. */
#include <stdlib.h>
#include <string.h>

#include "client/ctl/top/top.h"

static int metrics_order(const void *a, const void *b)
{
    const ctl_sample *x = a, *y = b;
    int by_name = strcmp(x->name, y->name);
    return by_name ? by_name : strcmp(x->labels, y->labels);
}

/* The '}' that ends the labels: none within quotes. NULL: there is none. */
static char *end_of_labels(char *s)
{
    for (bool quoted = false; *s; s++) {
        if (quoted && *s == '\\' && s[1])
            s++;
        else if (*s == '"')
            quoted = !quoted;
        else if (*s == '}' && !quoted)
            return s;
    }
    return NULL;
}

/* `name 1` or `name{labels} 1`, which is cut into its parts. */
static bool read_line(ctl_sample *s, char *line)
{
    char *end = line + strcspn(line, "{ "), *number;
    s->name = line;
    s->labels = "";
    if (*end == '{') {
        *end++ = '\0';
        s->labels = end;
        end = end_of_labels(end);
    }
    if (!end || !*end)
        return false;
    *end++ = '\0';
    s->value = strtod(end, &number);
    return number != end && *number == '\0';
}

static bool read_lines(ctl_metrics *m)
{
    for (char *line = m->text, *next; *line; line = next) {
        char *end = line + strcspn(line, "\n");
        next = *end ? end + 1 : end;
        *end = '\0';
        if (*line && *line != '#' && !read_line(&m->sample[m->n++], line))
            return false;
    }
    return m->n > 0;
}

static size_t count_lines(const char *text)
{
    size_t n = 1;
    while ((text = strchr(text, '\n'))) {
        text++;
        n++;
    }
    return n;
}

bool ctl_metrics_read(ctl_metrics *m, const char *text)
{
    *m = (ctl_metrics){.text = strdup(text), .sample = calloc(count_lines(text), sizeof *m->sample)};
    if (m->text && m->sample && read_lines(m)) {
        qsort(m->sample, m->n, sizeof *m->sample, metrics_order);
        return true;
    }
    ctl_metrics_free(m);
    return false;
}

void ctl_metrics_free(ctl_metrics *m)
{
    free(m->text);
    free(m->sample);
    *m = (ctl_metrics){0};
}

const ctl_sample *ctl_metrics_family(const ctl_metrics *m, const char *name, size_t *n)
{
    size_t first = 0, end = m->n;
    while (first < end) { /* the first that is not before `name` */
        size_t middle = first + (end - first) / 2;
        if (strcmp(m->sample[middle].name, name) < 0)
            first = middle + 1;
        else
            end = middle;
    }
    while (end < m->n && !strcmp(m->sample[end].name, name))
        end++;
    *n = end - first;
    return m->sample + first;
}

double ctl_metrics_value(const ctl_metrics *m, const char *name, const char *labels)
{
    ctl_sample key = {.name = name, .labels = labels};
    const ctl_sample *s = m->n ? bsearch(&key, m->sample, m->n, sizeof *m->sample, metrics_order) : NULL;
    return s ? s->value : 0;
}

char *ctl_label(char *out, size_t cap, const char *labels, const char *key)
{
    size_t len = strlen(key), n = 0;
    const char *s = labels;
    while (*s && (strncmp(s, key, len) || s[len] != '=' || s[len + 1] != '"')) { /* to the next label */
        s += strcspn(s, "\"");
        for (s += *s != '\0'; *s && *s != '"'; s++)
            s += *s == '\\' && s[1];
        s += strspn(s, "\",");
    }
    for (s += *s ? len + 2 : 0; *s && *s != '"' && n + 1 < cap; s++) {
        s += *s == '\\' && s[1];
        out[n++] = *s;
    }
    out[n] = '\0';
    return out;
}
