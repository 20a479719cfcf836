#include "daemon/base/config.h"

#include <ctype.h>
#include <errno.h>
#include <ini.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/base/paths.h"
#include "daemon/base/workers.h"
#include "kernels/kernels.h"

typedef enum { NUMBER, CHOICE, OCTAL, URLS, USERS, GROUPS, NAMES, GROUP, ACCOUNTS, PATH, HTTP, DEVICES } kind;

typedef struct {
    const char *name;
    kind kind;
    size_t at; /* offset of the field in rd_config */
    uint64_t min, max, preset;
    const char *choices; /* CHOICE: names of the values 0, 1, ..., separated by '|' */
    bool live;           /* can change at run time (SIGHUP) */
    const char *help;
} option;

enum { AUTOSTARTED_IDLE_S = 600 }; /* REDUCE_OPEN_OPTS_INIT of client/reduce.h says so too */

#define FIELD(f) offsetof(rd_config, f)

static const option options[] = {
    {"listen", URLS, FIELD(listen), 0, RD_MAX_LISTEN, 0, NULL, false,
     "URL to serve: ipc:///path/to/socket, tls+tcp://address:port or tcp://address:port. Repeat it for more. Default: the "
     "socket that clients try first; it is to be listed beside other URLs"},
    {"allow-uid", USERS, 0, 0, RD_MAX_IDS, 0, NULL, false,
     "user, by name or number, that may use the ipc socket of the preceding `listen`. Before the first `listen`: all ipc "
     "sockets without a list of their own. Repeat it for more. Without any allow-uid and allow-gid, socket-mode decides"},
    {"allow-gid", GROUPS, 0, 0, RD_MAX_IDS, 0, NULL, false,
     "the same for a group: processes with this primary group, and users that are members of it when the daemon starts"},
    {"allow-name", NAMES, 0, 0, RD_MAX_IDS, 0, NULL, false,
     "user, by the common name in the client's certificate, that may use the tls+tcp URL of the preceding `listen`. Before the "
     "first `listen`: all such URLs without a list of their own. Repeat it for more. Without any, every name whose certificate "
     "tls-ca signed"},
    {"allow-plain-tcp", CHOICE, FIELD(allow_plain_tcp), 0, 1, 0, "no|yes", false,
     "serve tcp:// without encryption and authentication: anyone who reaches the port may use the device and change what "
     "others send and receive"},
    {"tls-cert", PATH, FIELD(tls_cert), 0, RD_MAX_FILE - 1, 0, NULL, false,
     "certificate for tls+tcp://, PEM, followed by the intermediate certificates up to its CA"},
    {"tls-key", PATH, FIELD(tls_key), 0, RD_MAX_FILE - 1, 0, NULL, false,
     "its private key, PEM without a passphrase; only owner and group may have access to the file"},
    {"tls-ca", PATH, FIELD(tls_ca), 0, RD_MAX_FILE - 1, 0, NULL, false,
     "certificates of the CAs, PEM, that sign the clients' certificates"},
    {"tls-crl", PATH, FIELD(tls_crl), 0, RD_MAX_FILE - 1, 0, NULL, false,
     "revocation lists of these CAs, PEM. A certificate that one of them names is refused; a list that has expired refuses "
     "all"},
    {"tls-clients", CHOICE, FIELD(tls_clients), 0, 1, 0, "known|any", false,
     "known: a client must present a certificate signed by tls-ca; any: anyone who reaches the port may use the device"},
    {"metrics-url", HTTP, FIELD(metrics_url), 0, RD_MAX_URL - 1, 0, NULL, false,
     "http://ADDRESS:PORT, such as http://127.0.0.1:9464: serve a live page for browsers there, and the metrics as Prometheus "
     "text, at "
     "/metrics. Anyone who reaches it can read them, including every user of this machine. Default: off; `reducectl metrics` "
     "works without it"},
    {"allow-remote-metrics", CHOICE, FIELD(allow_remote_metrics), 0, 1, 0, "no|yes", false,
     "allow an address in metrics-url that other machines can reach"},
    {"trace", PATH, FIELD(trace), 0, RD_MAX_FILE - 1, 0, NULL, false,
     "write every answered request with its times to this file, for chrome://tracing or Perfetto. If the disk is too slow, "
     "records are dropped and counted"},
    {"trace-size", NUMBER, FIELD(trace_size), 1, 65536, 256, NULL, false,
     "maximum size of the trace in MiB; tracing stops there"},
    {"backend", CHOICE, FIELD(backend), 0, 3, 0, "auto|cpu|cuda|hybrid", false,
     "engine; auto uses CUDA if a device answers, else the CPU. hybrid uses both for large data of the host, "
     "by measured rates; results have the same bits"},
    {"devices", DEVICES, FIELD(devices), 0, RD_MAX_FILE - 1, 0, NULL, false,
     "CUDA devices: `all` (the default), or their numbers and UUIDs, separated by commas: 0,1 or GPU-2c7b8d4e,GPU-51c09af3. "
     "The "
     "start of a UUID is enough. A device that cannot be opened is left out. Of the CPU: how many engines, for tests"},
    {"threads", NUMBER, FIELD(threads), 0, 1024, 0, NULL, false, "CPU workers; 0 = one per available core"},
    {"small-bytes", NUMBER, FIELD(small_bytes), 0, RP_MAX_DATA, 65536, NULL, false,
     "requests up to this many bytes are reduced on the CPU at once, which takes less time than a launch; 0 = never"},
    {"batch-bytes", NUMBER, FIELD(batch_bytes), 0, RK_MAX_BATCH_BYTES, RK_MAX_BATCH_BYTES, NULL, false,
     "requests above small-bytes and up to this many bytes share a launch if they arrive while the device is busy; 0 = "
     "never"},
    {"slots", NUMBER, FIELD(slots), 1, 64, 8, NULL, false, "CUDA staging slots, each with its own stream and memory"},
    {"max-device-memory", NUMBER, FIELD(max_device_memory), 0, 1 << 24, 0, NULL, false,
     "maximum MiB of each CUDA device's memory for slots and resident data together, so that other programs have memory too; "
     "the driver's own memory is not counted. 0 = as much as `slots` and `resident` allow"},
    {"contexts", NUMBER, FIELD(contexts), 8, 4096, 256, NULL, false,
     "requests of all clients that are received, processed or answered at the same time"},
    {"max-sessions", NUMBER, FIELD(max_sessions), 1, 65536, RP_MAX_SESSIONS, NULL, true, "connected sessions"},
    {"max-inflight", NUMBER, FIELD(max_inflight), 1, 4096, RP_MAX_INFLIGHT, NULL, true,
     "unanswered requests of one session; the next one gets BUSY"},
    {"max-held", NUMBER, FIELD(max_held), 0, 1 << 20, 0, NULL, true,
     "MiB of messages of one session held in the daemon; above this the next one gets BUSY. 0 = the size of max-inflight "
     "messages"},
    {"max-user-sessions", NUMBER, FIELD(max_user_sessions), 0, 65536, 0, NULL, true,
     "connected sessions of one user; 0 = seven eighths of max-sessions"},
    {"max-user-inflight", NUMBER, FIELD(max_user_inflight), 0, 4096, 0, NULL, true,
     "unanswered requests of all sessions of one user; the next one gets BUSY. 0 = three quarters of `contexts`"},
    {"max-user-held", NUMBER, FIELD(max_user_held), 0, 1 << 20, 0, NULL, true,
     "MiB of messages of one user held in the daemon; 0 = the size of max-user-inflight messages"},
    {"high-uid", ACCOUNTS, FIELD(high_users), 0, RD_MAX_IDS, 0, NULL, false,
     "user, by name or number, whose sessions get high priority if they ask for it. Repeat it for more. Root and the "
     "daemon's own user always may"},
    {"background-uid", ACCOUNTS, FIELD(background_users), 0, RD_MAX_IDS, 0, NULL, false,
     "user whose sessions have background priority, whatever they ask for. Repeat it for more"},
    {"max-streams", NUMBER, FIELD(max_streams), 1, 1024, RP_MAX_STREAMS, NULL, true,
     "open streams of one session; the next one gets QUOTA"},
    {"drain", NUMBER, FIELD(drain), 0, 3600, 10, NULL, true,
     "seconds that work in flight has to finish after SIGTERM, before it is cancelled"},
    {"idle-exit", NUMBER, FIELD(idle_exit), 0, 604800, 0, NULL, true,
     "exit after this many seconds without a session; 0 = never. Default of a daemon that a client started: 600"},
    {"probe", NUMBER, FIELD(probe), 1, 86400, 30, NULL, true,
     "seconds between health checks: a real reduction with a known answer"},
    {"log-level", CHOICE, FIELD(log_level), 0, 3, RD_LOG_INFO, "error|warn|info|debug", true, "what to log on stderr"},
    {"socket-mode", OCTAL, FIELD(socket_mode), 0600, 0777, 0660, NULL, false, "permissions of ipc sockets"},
    {"socket-group", GROUP, FIELD(socket_group), 0, 1, 0, NULL, false,
     "group of ipc sockets, by name or number; default: the daemon's. The owner is always the daemon's user, which clients "
     "check"},
    {"sandbox", CHOICE, FIELD(no_sandbox), 0, 1, 0, "yes|no", false,
     "once the device is open, give up calls and the writing to files that the daemon does not need (seccomp, Landlock)"},
    {"readers", NUMBER, FIELD(readers), 0, RD_MAX_READERS, 0, NULL, false,
     "threads that read clients' files, and with the CPU engine reduce most of what they read, with two buffers of 4 MiB each; "
     "0 = half the number of cores, 7/8 of them with the CPU engine or several devices, but 4 to 16, of those 16 for each. One "
     "user gets at most three quarters of them"},
    {"files-from", CHOICE, FIELD(files_from), 0, 2, 0, "local|network|any", false,
     "file systems whose files the daemon reads for clients. local: disks and memory; network: NFS and the like, too, whose "
     "servers may keep readers waiting; any: FUSE and unknown ones, too, where a user may. Clients read the others themselves"},
    {"direct", NUMBER, FIELD(direct), 0, 1 << 24, 0, NULL, false,
     "files of at least this many MiB are read with O_DIRECT where they are not in the page cache; 0 = half of the machine's "
     "memory"},
    {"arena", NUMBER, FIELD(arena), 0, 1 << 24, 0, NULL, false,
     "MiB of memory shared with all clients together; 0 = a quarter of the machine's memory"},
    {"arena-user", NUMBER, FIELD(arena_user), 0, 1 << 24, 0, NULL, false,
     "MiB of memory shared with the clients of one user; 0 = half of `arena`"},
    {"resident", NUMBER, FIELD(resident), 0, 1 << 24, 0, NULL, false,
     "MiB for the resident data of all users together, in the device's memory if there is a device; 0 = half of that "
     "memory"},
    {"resident-user", NUMBER, FIELD(resident_user), 0, 1 << 24, 0, NULL, false,
     "MiB for the resident data of one user; 0 = half of `resident`"},
    {"resident-keep", CHOICE, FIELD(no_resident_keep), 0, 1, 0, "yes|no", false,
     "resident data stay when the daemon is restarted, if systemd keeps descriptors for it. Of data on a device this takes a "
     "copy in the machine's memory, of which all copies get a quarter"},
};
enum { OPTIONS = sizeof options / sizeof options[0] };

