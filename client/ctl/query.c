/* reducectl ping, info, status, metrics. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/ctl/ctl.h"

enum { PINGS = 5 };

static int ping(reduce_client *c, const ctl_options *o)
{
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < PINGS; i++) {
        uint64_t ns;
        if (reduce_ping(c, &ns))
            return ctl_print_error(o, &(ctl_where){.name = "ping"}, 0, NULL);
        if (ns < best)
            best = ns;
    }
    reduce_info info = REDUCE_INFO_INIT;
    reduce_get_info(c, &info);
    if (o->format == CTL_JSON) {
        fputs("{\"server\":", stdout);
        ctl_json_string(stdout, info.server);
        fputs(",\"url\":", stdout);
        ctl_json_string(stdout, info.url);
        printf(",\"ns\":%" PRIu64 "}\n", best);
    } else {
        printf("%s answers on %s in %.0f us\n", info.server, info.url, (double)best * 1e-3);
    }
    return CTL_OK;
}

static int query_line(void *arg, const reduce_entry *e)
{
    (void)arg;
    if (e->kind == REDUCE_KIND_TEXT)
        printf("%-28s %s\n", e->key, e->text);
    else if (e->kind == REDUCE_KIND_F64)
        printf("%-28s %g\n", e->key, e->f64);
    else
        printf("%-28s %" PRIu64 "\n", e->key, e->u64);
    return 0;
}

static int query_json(void *arg, const reduce_entry *e)
{
    bool *first = arg;
    char number[CTL_MAX_NUMBER];
    putchar(*first ? '{' : ',');
    *first = false;
    ctl_json_string(stdout, e->key);
    putchar(':');
    if (e->kind == REDUCE_KIND_TEXT)
        ctl_json_string(stdout, e->text);
    else if (e->kind == REDUCE_KIND_U64)
        printf("%" PRIu64, e->u64);
    else if (e->f64 - e->f64 == 0)
        fputs(ctl_number(number, REDUCE_F64, &e->f64, false), stdout);
    else
        fputs("null", stdout);
    return 0;
}

static int query_text(void *arg, const char *text)
{
    fputs(text, arg);
    return 0;
}

static int metrics(reduce_client *c, const ctl_options *o)
{
    if (reduce_metrics(c, query_text, stdout))
        return ctl_print_error(o, &(ctl_where){.name = "metrics"}, 0, NULL);
    return CTL_OK;
}

static int query_all(reduce_client *c, const ctl_options *o)
{
    if (o->command == CTL_STATUS && !o->requests && o->format != CTL_JSON)
        return ctl_status(c, o);
    bool json = o->format == CTL_JSON, first = true;
    int topic = o->command == CTL_INFO ? REDUCE_TOPIC_INFO : o->requests ? REDUCE_TOPIC_REQUESTS : REDUCE_TOPIC_STATUS;
    if (reduce_query(c, topic, json ? query_json : query_line, &first))
        return ctl_print_error(o, &(ctl_where){.name = o->command == CTL_INFO ? "info" : "status"}, 0, NULL);
    if (json)
        puts(first ? "{}" : "}");
    return CTL_OK;
}

int ctl_query(reduce_client *c, const ctl_options *o)
{
    if (o->command == CTL_PING)
        return ping(c, o);
    if (o->command == CTL_METRICS)
        return metrics(c, o);
    return o->watch ? ctl_watch(c, o, query_all) : query_all(c, o);
}
