#include "daemon/base/config.h"

#include <ctype.h>
#include <errno.h>
#include <ini.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/config_options.h"
#include "daemon/base/paths.h"

/* ---- file ---- */
typedef struct {
    FILE *file;
    rd_config *config;
    const char *path;
    int line;
    unsigned problems;
    rd_problem_fn *tell; /* NULL: reading stops at the first problem */
    char *why;           /* the first problem */
} source;

enum { MOST_PROBLEMS = 20 }; /* of a file that is something else */

static void fail(source *s, const char *problem)
{
    if (s->problems++ == 0)
        snprintf(s->why, RD_MAX_WHY, "%s", problem);
    if (s->tell)
        s->tell(problem);
}

static void fail_at(source *s, const char *problem)
{
    char text[RD_MAX_WHY];
    snprintf(text, sizeof text, "%.120s:%d: %.180s", s->path, s->line, problem);
    fail(s, text);
}

static bool is_over(const source *s) { return s->problems >= (s->tell ? MOST_PROBLEMS : 1); }

/* inih knows trailing comments only with ';'. */
static void cut_comment(char *line)
{
    for (char *p = line; (p = strchr(p, '#')); p++)
        if (p > line && isspace((unsigned char)p[-1])) {
            strcpy(p, "\n");
            return;
        }
}

/* inih would take an indented line as a continuation of the value above it. */
static void cut_indent(char *line)
{
    size_t n = 0;
    while (isspace((unsigned char)line[n]))
        n++;
    memmove(line, line + n, strlen(line + n) + 1);
}

/* inih would name only the first of these lines. */
static bool is_entry(const char *line)
{
    if (line[0] == '[')
        return strchr(line, ']');
    return line[0] == '\0' || strchr(";#", line[0]) || strpbrk(line, "=:");
}

static void skip_line(FILE *f)
{
    for (int c = ' '; c != '\n' && c != EOF; c = getc(f))
        ;
}

/* What inih gets instead of a line with a problem. */
static char *empty_line(char *out) { return strcpy(out, "\n"); }