_Static_assert(RP_BACKEND_CPU == 1 && RP_BACKEND_CUDA == 2 && RD_BACKEND_HYBRID == 3,
               "the choices of `backend` are in the order of the codes");

static uint64_t *number_of(rd_config *c, const option *o) { return (uint64_t *)((char *)c + o->at); }
static uint64_t value_of(const rd_config *c, const option *o) { return *(const uint64_t *)((const char *)c + o->at); }
static rd_ids *accounts_of(const rd_config *c, const option *o) { return (rd_ids *)((char *)c + o->at); }
static const char *text_of(const rd_config *c, const option *o) { return (const char *)c + o->at; }

static bool is_number(const option *o) { return o->kind == NUMBER || o->kind == CHOICE || o->kind == OCTAL; }
static const rd_ids *ids_of(const rd_allow *a, const option *o) { return o->kind == USERS ? &a->users : &a->groups; }

void rd_config_defaults(rd_config *c)
{
    memset(c, 0, sizeof *c);
    for (int i = 0; i < OPTIONS; i++)
        if (is_number(&options[i]))
            *number_of(c, &options[i]) = options[i].preset;
    strcpy(c->devices, "all");
}

static const option *find(const char *name)
{
    if (strcmp(name, "device") == 0) /* the option's name up to version 0.2, which had a single device */
        name = "devices";
    for (int i = 0; i < OPTIONS; i++)
        if (strcmp(options[i].name, name) == 0)
            return &options[i];
    return NULL;
}

