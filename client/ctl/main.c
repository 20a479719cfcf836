/* reducectl: reduce files and pipes from the shell. */
#include <fcntl.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/ctl/ctl.h"
#include "client/ctl/help_rows.h"
#include "client/ctl/reduce/several.h"
#include "client/ctl/top/top.h"

enum {
    KEPT = 32 << 20
}; /* bytes of memory that was freed and waits for the next message instead of going back to the system */
enum { TOP_RECONNECT_MS = 2000 }; /* a daemon that is restarted; meanwhile the screen shows old figures */

static int usage(const char *why)
{
    fprintf(stderr, "reducectl: %s\nreducectl: try 'reducectl --help'\n", why);
    return CTL_USAGE;
}

static void print_daemon(reduce_client *c)
{
    reduce_info info = REDUCE_INFO_INIT;
    if (reduce_get_info(c, &info) == 0)
        fprintf(stderr, "reducectl: %s on %s%s\n", info.server, info.url, info.autostarted ? ", started now" : "");
}

/* Says why data went in messages if a faster path exists. */
static void print_side(reduce_client *c)
{
    reduce_info info = REDUCE_INFO_INIT;
    if (reduce_get_info(c, &info) == 0 && info.side[0])
        fprintf(stderr, "reducectl: no shared memory and no passed files: %s\n", info.side);
}

static int run(reduce_client *c, ctl_options *o)
{
    int code = o->device ? ctl_find_device(c, o) : CTL_OK;
    if (code == CTL_OK && o->command == CTL_REDUCE)
        code = ctl_keep_pipes(o);
    if (code)
        return code;
    switch (o->command) {
    case CTL_REDUCE:
        return o->n_ops ? ctl_reduce_several(c, o) : ctl_reduce(c, o);
    case CTL_TOP:
        return ctl_top(c, o);
    case CTL_PUT:
        return ctl_put(c, o);
    case CTL_LS:
        return ctl_ls(c, o);
    case CTL_DROP:
        return ctl_drop(c, o);
    default:
        return ctl_query(c, o);
    }
}

/* A question about the daemon, or about what it keeps, does not need a new one. */
static bool may_start_daemon(const ctl_options *o)
{
    return !o->no_autostart && !o->explain && (o->command == CTL_REDUCE || o->command == CTL_PUT);
}

static int no_daemon(const ctl_options *o)
{
    const bool given = o->url || getenv("REDUCED_URL"), starts = o->command == CTL_REDUCE || o->command == CTL_PUT;
    const char *other = given ? "" : starts ? " leave out --no-autostart, or" : " by a reduction or put, or with";
    fprintf(stderr, "reducectl: %s\nreducectl: start one:%s reduced --listen URL\n", reduce_errmsg(), other);
    return CTL_NO_DAEMON;
}

static int talk(ctl_options *o)
{
    reduce_client *c;
    reduce_open_opts opts = REDUCE_OPEN_OPTS_INIT;
    opts.name = "reducectl";
    opts.flags = o->explain ? REDUCE_LAZY : o->wait_ms ? REDUCE_WAIT : may_start_daemon(o) ? REDUCE_AUTOSTART : 0;
    opts.tls_ca = o->tls_ca;
    opts.tls_cert = o->tls_cert;
    opts.tls_key = o->tls_key;
    if (o->command == CTL_TOP)
        opts.reconnect_timeout_ms = TOP_RECONNECT_MS;
    if (o->wait_ms)
        opts.connect_timeout_ms = opts.reconnect_timeout_ms = o->wait_ms;
    opts.priority = o->priority;
    int err = reduce_open(&c, o->url, &opts);
    if (err == REDUCE_E_ARGUMENT)
        return usage(reduce_errmsg());
    if (err == REDUCE_E_NO_DAEMON)
        return no_daemon(o);
    if (err) {
        fprintf(stderr, "reducectl: %s\n", reduce_errmsg());
        return CTL_NO_DAEMON;
    }
    if (o->verbose && !o->explain)
        print_daemon(c);
    if (o->command == CTL_REDUCE || o->watch)
        ctl_take_interrupts();
    int code = run(c, o);
    if (o->verbose)
        print_side(c);
    reduce_close(c);
    return ctl_interrupted() ? CTL_INTERRUPTED : code;
}

/* A closed standard stream must stay unusable. Otherwise the next opened file, such as an eventfd of nng, gets its number, and
 * the result is written into that. So the number is taken by a descriptor that refuses reads and writes. */
static bool keep_standard_numbers(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd)
            return false;
    return true;
}

/* An option behind `help`, but for the one that any command may have */
static bool is_asked_about(const char *word)
{
    return !strncmp(word, "--", 2) && strcmp(word, "--no-autostart") != 0 && ctl_topic_of_option(word + 2);
}

int main(int argc, char **argv)
{
    ctl_options o;
    char why[CTL_WHY];
    if (!keep_standard_numbers())
        return CTL_FAILED;
    mallopt(M_MMAP_THRESHOLD, KEPT);
    mallopt(M_TRIM_THRESHOLD, KEPT);
    if (argc > 1 && !strcmp(argv[1], "ladder"))
        return ctl_ladder(argc, argv);
    if (argc > 2 && !strcmp(argv[1], "help") && is_asked_about(argv[2]))
        argv[2] += 2;
    if (!ctl_parse(&o, argc, argv, why))
        return usage(why);
    int code = CTL_OK;
    if (o.command == CTL_HELP && o.n_files == 1 && !strcmp(o.files[0], "ladder"))
        return ctl_ladder(3, (char *[]){argv[0], o.files[0], "--help", NULL});
    if (o.command == CTL_HELP && o.n_files > 1)
        return usage("help is about one operation or command, topic or option");
    if (o.command == CTL_HELP && o.n_files == 1) {
        if (!ctl_help_topic(stdout, o.files[0], why))
            return usage(why);
    } else if (o.command == CTL_HELP) {
        ctl_help(stdout);
    } else if (o.command == CTL_VERSION) {
        printf("reducectl %u.%u.%u\n", reduce_version() / 10000, reduce_version() / 100 % 100, reduce_version() % 100);
    } else if (o.by) {
        ctl_take_interrupts();
        code = ctl_reduce_by(&o);
    } else {
        code = talk(&o);
    }
    if (fflush(stdout) || ferror(stdout)) {
        fprintf(stderr, "reducectl: cannot write the output\n");
        return CTL_FAILED;
    }
    return code;
}
