#include <fcntl.h>
#include <grp.h>
#include <malloc.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/health.h"
#include "daemon/machine_test.h"
#include "daemon/shutdown.h"
#include "daemon/startup.h"
#include "daemon/tls.h"
#include "proto/clock.h"

/* glibc gives each thread an arena of its own and keeps up to 64 MiB of free memory at the top of each. malloc_trim returns it
 * for the first arena only (2026-11-22: 110 MiB on 16 cores, still growing after minutes). Requests allocate rarely, so all
 * threads share the first arena: what a peak of messages took goes back when the daemon is at rest. */
static void share_one_arena(void) { mallopt(M_ARENA_MAX, 1); }

/* The daemon's descriptors must not get the numbers of closed standard streams: messages would be written to them, and libuv
 * aborts when it closes one. */
static void fill_standard_streams(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

/* Each connection needs a descriptor. With very few, libuv would abort. */
static bool raise_descriptors(void)
{
    enum { LEAST = 64 };
    struct rlimit r;
    if (getrlimit(RLIMIT_NOFILE, &r))
        return true;
    r.rlim_cur = r.rlim_max;
    setrlimit(RLIMIT_NOFILE, &r);
    if (r.rlim_max < LEAST)
        rd_log(RD_LOG_ERROR, "the limit of open files (ulimit -n) is %llu; at least %d are needed",
               (unsigned long long)r.rlim_max, LEAST);
    return r.rlim_max >= LEAST;
}

static int serve(const rd_config *config, const rd_command *command, int argc, char **argv)
{
    int exit_code;
    if (!raise_descriptors())
        return RD_EXIT_START;
    rd_server *s = calloc(1, sizeof *s);
    if (!s) {
        rd_log(RD_LOG_ERROR, "no memory");
        return RD_EXIT_START;
    }
    s->config = *config;
    s->argc = argc;
    s->argv = argv;
    rd_stats_init(&s->stats, rp_now_ns());
    rd_log(RD_LOG_INFO, "reduced " REDUCED_VERSION " starts");
    if (rd_server_open(s, command, &exit_code)) {
        rd_health_check(s);
        uv_run(&s->loop, UV_RUN_DEFAULT);
        exit_code = s->exit_code;
        rd_stats_collect(&s->stats);
        rd_log(RD_LOG_INFO, "left after %llu requests", (unsigned long long)s->stats.tally.requests);
    }
    rd_server_close(s);
    rd_stats_fini(&s->stats);
    free(s);
    return exit_code;
}

static int printed(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return RD_EXIT_OK;
    fputs("reduced: cannot write the output\n", stderr);
    return RD_EXIT_START;
}

static void main_problem(const char *problem) { fprintf(stderr, "reduced: %s\n", problem); }

/* Root checks as the daemon's user: what root alone can read, the service cannot. */
static bool become_user(const rd_command *command)
{
    const char *name = command->user[0] ? command->user : "reduced";
    const struct passwd *p = geteuid() == 0 ? getpwnam(name) : NULL;
    if (!p && !command->user[0])
        return true;
    if (p && initgroups(name, p->pw_gid) == 0 && setgid(p->pw_gid) == 0 && setuid(p->pw_uid) == 0)
        return true;
    fprintf(stderr, "reduced: --user %s: %s\n", name, geteuid() ? "only root checks for others" : "there is no such user");
    return false;
}

/* The service could not read it: this may be a copy. */
static void warn_of_file(const rd_command *command)
{
    if (command->config_file[0] && access(command->config_file, R_OK) != 0)
        fprintf(stderr, "reduced: warning: %s: the user %s cannot read it\n", command->config_file,
                command->user[0] ? command->user : "reduced");
}

/* Beyond what reading it has shown: can the TLS files be used? */
static int check(const rd_config *config, const rd_command *command)
{
    char why[RD_MAX_WHY];
    if (!become_user(command))
        return RD_EXIT_USAGE;
    warn_of_file(command);
    bool right = rd_tls_open(config, NULL, why);
    if (why[0])
        fprintf(stderr, "reduced: %s%s\n", right ? "warning: " : "", why);
    if (!right)
        return RD_EXIT_USAGE;
    puts("the configuration is right");
    return printed();
}

int main(int argc, char **argv)
{
    fill_standard_streams();
    share_one_arena();
    rd_config config;
    rd_command command;
    char why[RD_MAX_WHY];
    bool right = rd_config_load(&config, &command, argc, argv, NULL, why);
    if (command.help) {
        rd_config_help(stdout);
        return printed();
    }
    if (command.version) {
        puts("reduced " REDUCED_VERSION);
        return printed();
    }
    if (!right) {
        rd_config_load(&config, &command, argc, argv, main_problem, why); /* again, for all that is wrong */
        return RD_EXIT_USAGE;
    }
    rd_log_set_level((rd_log_level)config.log_level);
    if (config.removed)
        rd_log(RD_LOG_WARN, "the option %s has no effect any more", config.removed);
    if (command.self_test)
        return rd_self_test(&config);
    if (command.dump)
        rd_config_dump(&config, stdout);
    if (command.check)
        return check(&config, &command);
    return command.dump ? printed() : serve(&config, &command, argc, argv);
}
