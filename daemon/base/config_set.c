/* One option by name and value. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "daemon/base/config_options.h"
#include "daemon/base/paths.h"

void rd_config_defaults(rd_config *c)
{
    memset(c, 0, sizeof *c);
    for (int i = 0; i < RD_OPTIONS; i++)
        if (rd_option_is_number(&rd_options[i]))
            *rd_option_number(c, &rd_options[i]) = rd_options[i].preset;
    strcpy(c->devices, "all");
}

static bool set_number(rd_config *c, const rd_option *o, const char *value, char *why)
{
    bool octal = o->kind == RD_OPTION_OCTAL;
    char *end = NULL;
    errno = 0;
    unsigned long long v = isdigit((unsigned char)value[0]) ? strtoull(value, &end, octal ? 8 : 10) : 0;
    if (!end || *end || errno || v < o->min || v > o->max) {
        snprintf(why, RD_MAX_WHY,
                 octal ? "%s = %.60s: must be an octal mode from %" PRIo64 " to %" PRIo64
                       : "%s = %.60s: must be a number from %" PRIu64 " to %" PRIu64,
                 o->name, value, o->min, o->max);
        return false;
    }
    *rd_option_number(c, o) = v;
    return true;
}

static bool set_choice(rd_config *c, const rd_option *o, const char *value, char *why)
{
    size_t n;
    const char *name;
    for (uint64_t i = 0; (name = rd_option_choice(o->choices, i, &n)); i++)
        if (strlen(value) == n && memcmp(name, value, n) == 0) {
            *rd_option_number(c, o) = i;
            return true;
        }
    snprintf(why, RD_MAX_WHY, "%s = %.60s: must be one of %s", o->name, value, o->choices);
    return false;
}

static const size_t MAX_IPC_PATH = sizeof((struct sockaddr_un *)0)->sun_path - 1; /* the terminator takes one byte */

static bool is_listed(const rd_config *c, const char *url)
{
    bool found = false;
    for (uint64_t i = 0; i < c->listens; i++)
        found |= strcmp(c->listen[i], url) == 0;
    return found;
}

/* ADDRESS:PORT, where the system chooses a port for 0. */
static bool has_port(const char *url)
{
    const char *port = strrchr(url, ':') + 1;
    size_t n = strlen(port);
    return n >= 1 && n <= 5 && strspn(port, "0123456789") == n && atoi(port) <= UINT16_MAX;
}

static bool add_url(rd_config *c, const char *url, char *why)
{
    const char *path = rd_ipc_path(url);
    char problem[80] = "";
    if (!path && !rd_is_plain_tcp(url) && !rd_is_tls(url))
        snprintf(problem, sizeof problem, "a URL must start with ipc://, tls+tcp:// or tcp://");
    else if (!path && !has_port(url))
        snprintf(problem, sizeof problem, "the address needs a port from 0 to 65535: tls+tcp://0.0.0.0:7077");
    else if (path && (path[0] != '/' || !path[1]))
        snprintf(problem, sizeof problem, "an ipc URL needs an absolute path: ipc:///run/x.sock");
    else if (path && strlen(path) > MAX_IPC_PATH)
        snprintf(problem, sizeof problem, "the path of a socket has at most %zu bytes", MAX_IPC_PATH);
    else if (strlen(url) >= RD_MAX_URL)
        snprintf(problem, sizeof problem, "a URL has at most %d bytes", RD_MAX_URL - 1);
    else if (c->listens == RD_MAX_LISTEN)
        snprintf(problem, sizeof problem, "at most %d URLs are allowed", RD_MAX_LISTEN);
    else if (path && is_listed(c, url)) /* tcp with port 0 may be listed twice */
        snprintf(problem, sizeof problem, "it is listed twice");
    if (problem[0]) {
        snprintf(why, RD_MAX_WHY, "listen = %.120s: %s", url, problem);
        return false;
    }
    c->last = ++c->listens;
    strcpy(c->listen[c->last - 1], url);
    return true;
}

static bool add_id(const rd_option *o, rd_ids *ids, const char *value, char *why)
{
    bool group = o->kind == RD_OPTION_GROUP || o->kind == RD_OPTION_GROUPS;
    const char *problem = rd_ids_add(ids, group ? RD_GROUP_ID : RD_USER_ID, value);
    if (problem)
        snprintf(why, RD_MAX_WHY, "%s = %.60s: %s", o->name, value, problem);
    return !problem;
}

static bool add_name(const rd_option *o, rd_names *names, const char *value, char *why)
{
    const char *problem = rd_names_add(names, value);
    if (problem)
        snprintf(why, RD_MAX_WHY, "%s = %.80s: %s", o->name, value, problem);
    return !problem;
}