/* ---- values ---- */
static bool set_number(rd_config *c, const option *o, const char *value, char *why)
{
    bool octal = o->kind == OCTAL;
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
    *number_of(c, o) = v;
    return true;
}

/* The name at place i of "a|b|c"; its length in *n. NULL past the end. */
static const char *choice_at(const char *choices, uint64_t i, size_t *n)
{
    for (; i; i--) {
        choices = strchr(choices, '|');
        if (!choices)
            return NULL;
        choices++;
    }
    *n = strcspn(choices, "|");
    return choices;
}

static bool set_choice(rd_config *c, const option *o, const char *value, char *why)
{
    size_t n;
    const char *name;
    for (uint64_t i = 0; (name = choice_at(o->choices, i, &n)); i++)
        if (strlen(value) == n && memcmp(name, value, n) == 0) {
            *number_of(c, o) = i;
            return true;
        }
    snprintf(why, RD_MAX_WHY, "%s = %.60s: must be one of %s", o->name, value, o->choices);
    return false;
}

/* sun_path of a unix socket holds 108 bytes, the terminator included */
enum { MAX_IPC_PATH = 107 };

static bool add_url(rd_config *c, const char *url, char *why)
{
    const char *path = rd_ipc_path(url), *problem = NULL;
    if (!path && !rd_is_plain_tcp(url) && !rd_is_tls(url))
        problem = "a URL must start with ipc://, tls+tcp:// or tcp://";
    else if (path && (path[0] != '/' || !path[1]))
        problem = "an ipc URL needs an absolute path: ipc:///run/x.sock";
    else if (path && strlen(path) > MAX_IPC_PATH)
        problem = "the path of a socket has at most 107 bytes";
    else if (strlen(url) >= RD_MAX_URL)
        problem = "a URL has at most 159 bytes";
    else if (c->listens == RD_MAX_LISTEN)
        problem = "at most 8 URLs are allowed";
    for (uint64_t i = 0; i < c->listens && path && !problem; i++) /* tcp with port 0 may be listed twice */
        if (strcmp(c->listen[i], url) == 0)
            problem = "it is listed twice";
    if (problem) {
        snprintf(why, RD_MAX_WHY, "listen = %.120s: %s", url, problem);
        return false;
    }
    c->last = ++c->listens;
    strcpy(c->listen[c->last - 1], url);
    return true;
}

