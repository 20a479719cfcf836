/* Start a private daemon in the background, as gpg-agent and adb do: fork, new session, fork, exec. The process may have
 * threads, so the children only make async-signal-safe calls; everything is prepared before. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/autostart.h"
#include "client/error.h"
#include "client/program.h"

/* What the last child reports: errno 0 and its process id, or why exec failed. The middle one reports why it could not fork. */
typedef struct report {
    int err;
    pid_t pid;
} report;

/* Opens a log beside the socket; without one the daemon writes to /dev/null. */
static int open_log(const char *url, char *path, size_t cap)
{
    const char *slash = strrchr(url, '/');
    int n = snprintf(path, cap, "%.*s/reduced.log", (int)(slash - (url + 6)), url + 6);
    int fd = -1;
    errno = ENAMETOOLONG;
    if (n > 0 && (size_t)n < cap)
        fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        path[0] = 0;
    return fd;
}

/* Moves a descriptor above the standard streams. If the caller closed these, it may have got one of their numbers; then dup2
 * would overwrite it, or leave it without close-on-exec. */
static int above_standard(int fd) { return fd > STDERR_FILENO ? fd : fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1); }

static void become_daemon(char **argv, int null, int log, int back)
{
    sigset_t none;
    null = above_standard(null);
    log = log >= 0 ? above_standard(log) : null;
    back = above_standard(back);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    dup2(null, STDIN_FILENO);
    dup2(log, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    report r = {0, getpid()};
    if (chdir("/") || write(back, &r, sizeof r) != (ssize_t)sizeof r)
        _exit(127);
    /* The daemon inherits no other descriptor of this process; the exec closes `back`. */
    if (back > 3)
        syscall(SYS_close_range, 3u, (unsigned)back - 1, 0u);
    syscall(SYS_close_range, (unsigned)back + 1, ~0u, 0u);
    execvp(argv[0], argv);
    r.err = errno;
    if (write(back, &r, sizeof r) != (ssize_t)sizeof r)
        _exit(126);
    _exit(127);
}

static void middle_child(char **argv, int null, int log, int back)
{
    setsid();
    pid_t pid = fork();
    if (pid == 0)
        become_daemon(argv, null, log, back);
    const report r = {pid < 0 ? errno : 0, 0};
    _exit(pid < 0 && write(back, &r, sizeof r) != (ssize_t)sizeof r);
}

/* Both reports, if there are two. 0 or errno of the exec. */
static int read_reports(int fd, pid_t *pid)
{
    report r;
    int err = ECHILD;
    while (read(fd, &r, sizeof r) == (ssize_t)sizeof r) {
        *pid = r.pid;
        err = r.err;
    }
    return err;
}

static int launch(char **argv, int null, int log, pid_t *pid)
{
    int back[2];
    if (pipe2(back, O_CLOEXEC))
        return errno;
    pid_t child = fork();
    if (child == 0)
        middle_child(argv, null, log, back[1]);
    int err = child < 0 ? errno : 0;
    close(back[1]);
    if (child > 0) {
        while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
            ;
        err = read_reports(back[0], pid);
    }
    close(back[0]);
    return err;
}

int rc_start_daemon(const char *url, const reduce_open_opts *o, rc_child *child, rp_fault *f)
{
    char program[RC_PROGRAM_PATH], why[RC_PROGRAM_WHY], idle[16];
    bool usual = o->idle_exit_s == ((reduce_open_opts)REDUCE_OPEN_OPTS_INIT).idle_exit_s;
    child->pidfd = -1;
    child->log[0] = 0;
    if (o->daemon && (!strchr(o->daemon, '/') || !realpath(o->daemon, program))) /* the daemon's working directory is / */
        snprintf(program, sizeof program, "%s", o->daemon);
    else if (!o->daemon && rc_find_program("reduced", program, why))
        return rc_fail(f, REDUCE_E_START, "daemon", "not started: %s; opts.daemon or $REDUCED_URL names one", why);
    snprintf(idle, sizeof idle, "%u", o->idle_exit_s);
    char *argv[] = {program, "--autostarted", "--listen", (char *)url, usual ? NULL : "--idle-exit", idle, NULL};
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int log = open_log(url, child->log, sizeof child->log);
    child->no_log = log < 0 ? errno : 0;
    pid_t pid = 0;
    int err = null < 0 ? errno : launch(argv, null, log, &pid);
    if (null >= 0)
        close(null);
    if (log >= 0)
        close(log);
    if (err)
        return rc_fail(f, REDUCE_E_START, "daemon", "cannot start %.100s: %s", program, strerror(err));
    child->pidfd = (int)syscall(SYS_pidfd_open, pid, 0u);
    return 0;
}

bool rc_child_gone(int pidfd)
{
    struct pollfd p = {pidfd, POLLIN, 0};
    return pidfd >= 0 && poll(&p, 1, 0) == 1;
}