static bool set_path(rd_config *c, const rd_option *o, const char *value, char *why)
{
    size_t n = strlen(value);
    if (value[0] == '/' && n <= o->max) {
        memcpy((char *)c + o->at, value, n + 1);
        return true;
    }
    snprintf(why, RD_MAX_WHY, "%s = %.60s: must be an absolute path of at most %" PRIu64 " bytes", o->name, value, o->max);
    return false;
}

static bool set_http(rd_config *c, const rd_option *o, const char *value, char *why)
{
    size_t n = strlen(value);
    bool loopback;
    if (n <= o->max && rd_is_http(value, &loopback)) {
        memcpy((char *)c + o->at, value, n + 1);
        return true;
    }
    snprintf(why, RD_MAX_WHY, "%s = %.60s: must be http://ADDRESS:PORT of at most %" PRIu64 " bytes", o->name, value, o->max);
    return false;
}

/* A number that CUDA may give, or the start of a UUID. Only the form is checked here, so that --check-config needs no device.
 * The list is read by the engine when it opens (kernels/engine/select.c), which knows what there is. */
static bool is_device(const char *name, size_t n)
{
    const bool uuid = strncmp(name, "GPU-", 4) == 0 || strncmp(name, "MIG-", 4) == 0;
    return uuid ? n > 4 && n <= 40 && strspn(name + 4, "0123456789abcdefABCDEF-") >= n - 4
                : n >= 1 && n <= 4 && strspn(name, "0123456789") >= n && atoi(name) <= 1023;
}

static bool set_devices(rd_config *c, const rd_option *o, const char *value, char *why)
{
    bool ok = strlen(value) <= o->max;
    for (const char *name = value; ok && strcmp(value, "all") != 0; name++) {
        size_t n = strcspn(name, ",");
        ok = is_device(name, n);
        name += n;
        if (!*name)
            break;
    }
    if (ok)
        strcpy(c->devices, value);
    else
        snprintf(
            why, RD_MAX_WHY,
            "%s = %.60s: must be 'all', or numbers from 0 to 1023 and starts of UUIDs (GPU-...), separated by commas, of at "
            "most %" PRIu64 " bytes",
            o->name, value, o->max);
    return ok;
}

static bool is_space(char c) { return isspace((unsigned char)c); }

/* Does the value survive a round trip through a line of the config file? There a ';' or '#' after a space begins a comment, and
 * spaces at the ends go. */
static bool fits_a_line(const char *value)
{
    size_t n = strlen(value);
    if (n == 0 || is_space(value[0]) || is_space(value[n - 1]) || strchr(value, '\n'))
        return false;
    for (size_t i = 0; i < n; i++)
        if ((value[i] == ';' || value[i] == '#') && (i == 0 || is_space(value[i - 1])))
            return false;
    return true;
}

bool rd_config_set(rd_config *c, const char *name, const char *value, char why[RD_MAX_WHY])
{
    const rd_option *o = rd_option_find(name);
    const char *removed = rd_option_removed(name);
    if (removed) {
        c->removed = removed;
        return true;
    }
    if (!o) {
        snprintf(why, RD_MAX_WHY, "unknown option '%.60s'; reduced --help lists them", name);
        return false;
    }
    if (!fits_a_line(value)) {
        snprintf(why, RD_MAX_WHY, "%s = '%.60s': the value is empty, or has a space at an end or before ';' or '#'", o->name,
                 value);
        return false;
    }
    switch (o->kind) {
    case RD_OPTION_URLS:
        return add_url(c, value, why);
    case RD_OPTION_USERS:
        return add_id(o, &c->allow[c->last].users, value, why);
    case RD_OPTION_GROUPS:
        return add_id(o, &c->allow[c->last].groups, value, why);
    case RD_OPTION_NAMES:
        return add_name(o, &c->allow[c->last].names, value, why);
    case RD_OPTION_GROUP:
        c->socket_group.n = 0; /* a later group replaces an earlier one */
        return add_id(o, &c->socket_group, value, why);
    case RD_OPTION_ACCOUNTS:
        return add_id(o, rd_option_ids(c, o), value, why);
    case RD_OPTION_PATH:
        return set_path(c, o, value, why);
    case RD_OPTION_HTTP:
        return set_http(c, o, value, why);
    case RD_OPTION_DEVICES:
        return set_devices(c, o, value, why);
    case RD_OPTION_CHOICE:
        return set_choice(c, o, value, why);
    default:
        return set_number(c, o, value, why);
    }
}