static bool add_id(const option *o, rd_ids *ids, const char *value, char *why)
{
    bool group = o->kind == GROUP || o->kind == GROUPS;
    const char *problem = rd_ids_add(ids, group ? RD_GROUP_ID : RD_USER_ID, value);
    if (problem)
        snprintf(why, RD_MAX_WHY, "%s = %.60s: %s", o->name, value, problem);
    return !problem;
}

static bool add_name(const option *o, rd_names *names, const char *value, char *why)
{
    const char *problem = rd_names_add(names, value);
    if (problem)
        snprintf(why, RD_MAX_WHY, "%s = %.80s: %s", o->name, value, problem);
    return !problem;
}

static bool set_path(rd_config *c, const option *o, const char *value, char *why)
{
    size_t n = strlen(value);
    if (value[0] == '/' && n <= o->max) {
        memcpy((char *)c + o->at, value, n + 1);
        return true;
    }
    snprintf(why, RD_MAX_WHY, "%s = %.60s: must be an absolute path of at most %" PRIu64 " bytes", o->name, value, o->max);
    return false;
}

static bool set_http(rd_config *c, const option *o, const char *value, char *why)
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

static bool set_devices(rd_config *c, const option *o, const char *value, char *why)
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
    const option *o = find(name);
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
    case URLS:
        return add_url(c, value, why);
    case USERS:
        return add_id(o, &c->allow[c->last].users, value, why);
    case GROUPS:
        return add_id(o, &c->allow[c->last].groups, value, why);
    case NAMES:
        return add_name(o, &c->allow[c->last].names, value, why);
    case GROUP:
        c->socket_group.n = 0; /* a later group replaces an earlier one */
        return add_id(o, &c->socket_group, value, why);
    case ACCOUNTS:
        return add_id(o, accounts_of(c, o), value, why);
    case PATH:
        return set_path(c, o, value, why);
    case HTTP:
        return set_http(c, o, value, why);
    case DEVICES:
        return set_devices(c, o, value, why);
    case CHOICE:
        return set_choice(c, o, value, why);
    default:
        return set_number(c, o, value, why);
    }
}

