#include "daemon/machine_test.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/clock.h"

enum { MOST_KEPT = 8, FIRST_FD = 3, PATIENCE_MS = 60000, NUMBERS = 4096, LINE = 512 };

/* The test and its service manager. */
typedef struct self_test {
    const rd_config *config;
    char folder[64], program[256];
    int notify, sockets[2]; /* messages of the daemon; its sockets for messages and descriptors */
    int kept[MOST_KEPT], n_kept;
    char names[MOST_KEPT][64];
    char status[LINE]; /* what the daemon last said of itself */
    pid_t daemon;
    bool failed;
} self_test;

/* ---- lines ---- */
static void __attribute__((format(printf, 4, 5))) say(self_test *t, bool ok, const char *what, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    printf("%-7s %-12s ", ok ? "ok" : "FAILED", what);
    vprintf(fmt, args);
    putchar('\n');
    fflush(stdout);
    va_end(args);
    t->failed |= !ok;
}

static const char *inside(const self_test *t, const char *name, char out[128])
{
    snprintf(out, 128, "%s/%s", t->folder, name);
    return out;
}

/* ---- the service manager ---- */
static int bound(const self_test *t, const char *name, int kind)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    snprintf(a.sun_path, sizeof a.sun_path, "%s/%.32s", t->folder, name);
    int fd = socket(AF_UNIX, kind | SOCK_CLOEXEC, 0);
    if (fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof a) == 0 && (kind == SOCK_DGRAM || listen(fd, 64) == 0))
        return fd;
    return -1;
}

static void keep(self_test *t, int fd, const char *text)
{
    const char *name = strstr(text, "FDNAME=");
    if (fd < 0 || !name || !strstr(text, "FDSTORE=1") || t->n_kept == MOST_KEPT) {
        if (fd >= 0)
            close(fd);
        return;
    }
    snprintf(t->names[t->n_kept], sizeof t->names[0], "%.*s", (int)strcspn(name + 7, "\n"), name + 7);
    t->kept[t->n_kept++] = fd;
}

/* One message of the daemon. False: none came in time. */
static bool hear(self_test *t, char text[LINE], int ms)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec part = {text, LINE - 1};
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    struct pollfd p = {.fd = t->notify, .events = POLLIN};
    int fd = -1;
    const ssize_t n = poll(&p, 1, ms) > 0 ? recvmsg(t->notify, &m, MSG_CMSG_CLOEXEC) : -1;
    if (n < 0)
        return false;
    text[n] = '\0';
    const struct cmsghdr *h = CMSG_FIRSTHDR(&m);
    if (h && h->cmsg_type == SCM_RIGHTS)
        memcpy(&fd, CMSG_DATA(h), sizeof fd);
    keep(t, fd, text);
    const char *status = strstr(text, "STATUS=");
    if (status)
        snprintf(t->status, sizeof t->status, "%.*s", (int)strcspn(status + 7, ";\n"), status + 7);
    return true;
}

static bool has_left(self_test *t)
{
    int status;
    if (t->daemon > 0 && waitpid(t->daemon, &status, WNOHANG) == t->daemon)
        t->daemon = 0;
    return t->daemon <= 0;
}

static bool wait_ready(self_test *t)
{
    char text[LINE];
    const uint64_t end = rp_after_ms(PATIENCE_MS);
    while (rp_now_ns() < end && !has_left(t))
        if (hear(t, text, 100) && strstr(text, "READY=1"))
            return true;
    return false;
}

/* In the child: the descriptors as sd_listen_fds(3) wants them. */
static void pass(const self_test *t)
{
    char text[32], names[MOST_KEPT * 64 + 64] = "socket:socket";
    int high[2 + MOST_KEPT], n = 0;
    for (int i = 0; i < 2; i++)
        high[n++] = fcntl(t->sockets[i], F_DUPFD, 64);
    for (int i = 0; i < t->n_kept; i++) {
        high[n++] = fcntl(t->kept[i], F_DUPFD, 64);
        snprintf(names + strlen(names), sizeof names - strlen(names), ":%s", t->names[i]);
    }
    for (int i = 0; i < n; i++) {
        dup2(high[i], FIRST_FD + i);
        close(high[i]);
    }
    snprintf(text, sizeof text, "%d", n);
    setenv("LISTEN_FDS", text, 1);
    snprintf(text, sizeof text, "%d", getpid());
    setenv("LISTEN_PID", text, 1);
    setenv("LISTEN_FDNAMES", names, 1);
}