/* fgets for inih that counts lines, and refuses what inih would cut silently. */
static char *next_line(char *out, int cap, void *arg)
{
    source *s = arg;
    memset(out, ' ', (size_t)cap);
    if (is_over(s) || !fgets(out, cap, s->file))
        return NULL;
    s->line++;
    const char *end = memrchr(out, 0, (size_t)cap); /* that of fgets: any before it are the file's */
    const bool whole = feof(s->file) || (end > out && end[-1] == '\n'), zero = strlen(out) < (size_t)(end - out);
    if (zero || !whole) {
        fail_at(s, zero ? "the line has a zero byte" : "the line is too long");
        if (!whole)
            skip_line(s->file);
        return empty_line(out);
    }
    cut_comment(out);
    cut_indent(out);
    if (is_entry(out))
        return out;
    fail_at(s, "'name = value' is expected");
    return empty_line(out);
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

static void fail_file(source *s, const char *what)
{
    char text[RD_MAX_WHY];
    snprintf(text, sizeof text, "%.120s: %s%s", s->path, what, strerror(errno));
    fail(s, text);
}

bool rd_config_read(rd_config *c, const char *path, rd_problem_fn *tell, char why[RD_MAX_WHY])
{
    source s = {.file = fopen(path, "re"), .config = c, .path = path, .tell = tell, .why = why};
    if (!s.file) {
        fail_file(&s, "");
        return false;
    }
    const int wrong = ini_parse_stream(next_line, &s, on_entry, &s);
    if (ferror(s.file) && !is_over(&s))
        fail_file(&s, "cannot be read: ");
    if (wrong && !s.problems) { /* a section without its bracket */
        s.line = wrong;
        fail_at(&s, "'name = value' is expected");
    }
    fclose(s.file);
    return !s.problems;
}

/* ---- flags ---- */
static bool set_switch(rd_command *cmd, const char *name)
{
    const struct {
        const char *name;
        bool *flag;
    } switches[] = {{"check-config", &cmd->check},      {"self-test", &cmd->self_test}, {"dump-config", &cmd->dump},
                    {"autostarted", &cmd->autostarted}, {"version", &cmd->version},     {"help", &cmd->help}};
    for (size_t i = 0; i < sizeof switches / sizeof switches[0]; i++)
        if (strcmp(name, switches[i].name) == 0)
            return *switches[i].flag = true;
    return false;
}

/* An empty value, as of a variable that is not set, would mean the default. */
static bool set_text(char *out, size_t cap, const char *name, const char *value, char *why)
{
    const size_t n = strlen(value);
    if (n && n < cap) {
        memcpy(out, value, n + 1);
        return true;
    }
    snprintf(why, RD_MAX_WHY, "--%s needs a value of 1 to %zu bytes", name, cap - 1);
    return false;
}

/* The first flag of a list replaces the list of the file. Otherwise the file's users would still be served beside those that
 * the flags name. The first --listen replaces the file's URLs, with their lists. */
static void drop_list_of_file(rd_config *c, const rd_option *o, bool seen[RD_OPTIONS])
{
    rd_allow *allow = &c->allow[c->last];
    if (seen[o - rd_options])
        return;
    seen[o - rd_options] = true;
    if (o->kind == RD_OPTION_URLS) {
        c->listens = 0;
        memset(c->allow + 1, 0, sizeof c->allow - sizeof c->allow[0]);
    } else if (o->kind == RD_OPTION_USERS) {
        allow->users = (rd_ids){0};
    } else if (o->kind == RD_OPTION_GROUPS) {
        allow->groups = (rd_ids){0};
    } else if (o->kind == RD_OPTION_NAMES) {
        allow->names.n = 0;
    } else if (o->kind == RD_OPTION_ACCOUNTS) {
        *rd_option_ids(c, o) = (rd_ids){0}; /* a reload compares all of it */
    }
}

static bool set_flag(rd_config *c, rd_command *cmd, const char *name, const char *value, bool seen[RD_OPTIONS], char *why)
{
    if (strcmp(name, "config") == 0)
        return set_text(cmd->config_file, sizeof cmd->config_file, name, value, why);
    if (strcmp(name, "user") == 0)
        return set_text(cmd->user, sizeof cmd->user, name, value, why);
    const rd_option *o = rd_option_find(name);
    if (o)
        drop_list_of_file(c, o, seen);
    char problem[RD_MAX_WHY];
    if (rd_config_set(c, name, value, problem))
        return true;
    snprintf(why, RD_MAX_WHY, "--%.*s", RD_MAX_WHY - 3, problem);
    return false;
}

/* A start does not change its user. With this flag root would get a daemon of root. */
static bool user_is_for_check(const rd_command *cmd, char *why)
{
    if (!cmd->user[0] || cmd->check)
        return true;
    snprintf(why, RD_MAX_WHY, "--user is of --check-config: the daemon runs as the user that starts it");
    return false;
}

/* Read flags over *c and into *cmd. */
static bool read_flags(rd_config *c, rd_command *cmd, int argc, char **argv, char why[RD_MAX_WHY])
{
    bool seen[RD_OPTIONS] = {false};
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
        if (set_switch(cmd, name)) {
            if (!arg[n])
                continue;
            snprintf(why, RD_MAX_WHY, "--%s takes no value", name);
            return false;
        }
        const bool known = rd_option_find(name) || rd_option_removed(name) || !strcmp(name, "config") || !strcmp(name, "user");
        const char *value = arg[n] ? arg + n + 1 : known && i + 1 < argc ? argv[++i] : NULL;
        if (!known || !value) {
            snprintf(why, RD_MAX_WHY, known ? "--%.60s needs a value" : "unknown option '--%.60s'; reduced --help lists them",
                     name);
            return false;
        }
        if (!set_flag(c, cmd, name, value, seen, why))
            return false;
    }
    return true;
}

static bool report(rd_problem_fn *tell, const char *why)
{
    if (tell)
        tell(why);
    return false;
}

/* Options that together decide which peers of the network are admitted. */
static bool consistent(const rd_config *c, rd_problem_fn *tell, char *why)
{
    bool right = true;
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
            right = report(tell, why);
        }
    }
    return right;
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

/* The config file, if there is one. */
static bool read_file(rd_config *c, const rd_command *cmd, rd_problem_fn *tell, char *why)
{
    char path[RD_MAX_PATH];
    if (cmd->config_file[0])
        return rd_config_read(c, cmd->config_file, tell, why);
    return !rd_default_config(path, sizeof path) || access(path, F_OK) != 0 || rd_config_read(c, path, tell, why);
}

bool rd_config_load(rd_config *c, rd_command *cmd, int argc, char **argv, rd_problem_fn *tell, char why[RD_MAX_WHY])
{
    rd_config_defaults(c);
    memset(cmd, 0, sizeof *cmd);
    /* The first pass finds --config; the second one below overrides the file. */
    if (!read_flags(c, cmd, argc, argv, why) || !user_is_for_check(cmd, why))
        return report(tell, why);
    rd_config_defaults(c);
    if (cmd->autostarted)
        c->idle_exit = RD_AUTOSTARTED_IDLE_S;
    if (!read_file(c, cmd, tell, why))
        return false;
    if (!read_flags(c, cmd, argc, argv, why))
        return report(tell, why);
    const bool local_metrics = metrics_stay_here(c, why) || report(tell, why);
    if (c->listens)
        return consistent(c, tell, why) && local_metrics;
    if (!local_metrics)
        return false;
    char url[RD_MAX_URL];
    if (rd_default_url(url, sizeof url))
        return rd_config_set(c, "listen", url, why);
    snprintf(why, RD_MAX_WHY, "XDG_RUNTIME_DIR is too long for a socket");
    return report(tell, why);
}