/* ---- file ---- */
typedef struct {
    FILE *file;
    rd_config *config;
    const char *path;
    int line;
    bool failed;
    char *why;
} source;

static void fail_at(source *s, const char *problem)
{
    snprintf(s->why, RD_MAX_WHY, "%.120s:%d: %.180s", s->path, s->line, problem);
    s->failed = true;
}

/* inih knows trailing comments only with ';'. */
static void cut_comment(char *line)
{
    for (char *p = line; (p = strchr(p, '#')); p++)
        if (p > line && is_space(p[-1])) {
            strcpy(p, "\n");
            return;
        }
}

/* inih takes an indented line for more of the value above it. */
static void cut_indent(char *line)
{
    size_t n = 0;
    while (is_space(line[n]))
        n++;
    memmove(line, line + n, strlen(line + n) + 1);
}

/* fgets for inih that counts lines, stops at the first error and refuses what inih would cut silently. */
static char *next_line(char *out, int cap, void *arg)
{
    source *s = arg;
    if (s->failed || !fgets(out, cap, s->file))
        return NULL;
    s->line++;
    if (strchr(out, '\n') || feof(s->file)) {
        cut_comment(out);
        cut_indent(out);
        return out;
    }
    fail_at(s, strlen(out) < (size_t)cap - 1 ? "the line has a zero byte" : "the line is too long");
    return NULL;
}

static int on_entry(void *arg, const char *section, const char *name, const char *value)
{
    source *s = arg;
    char problem[RD_MAX_WHY];
    if (section[0] && strcmp(section, "reduced") != 0)
        snprintf(problem, sizeof problem, "unknown section [%.60s]: use [reduced] or none", section);
    else if (rd_config_set(s->config, name, value, problem))
        return 1;
    fail_at(s, problem);
    return 0;
}

bool rd_config_read(rd_config *c, const char *path, char why[RD_MAX_WHY])
{
    source s = {.file = fopen(path, "re"), .config = c, .path = path, .why = why};
    if (!s.file) {
        snprintf(why, RD_MAX_WHY, "%.120s: %s", path, strerror(errno));
        return false;
    }
    int wrong = ini_parse_stream(next_line, &s, on_entry, &s);
    if (!s.failed && ferror(s.file)) {
        snprintf(why, RD_MAX_WHY, "%.120s: cannot be read: %s", path, strerror(errno));
        s.failed = true;
    }
    if (!s.failed && wrong) {
        s.line = wrong;
        fail_at(&s, "'name = value' is expected");
    }
    fclose(s.file);
    return !s.failed;
}

/* ---- flags ---- */
static bool set_switch(rd_command *cmd, const char *name)
{
    const struct {
        const char *name;
        bool *flag;
    } switches[] = {{"check-config", &cmd->check},
                    {"dump-config", &cmd->dump},
                    {"autostarted", &cmd->autostarted},
                    {"version", &cmd->version},
                    {"help", &cmd->help}};
    for (size_t i = 0; i < sizeof switches / sizeof switches[0]; i++)
        if (strcmp(name, switches[i].name) == 0)
            return *switches[i].flag = true;
    return false;
}

