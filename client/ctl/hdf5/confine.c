#include "client/ctl/hdf5/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client/ctl/hdf5/datasets.h"

#define MEMORY ((rlim_t)8 << 30) /* bytes: a chunk has at most 4 GiB, and is unpacked */

/* Sanitizers reserve terabytes, and make calls of their own. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

/* ---- limits ---- */

void h5r_more_time(uint64_t bytes)
{
    struct rusage used;
    struct rlimit limit;
    getrusage(RUSAGE_SELF, &used);
    getrlimit(RLIMIT_CPU, &limit);
    rlim_t end = (rlim_t)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) + 1 + H5R_CPU_S + (rlim_t)(bytes >> 24);
    limit.rlim_cur = end < limit.rlim_max ? end : limit.rlim_max;
    setrlimit(RLIMIT_CPU, &limit);
}

/* False: reducectl has ended before; it had the other end of standard output. */
static bool end_with_parent(void)
{
    struct pollfd out = {.fd = STDOUT_FILENO};
    return prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && poll(&out, 1, 0) >= 0 && !(out.revents & POLLERR);
}

/* ---- seccomp ---- */

#ifdef __x86_64__
#define ARCHITECTURE AUDIT_ARCH_X86_64
#else
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#endif

/* All that a program needs which reads files, filters that libhdf5 loads included. Calls of x32 have other numbers. */
static const int allowed[] = {SYS_read,        SYS_pread64,      SYS_readv,          SYS_write,         SYS_writev,
                              SYS_lseek,       SYS_close,        SYS_fstat,          SYS_newfstatat,    SYS_statx,
                              SYS_fstatfs,     SYS_faccessat,    SYS_readlinkat,     SYS_getdents64,    SYS_getcwd,
                              SYS_mmap,        SYS_munmap,       SYS_mremap,         SYS_mprotect,      SYS_madvise,
                              SYS_brk,         SYS_futex,        SYS_getrandom,      SYS_clock_gettime, SYS_gettimeofday,
                              SYS_getrusage,   SYS_getpid,       SYS_gettid,         SYS_getuid,        SYS_geteuid,
                              SYS_getgid,      SYS_getegid,      SYS_uname,          SYS_sysinfo,       SYS_sched_getaffinity,
                              SYS_sched_yield, SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn,
#ifdef __x86_64__
                              SYS_stat,        SYS_lstat,        SYS_access,         SYS_readlink,
#endif
                              SYS_exit,        SYS_exit_group};
enum { ALLOWED = sizeof allowed / sizeof allowed[0], HEAD = 10 };

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define IF_EQUAL(value, yes, no) \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)(value), (unsigned char)(yes), (unsigned char)(no))
#define IF_ANY(bits, yes, no) BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, (unsigned char)(yes), (unsigned char)(no))
#define END(action) BPF_STMT(BPF_RET | BPF_K, action)

/* Files are opened for reading alone: these flags are not among those of openat. An abort ends the process without tgkill. */
#define WRITING (O_ACCMODE | O_CREAT | O_TRUNC | O_APPEND)

static bool filter_calls(void)
{
    const struct sock_filter deny = END(SECCOMP_RET_ERRNO | EPERM);
    struct sock_filter code[HEAD + ALLOWED + 2] = {
        LOAD(arch), IF_EQUAL(ARCHITECTURE, 1, 0), deny, LOAD(nr),
        /* the lower half of an argument: both machines are little-endian */
        IF_EQUAL(SYS_openat, 0, 2), LOAD(args[2]), IF_ANY(WRITING, ALLOWED + 3, ALLOWED + 4), IF_EQUAL(SYS_prlimit64, 0, 2),
        LOAD(args[0]), IF_EQUAL(0, ALLOWED + 1, ALLOWED), /* of itself */
    };
    for (int i = 0; i < ALLOWED; i++)
        code[HEAD + i] = (struct sock_filter)IF_EQUAL(allowed[i], ALLOWED - i, 0);
    code[HEAD + ALLOWED] = deny;
    code[HEAD + ALLOWED + 1] = (struct sock_filter)END(SECCOMP_RET_ALLOW);
    const struct sock_fprog program = {.len = sizeof code / sizeof code[0], .filter = code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0 || errno == EINVAL /* a kernel without it */);
}

bool h5r_confine(void)
{
    const struct rlimit no_core = {0, 0}, memory = {MEMORY, MEMORY};
    setrlimit(RLIMIT_CORE, &no_core);
    h5r_more_time(0);
    if (!end_with_parent())
        return false;
    if (SANITIZED)
        return true;
    setrlimit(RLIMIT_AS, &memory);
    return filter_calls();
}
