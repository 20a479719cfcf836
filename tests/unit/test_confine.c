/* The process that reads strangers' HDF5 files: what it may not do even if libhdf5 runs code of theirs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/ctl/hdf5/confine.h"
#include "client/ctl/hdf5/datasets.h"

static char *const words[] = {(char *)"true", NULL};

static long opens_to_write(void) { return open("/dev/null", O_WRONLY); }
static long opens_to_read_and_write(void) { return open("/dev/null", O_RDWR); }
static long creates(void) { return open("/tmp", O_RDONLY | O_CREAT, 0600); }
static long empties(void) { return open("/dev/null", O_RDONLY | O_TRUNC); }
static long removes(void) { return unlink("/nonexistent"); }
static long renames(void) { return rename("/nonexistent", "/nonexistent2"); }
static long changes_modes(void) { return chmod("/nonexistent", 0); }
static long starts_programs(void) { return execv("/bin/true", words); }
static long forks(void) { return syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0); }
static long talks(void) { return socket(AF_INET, SOCK_STREAM, 0); }
static long talks_to_daemons(void) { return socket(AF_UNIX, SOCK_STREAM, 0); }
static long kills(void) { return kill(getppid(), 0); }
static long types_for_the_user(void) { return ioctl(STDIN_FILENO, TIOCSTI, ""); }
static long traces(void) { return syscall(SYS_ptrace, 0, 0, 0, 0); }
static long limits_others(void) { return prlimit(1, RLIMIT_CPU, NULL, NULL); }
static long (*const refused[])(void) = {opens_to_write,
                                        opens_to_read_and_write,
                                        creates,
                                        empties,
                                        removes,
                                        renames,
                                        changes_modes,
                                        starts_programs,
                                        forks,
                                        talks,
                                        talks_to_daemons,
                                        kills,
                                        types_for_the_user,
                                        traces,
                                        limits_others};
enum { REFUSED = sizeof refused / sizeof *refused };

/* Exit code: 0, or 1 + the call that was not refused. */
static void try_all(void)
{
    for (int i = 0; i < REFUSED; i++)
        if (refused[i]() != -1 || errno != EPERM)
            _exit(1 + i);
    _exit(0);
}

static void read_and_compute(void)
{
    int fd = open("/proc/self/exe", O_RDONLY);
    char bytes[16];
    char *memory = malloc(64 << 20);
    if (fd < 0 || read(fd, bytes, sizeof bytes) != sizeof bytes || lseek(fd, 0, SEEK_SET) || !memory)
        _exit(1);
    h5r_more_time(UINT64_C(1) << 30);
    _exit(getenv("x") || close(fd));
}

static void end_by_processor_time(void)
{
    struct rlimit limit;
    h5r_more_time(UINT64_C(10) << 24);
    if (getrlimit(RLIMIT_CPU, &limit) || limit.rlim_cur < H5R_CPU_S + 10 || limit.rlim_cur > H5R_CPU_S + 13)
        _exit(1);
    h5r_more_time(0);
    _exit(getrlimit(RLIMIT_CPU, &limit) || limit.rlim_cur < H5R_CPU_S || limit.rlim_cur > H5R_CPU_S + 3);
}

/* The exit code of a child that does it, confined. */
static int confined(void (*what)(void))
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        if (!h5r_confine())
            _exit(255);
        what();
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void it_reads_files_and_computes(void **state)
{
    (void)state;
    assert_int_equal(confined(read_and_compute), 0);
}

static void it_does_nothing_else(void **state)
{
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* sanitizers make calls of their own */
#endif
    assert_int_equal(confined(try_all), 0);
}

static void it_has_little_time(void **state)
{
    (void)state;
    assert_int_equal(confined(end_by_processor_time), 0);
}

/* reducectl ended before the other program could ask to end with it: nobody reads what it writes. */
static void it_does_not_begin_without_reducectl(void **state)
{
    int ends[2], status;
    (void)state;
    assert_int_equal(pipe(ends), 0);
    close(ends[0]);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], STDOUT_FILENO);
        _exit(h5r_confine());
    }
    close(ends[1]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(it_reads_files_and_computes), cmocka_unit_test(it_does_nothing_else),
                                       cmocka_unit_test(it_has_little_time),
                                       cmocka_unit_test(it_does_not_begin_without_reducectl)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