static bool set_flag(rd_config *c, rd_command *cmd, const char *name, const char *value, bool *listening, char *why)
{
    if (strcmp(name, "config") == 0) {
        if (strlen(value) < RD_MAX_PATH) {
            strcpy(cmd->config_file, value);
            return true;
        }
        snprintf(why, RD_MAX_WHY, "--config: the path is longer than %d bytes", RD_MAX_PATH - 1);
        return false;
    }
    if (strcmp(name, "listen") == 0 && !*listening) {
        c->listens = 0;
        memset(c->allow + 1, 0, sizeof c->allow - sizeof c->allow[0]);
        *listening = true;
    }
    char problem[RD_MAX_WHY];
    if (rd_config_set(c, name, value, problem))
        return true;
    snprintf(why, RD_MAX_WHY, "--%.*s", RD_MAX_WHY - 3, problem);
    return false;
}

bool rd_config_flags(rd_config *c, rd_command *cmd, int argc, char **argv, char why[RD_MAX_WHY])
{
    bool listening = false;
    c->last = 0;
    for (int i = 1; i < argc; i++) {
        char name[32];
        const char *arg = argv[i];
        if (strcmp(arg, "-h") == 0)
            arg = "--help";
        size_t n = strcspn(arg, "=");
        if (strncmp(arg, "--", 2) != 0 || n - 2 >= sizeof name) {
            snprintf(why, RD_MAX_WHY, "'%.60s' is not an option; reduced --help lists them", arg);
            return false;
        }
        memcpy(name, arg + 2, n - 2);
        name[n - 2] = '\0';
        if (!arg[n] && set_switch(cmd, name))
            continue;
        bool known = find(name) || strcmp(name, "config") == 0;
        const char *value = arg[n] ? arg + n + 1 : known && i + 1 < argc ? argv[++i] : NULL;
        if (!known || !value) {
            snprintf(why, RD_MAX_WHY, known ? "--%.60s needs a value" : "unknown option '--%.60s'; reduced --help lists them",
                     name);
            return false;
        }
        if (!set_flag(c, cmd, name, value, &listening, why))
            return false;
    }
    return true;
}

/* Options that together decide which peers of the network are admitted. */
static bool consistent(const rd_config *c, char *why)
{
    for (uint64_t i = 0; i < c->listens; i++) {
        const char *url = c->listen[i], *problem = NULL;
        const rd_allow *own = &c->allow[i + 1];
        bool tls = rd_is_tls(url), names = own->names.n || (tls && c->allow[0].names.n);
        if (rd_is_plain_tcp(url) && !c->allow_plain_tcp)
            problem = "plain tcp has no encryption and no authentication: use tls+tcp://, or set allow-plain-tcp = yes";
        else if (tls && !(c->tls_cert[0] && c->tls_key[0]))
            problem = "tls needs tls-cert and tls-key";
        else if (tls && !c->tls_ca[0] && !c->tls_clients)
            problem = "tls needs tls-ca, the CAs that sign the clients' certificates";
        else if (tls && c->tls_crl[0] && (!c->tls_ca[0] || c->tls_clients))
            problem = "tls-crl needs tls-ca, and tls-clients = known: without them no certificate is asked for";
        else if (!rd_ipc_path(url) && own->users.n + own->groups.n)
            problem = "allow-uid and allow-gid are for ipc sockets";
        else if (names && (!tls || c->tls_clients))
            problem = "allow-name is for tls+tcp://, with tls-clients = known: elsewhere no certificate is asked for";
        if (problem) {
            snprintf(why, RD_MAX_WHY, "listen = %.120s: %s", url, problem);
            return false;
        }
    }
    return true;
}

/* The same for the options of the metrics. */
static bool metrics_stay_here(const rd_config *c, char *why)
{
    bool loopback = true;
    rd_is_http(c->metrics_url, &loopback);
    if (loopback || c->allow_remote_metrics)
        return true;
    snprintf(why, RD_MAX_WHY,
             "metrics-url = %.120s: other machines may reach this: use 127.0.0.1 or [::1], or set "
             "allow-remote-metrics = yes",
             c->metrics_url);
    return false;
}