static void run_daemon(const self_test *t)
{
    static const char *const backends[] = {"auto", "cpu", "cuda", "hybrid"};
    char url[160], path[128], notify[128];
    const int log = open(inside(t, "log", path), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    dup2(log, STDERR_FILENO);
    snprintf(url, sizeof url, "ipc://%s/s", t->folder);
    setenv("NOTIFY_SOCKET", inside(t, "notify", notify), 1);
    setenv("FDSTORE", "8", 1);
    unsetenv("WATCHDOG_USEC");
    pass(t);
    execl(t->program, t->program, "--config", "/dev/null", "--listen", url, "--backend", backends[t->config->backend],
          "--devices", t->config->devices, (char *)NULL);
    _exit(127);
}

static bool start(self_test *t)
{
    t->daemon = fork();
    if (t->daemon == 0)
        run_daemon(t);
    return t->daemon > 0 && wait_ready(t);
}

static bool stop(self_test *t)
{
    int status = -1;
    if (has_left(t))
        return false;
    kill(t->daemon, SIGTERM);
    waitpid(t->daemon, &status, 0);
    t->daemon = 0;
    return status == 0;
}

/* ---- a client: reducectl beside this program ---- */
static void run_client(const self_test *t, const char *const *args, int out)
{
    const char *argv[12] = {"reducectl", "--no-autostart"};
    char url[160], path[300];
    for (int i = 0; args[i]; i++)
        argv[2 + i] = args[i];
    snprintf(url, sizeof url, "ipc://%s/s", t->folder);
    snprintf(path, sizeof path, "%s", t->program);
    strcpy(strrchr(path, '/') + 1, "reducectl");
    setenv("REDUCED_URL", url, 1);
    setenv("REDUCE_LOCAL", "no", 1);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    execv(path, (char *const *)argv);
    dprintf(out, "%s: %s", path, strerror(errno));
    _exit(127);
}

/* The first line that it prints. False: it failed. */
static bool ask(const self_test *t, char answer[LINE], const char *const *args)
{
    int ends[2], status = -1;
    size_t n = 0;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    const pid_t pid = fork();
    if (pid == 0)
        run_client(t, args, ends[1]);
    close(ends[1]);
    for (ssize_t got; n < LINE - 1 && (got = read(ends[0], answer + n, LINE - 1 - n)) > 0; n += (size_t)got)
        ;
    close(ends[0]);
    answer[n] = '\0';
    answer[strcspn(answer, "\n")] = '\0';
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

#define ASK(t, answer, ...) ask(t, answer, (const char *const[]){__VA_ARGS__, NULL})

/* ---- what is tried ---- */
static void try_descriptors(self_test *t)
{
    enum { ENOUGH = 1024 };
    struct rlimit r = {0, 0};
    getrlimit(RLIMIT_NOFILE, &r);
    say(t, r.rlim_max >= ENOUGH, "descriptors", "%llu (LimitNOFILE of the unit, or ulimit -Hn)",
        (unsigned long long)r.rlim_max);
}

/* The first line of the daemon's log that has this word; "" if there is none. */
static void find_line(const self_test *t, const char *word, char line[LINE])
{
    char path[128];
    FILE *f = fopen(inside(t, "log", path), "re");
    line[0] = '\0';
    while (f && fgets(line, LINE, f) && !strstr(line, word))
        line[0] = '\0';
    if (f)
        fclose(f);
    line[strcspn(line, "\n")] = '\0';
}

/* The daemon serves before its devices are open, and then says which they are. */
static void wait_for_devices(self_test *t)
{
    char line[LINE], text[LINE];
    const uint64_t end = rp_after_ms(PATIENCE_MS);
    find_line(t, "the devices are opening", line);
    for (bool opening = line[0]; opening && rp_now_ns() < end && !has_left(t);) {
        hear(t, text, 100);
        find_line(t, " open after ", line);
        opening = !line[0];
    }
    while (hear(t, text, 100))
        ;
}

static bool try_start(self_test *t)
{
    char line[LINE];
    const uint64_t begun = rp_now_ns();
    const bool ready = start(t);
    const uint64_t ns = rp_now_ns() - begun;
    if (ready)
        wait_for_devices(t);
    else
        find_line(t, "error", line);
    say(t, ready, "device", "%s", ready ? t->status : line);
    if (!ready)
        return false;
    find_line(t, "sandbox: ", line);
    say(t, strstr(line, "seccomp") && !strstr(line, "no seccomp"), "sandbox", "%s",
        line[0] ? strstr(line, "sandbox: ") + 9 : "none");
    say(t, true, "start", "ready after %llu ms", (unsigned long long)ns / RP_NS_PER_MS);
    return true;
}

static bool write_numbers(const char *path)
{
    uint8_t ones[NUMBERS];
    memset(ones, 1, sizeof ones);
    const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    const bool written = fd >= 0 && write(fd, ones, sizeof ones) == (ssize_t)sizeof ones;
    if (fd >= 0)
        close(fd);
    return written;
}

static void try_sockets(self_test *t)
{
    char answer[LINE], path[128];
    const bool sum = write_numbers(inside(t, "ones", path)) && ASK(t, answer, "sum", "--dtype", "u8", path);
    say(t, sum && strcmp(answer, "4096") == 0, "sockets", "a sum of %d ones by passed sockets: %s", NUMBERS, answer);
}

static void try_restart(self_test *t)
{
    char answer[LINE], path[128];
    if (!ASK(t, answer, "put", "--dtype", "u8", "self-test", inside(t, "ones", path))) {
        say(t, false, "restart", "no resident data: %s", answer);
        return;
    }
    for (char text[LINE]; t->n_kept == 0 && hear(t, text, PATIENCE_MS);)
        ;
    const uint64_t begun = rp_now_ns();
    const bool back = stop(t) && start(t) && ASK(t, answer, "sum", "@self-test");
    say(t, back && t->n_kept && strcmp(answer, "4096") == 0, "restart", "%d kept descriptors, the sum is %s after %llu ms",
        t->n_kept, answer, (unsigned long long)(rp_now_ns() - begun) / RP_NS_PER_MS);
}

/* ---- all of it ---- */
static bool prepare(self_test *t)
{
    const ssize_t n = readlink("/proc/self/exe", t->program, sizeof t->program - 1);
    strcpy(t->folder, "/tmp/reduced-self-test.XXXXXX");
    if (n <= 0 || !mkdtemp(t->folder))
        return false;
    t->notify = bound(t, "notify", SOCK_DGRAM);
    t->sockets[0] = bound(t, "s", SOCK_STREAM);
    t->sockets[1] = bound(t, "s.side", SOCK_SEQPACKET);
    return t->notify >= 0 && t->sockets[0] >= 0 && t->sockets[1] >= 0;
}

static void clear(const self_test *t)
{
    static const char *const files[] = {"notify", "s", "s.side", "s.lock", "log", "ones"};
    char path[128];
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        unlink(inside(t, files[i], path));
    rmdir(t->folder);
}

int rd_self_test(const rd_config *c)
{
    self_test t = {.config = c};
    printf("reduced %s\n", REDUCED_VERSION);
    try_descriptors(&t);
    if (!prepare(&t))
        say(&t, false, "folder", "%s: %s", t.folder, strerror(errno));
    else if (try_start(&t)) {
        try_sockets(&t);
        if (RD_WITH_SYSTEMD) /* else nothing is kept */
            try_restart(&t);
        say(&t, stop(&t), "stop", "SIGTERM");
    }
    clear(&t);
    puts(t.failed ? "something failed" : "all is right");
    return t.failed;
}
