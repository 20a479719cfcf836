/* What the sandbox forbids and still allows to a process. Each test runs in a child, because the sandbox cannot be left. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include "daemon/base/paths.h"
#include "daemon/base/sandbox.h"

enum { ROOM = 128, SKIP = 77 };

static char base[ROOM], inside[ROOM], outside[ROOM];

static int make_folders(void **state)
{
    (void)state;
    snprintf(base, sizeof base, "/tmp/rd_sandbox_XXXXXX");
    if (!mkdtemp(base))
        return -1;
    snprintf(inside, sizeof inside, "%.60s/inside", base);
    snprintf(outside, sizeof outside, "%.60s/outside", base);
    return mkdir(inside, 0700) || mkdir(outside, 0700) ? -1 : 0;
}

static int remove_folders(void **state)
{
    char command[ROOM + 16];
    (void)state;
    snprintf(command, sizeof command, "rm -r %s", base);
    return system(command);
}

/* What `act` returned in a child; SKIP leaves the test out. */
static int in_child(int (*act)(void))
{
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(act());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == SKIP)
        skip();
    return WEXITSTATUS(status);
}

static const char *needed;
static int (*act_inside)(void);

static int enter_and_act(void)
{
    const char *folders[] = {inside, "", "/no/such/folder", "/dev"};
    char told[RD_SANDBOX_TEXT];
    rd_sandbox_enter(folders, 4, true, told);
    const char *no = strstr(told, "no ");
    return no && strstr(no, needed) ? SKIP : act_inside();
}

/* What `act` returned in a child that is in the sandbox; `needs` must be in what it was told, or the test is left out. */
static int in_sandbox(const char *needs, int (*act)(void))
{
    needed = needs;
    act_inside = act;
    return in_child(enter_and_act);
}

static int start_a_program(void)
{
    char *const args[] = {"true", NULL};
    execve("/bin/true", args, NULL);
    return errno;
}

static int leave_the_namespaces(void) { return unshare(0) == 0 ? 0 : errno; }
static int load_a_program_of_the_kernel(void) { return syscall(SYS_bpf, 0, NULL, 0) == 0 ? 0 : errno; }

/* Numbers of programs with 32 bit pointers, which the list would not find. */
static int call_by_another_number(void) { return syscall(0x40000000 | SYS_getpid) > 0 ? 0 : errno; }

static void calls_of_attackers_are_refused(void **state)
{
    (void)state;
    assert_int_equal(in_sandbox("seccomp", start_a_program), EPERM);
    assert_int_equal(in_sandbox("seccomp", leave_the_namespaces), EPERM);
    assert_int_equal(in_sandbox("seccomp", load_a_program_of_the_kernel), EPERM);
    assert_int_equal(in_sandbox("seccomp", call_by_another_number), EPERM);
}

static sem_t entered;
static int result_of_thread;

static void *wait_and_start_a_program(void *arg)
{
    sem_wait(&entered);
    result_of_thread = start_a_program();
    return arg;
}

static int enter_beside_a_thread(void)
{
    pthread_t thread;
    char told[RD_SANDBOX_TEXT];
    sem_init(&entered, 0, 0);
    pthread_create(&thread, NULL, wait_and_start_a_program, NULL);
    rd_sandbox_enter(NULL, 0, true, told);
    if (strstr(told, "no seccomp")) /* as in an emulator */
        return SKIP;
    sem_post(&entered);
    pthread_join(thread, NULL);
    return result_of_thread;
}

static void threads_that_were_there_are_in_it_too(void **state)
{
    (void)state;
    assert_int_equal(in_child(enter_beside_a_thread), EPERM);
}

/* ---- io_uring ---- */

/* 0 if a ring can be made */
static int make_a_ring(void *arg)
{
    char parameters[120] = {0};
    int ring = (int)syscall(SYS_io_uring_setup, 4, parameters);
    (void)arg;
    if (ring < 0)
        return errno;
    close(ring);
    return 0;
}

static int make_a_loop(void *loop) { return uv_loop_init(loop); }
static void sandbox_ticked(uv_timer_t *timer) { uv_close((uv_handle_t *)timer, NULL); }
static void sandbox_polled(uv_poll_t *poll, int status, int events)
{
    (void)status, (void)events;
    uv_close((uv_handle_t *)poll, NULL);
}

/* Two descriptors and a timer: libuv hands new descriptors to the kernel through its ring, if it has one. */
static int run_a_loop(uv_loop_t *loop)
{
    int ends[2];
    uv_poll_t polls[2];
    uv_timer_t timer;
    if (pipe(ends) || write(ends[1], "x", 1) != 1)
        return errno;
    for (int i = 0; i < 2; i++)
        if (uv_poll_init(loop, &polls[i], ends[i]) || uv_poll_start(&polls[i], i ? UV_WRITABLE : UV_READABLE, sandbox_polled))
            return EINVAL;
    uv_timer_init(loop, &timer);
    uv_timer_start(&timer, sandbox_ticked, 1, 0);
    return uv_run(loop, UV_RUN_DEFAULT);
}