bool rd_config_load(rd_config *c, rd_command *cmd, int argc, char **argv, char why[RD_MAX_WHY])
{
    char path[RD_MAX_PATH];
    rd_config_defaults(c);
    memset(cmd, 0, sizeof *cmd);
    if (!rd_config_flags(c, cmd, argc, argv, why)) /* first pass: finds --config; the second one below overrides the file */
        return false;
    rd_config_defaults(c);
    if (cmd->autostarted)
        c->idle_exit = AUTOSTARTED_IDLE_S;
    if (cmd->config_file[0]) {
        if (!rd_config_read(c, cmd->config_file, why))
            return false;
    } else if (rd_default_config(path, sizeof path) && access(path, F_OK) == 0 && !rd_config_read(c, path, why)) {
        return false;
    }
    if (!rd_config_flags(c, cmd, argc, argv, why) || !metrics_stay_here(c, why))
        return false;
    if (c->listens)
        return consistent(c, why);
    char url[RD_MAX_URL];
    if (rd_default_url(url, sizeof url))
        return add_url(c, url, why);
    snprintf(why, RD_MAX_WHY, "XDG_RUNTIME_DIR is too long for a socket");
    return false;
}

/* ---- reload ---- */
static bool same_urls(const rd_config *a, const rd_config *b)
{
    for (uint64_t i = 0; i < a->listens && i < b->listens; i++)
        if (strcmp(a->listen[i], b->listen[i]) != 0)
            return false;
    return a->listens == b->listens;
}

static bool same_lists(const rd_config *a, const rd_config *b, const option *o)
{
    for (uint64_t i = 0; i <= RD_MAX_LISTEN; i++)
        if (memcmp(ids_of(&a->allow[i], o), ids_of(&b->allow[i], o), sizeof(rd_ids)) != 0)
            return false;
    return true;
}

static bool same_names(const rd_config *a, const rd_config *b)
{
    for (uint64_t i = 0; i <= RD_MAX_LISTEN; i++)
        if (memcmp(&a->allow[i].names, &b->allow[i].names, sizeof(rd_names)) != 0)
            return false;
    return true;
}

static bool same(const rd_config *a, const rd_config *b, const option *o)
{
    switch (o->kind) {
    case URLS:
        return same_urls(a, b);
    case USERS:
    case GROUPS:
        return same_lists(a, b, o);
    case NAMES:
        return same_names(a, b);
    case GROUP:
    case ACCOUNTS:
        return memcmp(accounts_of(a, o), accounts_of(b, o), sizeof(rd_ids)) == 0;
    case PATH:
    case HTTP:
    case DEVICES:
        return strcmp(text_of(a, o), text_of(b, o)) == 0;
    default:
        return value_of(a, o) == value_of(b, o);
    }
}

unsigned rd_config_reload(rd_config *now, const rd_config *fresh, char *names, size_t cap)
{
    unsigned stuck = 0;
    size_t used = 0;
    names[0] = '\0';
    for (int i = 0; i < OPTIONS; i++) {
        const option *o = &options[i];
        if (o->live) {
            *number_of(now, o) = value_of(fresh, o);
        } else if (!same(now, fresh, o)) {
            int n = snprintf(names + used, cap - used, "%s%s", stuck++ ? " " : "", o->name);
            used = used + (size_t)n < cap ? used + (size_t)n : cap - 1;
        }
    }
    return stuck;
}

/* ---- texts ---- */
static void put_value(const option *o, uint64_t v, FILE *out)
{
    size_t n = 0;
    const char *name = o->kind == CHOICE ? choice_at(o->choices, v, &n) : NULL;
    if (name)
        fprintf(out, "%.*s", (int)n, name);
    else
        fprintf(out, o->kind == OCTAL ? "0%" PRIo64 : "%" PRIu64, v);
}

static void put_wrapped(const char *text, FILE *out)
{
    enum { WIDTH = 70 };
    while (*text) {
        size_t n = strlen(text);
        if (n > WIDTH)
            for (n = WIDTH; n > 1 && text[n] != ' '; n--)
                ;
        fprintf(out, "        %.*s\n", (int)n, text);
        text += n + (text[n] == ' ');
    }
}

