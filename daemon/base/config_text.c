/* What --help and --dump-config print. */
#include <inttypes.h>
#include <string.h>

#include "daemon/base/config_options.h"
#include "daemon/base/paths.h"

static void put_value(const rd_option *o, uint64_t v, FILE *out)
{
    size_t n = 0;
    const char *name = o->kind == RD_OPTION_CHOICE ? rd_option_choice(o->choices, v, &n) : NULL;
    if (name)
        fprintf(out, "%.*s", (int)n, name);
    else
        fprintf(out, o->kind == RD_OPTION_OCTAL ? "0%" PRIo64 : "%" PRIu64, v);
}

void rd_option_print(const rd_config *c, const rd_option *o, char *out, size_t cap)
{
    if (!rd_option_is_number(o)) {
        snprintf(out, cap, "%s", rd_option_text(c, o));
        return;
    }
    FILE *f = fmemopen(out, cap, "w");
    out[0] = '\0';
    if (!f)
        return;
    put_value(o, rd_option_value(c, o), f);
    fclose(f);
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

static void help_option(const rd_option *o, FILE *out)
{
    if (!rd_option_is_number(o)) {
        static const char *const values[] = {
            [RD_OPTION_URLS] = "URL",   [RD_OPTION_USERS] = "USER",  [RD_OPTION_GROUPS] = "GROUP",
            [RD_OPTION_NAMES] = "NAME", [RD_OPTION_GROUP] = "GROUP", [RD_OPTION_ACCOUNTS] = "USER",
            [RD_OPTION_PATH] = "FILE",  [RD_OPTION_HTTP] = "URL",    [RD_OPTION_DEVICES] = "LIST"};
        fprintf(out, "  --%s %s\n", o->name, values[o->kind]);
    } else {
        fprintf(out, "  --%s %s    (default ", o->name,
                o->kind == RD_OPTION_CHOICE  ? o->choices
                : o->kind == RD_OPTION_OCTAL ? "MODE"
                                             : "N");
        put_value(o, o->preset, out);
        if (o->kind == RD_OPTION_NUMBER)
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
            "options (the config file has the same names: name = value, # comments; a FILE is an absolute path):\n",
            url);
    for (int i = 0; i < RD_OPTIONS; i++)
        help_option(&rd_options[i], out);
    fprintf(
        out,
        "\nflags only:\n"
        "  --config FILE     read this file instead of %s\n"
        "  --check-config    check file, flags and TLS files, name everything that is wrong, and exit (0 right, 2 wrong)\n"
        "  --user USER       of --check-config by root: whose files these must be. Default: reduced, if there is this user\n"
        "  --self-test       try descriptors, device, sandbox, sockets and a restart beside a running daemon, and exit (0 "
        "right)\n"
        "  --dump-config     print the settings in force as a config file, and exit\n"
        "  --autostarted     started by a client: exit with 0 if another daemon already serves the socket, and after %d idle\n"
        "                    seconds unless idle-exit is set\n"
        "  --version, --help\n\n"
        "signals: TERM, INT finish the work in flight and exit (again: exit now); HUP rereads the config file\n"
        "exit codes: 0 stopped on request, 1 cannot start, 2 usage or config, 70 the device failed: restart\n",
        file, RD_AUTOSTARTED_IDLE_S);
}

static void dump_ids(const rd_option *o, const rd_ids *ids, FILE *out)
{
    for (uint32_t i = 0; i < ids->n; i++)
        fprintf(out, "%s = %" PRIu32 "\n", o->name, ids->id[i]);
}

static void dump_allow(const rd_allow *a, FILE *out)
{
    dump_ids(rd_option_find("allow-uid"), &a->users, out);
    dump_ids(rd_option_find("allow-gid"), &a->groups, out);
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
    for (int i = 0; i < RD_OPTIONS; i++) {
        const rd_option *o = &rd_options[i];
        if (o->kind == RD_OPTION_URLS) {
            dump_urls(c, out);
        } else if (o->kind == RD_OPTION_GROUP || o->kind == RD_OPTION_ACCOUNTS) {
            dump_ids(o, rd_option_ids(c, o), out);
        } else if ((o->kind == RD_OPTION_PATH || o->kind == RD_OPTION_HTTP || o->kind == RD_OPTION_DEVICES) &&
                   rd_option_text(c, o)[0]) {
            fprintf(out, "%s = %s\n", o->name, rd_option_text(c, o));
        } else if (rd_option_is_number(o)) {
            fprintf(out, "%s = ", o->name);
            put_value(o, rd_option_value(c, o), out);
            fputc('\n', out);
        }
    }
}