static int use_a_loop_of_before(void)
{
    static uv_loop_t loop;
    char told[RD_SANDBOX_TEXT];
    if (rd_sandbox_without_rings(make_a_loop, &loop))
        return EINVAL;
    rd_sandbox_enter(NULL, 0, true, told);
    return strstr(told, "no seccomp") ? SKIP : run_a_loop(&loop);
}

static int use_a_loop_outside(void)
{
    static uv_loop_t loop;
    return make_a_loop(&loop) ? EINVAL : run_a_loop(&loop);
}

static int refuse_rings_to_one_thread(void)
{
    int before = make_a_ring(NULL), in = rd_sandbox_without_rings(make_a_ring, NULL), after = make_a_ring(NULL);
    if (before) /* the kernel has none, or something around this test refuses them */
        return SKIP;
    return in == EPERM && after == 0 ? 0 : 1;
}

static void rings_are_refused_to_the_maker_alone(void **state)
{
    (void)state;
    assert_int_equal(in_child(refuse_rings_to_one_thread), 0);
}

static void a_loop_works_with_and_without_a_ring(void **state)
{
    (void)state;
    assert_int_equal(in_child(use_a_loop_outside), 0);
    assert_int_equal(in_child(use_a_loop_of_before), 0);
}

/* 0 if a file can be made, written and removed there. */
static int work_in(const char *folder)
{
    char name[ROOM + 8];
    snprintf(name, sizeof name, "%s/file", folder);
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0)
        return errno;
    bool ok = write(fd, "x", 1) == 1 && close(fd) == 0 && unlink(name) == 0;
    return ok ? 0 : errno;
}

static int work_inside(void) { return work_in(inside); }
static int work_outside(void) { return work_in(outside); }
static int read_outside(void) { return open("/etc/passwd", O_RDONLY) >= 0 ? 0 : errno; }
static int write_to_a_device(void) { return open("/dev/null", O_RDWR) >= 0 ? 0 : errno; }

static int listen_inside(void)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    snprintf(a.sun_path, sizeof a.sun_path, "%.90s/socket", inside);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    return bind(fd, (struct sockaddr *)&a, sizeof a) == 0 && listen(fd, 1) == 0 && unlink(a.sun_path) == 0 ? 0 : errno;
}

static void files_are_written_where_the_daemon_has_some(void **state)
{
    (void)state;
    assert_int_equal(in_sandbox("Landlock", work_outside), EACCES);
    assert_int_equal(in_sandbox("Landlock", work_inside), 0);
    assert_int_equal(in_sandbox("Landlock", listen_inside), 0);
    assert_int_equal(in_sandbox("Landlock", read_outside), 0);
    assert_int_equal(in_sandbox("Landlock", write_to_a_device), 0);
    assert_int_equal(work_in(outside), 0); /* this process is in none */
}

static int enter_with_a_file(void)
{
    char file[ROOM], told[RD_SANDBOX_TEXT];
    const char *allowed[] = {file};
    snprintf(file, sizeof file, "%.60s/file", inside);
    const int fd = open(file, O_WRONLY | O_CREAT, 0600);
    const bool can = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION) > 0;
    rd_sandbox_enter(allowed, 1, true, told);
    if (fd < 0 || can == (strstr(told, "no Landlock") != NULL))
        return EINVAL;
    return can && work_inside() != EACCES ? EPERM : open(file, O_WRONLY) >= 0 ? 0 : errno;
}

/* As where $CUDA_CACHE_PATH is one */
static void a_file_may_be_written_alone(void **state)
{
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* the sandbox is without Landlock there */
#endif
    assert_int_equal(in_child(enter_with_a_file), 0);
}

static void the_folder_of_a_file(void **state)
{
    char out[ROOM];
    (void)state;
    assert_string_equal(rd_folder_of("/run/reduced/reduced.sock", out), "/run/reduced");
    assert_string_equal(rd_folder_of("/trace", out), "/");
    assert_string_equal(rd_folder_of("", out), "");
    assert_string_equal(rd_folder_of(NULL, out), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_of_attackers_are_refused),
        cmocka_unit_test(threads_that_were_there_are_in_it_too),
        cmocka_unit_test(rings_are_refused_to_the_maker_alone),
        cmocka_unit_test(a_loop_works_with_and_without_a_ring),
        cmocka_unit_test(files_are_written_where_the_daemon_has_some),
        cmocka_unit_test(a_file_may_be_written_alone),
        cmocka_unit_test(the_folder_of_a_file),
    };
    return cmocka_run_group_tests(tests, make_folders, remove_folders);
}