static void help_option(const option *o, FILE *out)
{
    if (!is_number(o)) {
        static const char *const values[] = {
            [URLS] = "URL",      [USERS] = "USER", [GROUPS] = "GROUP", [NAMES] = "NAME",  [GROUP] = "GROUP",
            [ACCOUNTS] = "USER", [PATH] = "FILE",  [HTTP] = "URL",     [DEVICES] = "LIST"};
        fprintf(out, "  --%s %s\n", o->name, values[o->kind]);
    } else {
        fprintf(out, "  --%s %s    (default ", o->name, o->kind == CHOICE ? o->choices : o->kind == OCTAL ? "MODE" : "N");
        put_value(o, o->preset, out);
        if (o->kind == NUMBER)
            fprintf(out, "; %" PRIu64 " to %" PRIu64, o->min, o->max);
        fputs(o->live ? "; SIGHUP rereads it)\n" : ")\n", out);
    }
    put_wrapped(o->help, out);
}

void rd_config_help(FILE *out)
{
    char url[RD_MAX_URL] = "?", file[RD_MAX_PATH] = "?";
    rd_default_url(url, sizeof url);
    rd_default_config(file, sizeof file);
    fprintf(out,
            "usage: reduced [options]\n\n"
            "The daemon that owns the GPU (or the CPU cores) of a machine and reduces arrays for every process on it.\n"
            "Clients link libreduce or run reducectl. They find the daemon by themselves.\n\n"
            "  reduced                                          serve %s\n"
            "  reduced --listen ipc:///tmp/try.sock --backend cpu   serve elsewhere, without the GPU\n"
            "  reduced --check-config --config my.conf          check this file\n"
            "  reduced --dump-config > my.conf                  a file to start from\n"
            "  REDUCED_URL=ipc:///tmp/try.sock reducectl status     show its state\n\n"
            "options (the config file has the same names: name = value, # comments):\n",
            url);
    for (int i = 0; i < OPTIONS; i++)
        help_option(&options[i], out);
    fprintf(
        out,
        "\nflags only:\n"
        "  --config FILE     read this file instead of %s\n"
        "  --check-config    check file and flags, and exit (0 right, 2 wrong)\n"
        "  --dump-config     print the settings in force as a config file, and exit\n"
        "  --autostarted     started by a client: exit with 0 if another daemon already serves the socket, and after 600 idle\n"
        "                    seconds unless idle-exit is set\n"
        "  --version, --help\n\n"
        "signals: TERM, INT finish the work in flight and exit (again: exit now); HUP rereads the config file\n"
        "exit codes: 0 stopped on request, 1 cannot start, 2 usage or config, 70 the device failed: restart\n",
        file);
}

static void dump_ids(const option *o, const rd_ids *ids, FILE *out)
{
    for (uint32_t i = 0; i < ids->n; i++)
        fprintf(out, "%s = %" PRIu32 "\n", o->name, ids->id[i]);
}

static void dump_allow(const rd_allow *a, FILE *out)
{
    dump_ids(find("allow-uid"), &a->users, out);
    dump_ids(find("allow-gid"), &a->groups, out);
    for (uint32_t i = 0; i < a->names.n; i++)
        fprintf(out, "allow-name = %s\n", a->names.name[i]);
}

/* Each URL with the lists that belong to it. */
static void dump_urls(const rd_config *c, FILE *out)
{
    dump_allow(&c->allow[0], out);
    for (uint64_t i = 0; i < c->listens; i++) {
        fprintf(out, "listen = %s\n", c->listen[i]);
        dump_allow(&c->allow[i + 1], out);
    }
}

void rd_config_dump(const rd_config *c, FILE *out)
{
    for (int i = 0; i < OPTIONS; i++) {
        const option *o = &options[i];
        if (o->kind == URLS) {
            dump_urls(c, out);
        } else if (o->kind == GROUP || o->kind == ACCOUNTS) {
            dump_ids(o, accounts_of(c, o), out);
        } else if ((o->kind == PATH || o->kind == HTTP || o->kind == DEVICES) && text_of(c, o)[0]) {
            fprintf(out, "%s = %s\n", o->name, text_of(c, o));
        } else if (is_number(o)) {
            fprintf(out, "%s = ", o->name);
            put_value(o, value_of(c, o), out);
            fputc('\n', out);
        }
    }
}
