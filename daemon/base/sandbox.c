#include "daemon/base/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- seccomp ---- */

/* LeakSanitizer traces its own process when it ends; reports of all sanitizers go to files anywhere. */
#if defined(__SANITIZE_ADDRESS__)
#define TRACING
#else
#define TRACING SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev,
#endif

/* System calls that only this architecture has, and the kernel's name of the architecture. */
#ifdef __x86_64__
#define PORTS SYS_iopl, SYS_ioperm,
#define ARCHITECTURE AUDIT_ARCH_X86_64
#else
#define PORTS
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#endif
enum { CALLS_END = 0x40000000 }; /* on x86-64 the numbers of x32 calls (32 bit pointers) begin there */

/* Calls of io_uring, whose rings do what a filter of calls does not see */
#define RINGS SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register
static const int rings[] = {RINGS};

/* A list of what is refused, not of what is allowed: CUDA's driver makes calls that only its authors know. These start
 * programs, look into other processes, or change what is mounted, loaded or seen of the system. Some are refused because they
 * are large and new, and had many faults. */
static const int refused[] = {TRACING SYS_execve,
                              SYS_execveat,
                              SYS_kcmp,
                              SYS_perf_event_open,
                              SYS_bpf,
                              SYS_userfaultfd,
                              RINGS,
                              SYS_mount,
                              SYS_umount2,
                              SYS_pivot_root,
                              SYS_chroot,
                              SYS_move_mount,
                              SYS_open_tree,
                              SYS_fsopen,
                              SYS_fsconfig,
                              SYS_fsmount,
                              SYS_fspick,
                              SYS_mount_setattr,
                              SYS_unshare,
                              SYS_setns,
                              SYS_init_module,
                              SYS_finit_module,
                              SYS_delete_module,
                              SYS_kexec_load,
                              SYS_kexec_file_load,
                              SYS_reboot,
                              SYS_swapon,
                              SYS_swapoff,
                              SYS_keyctl,
                              SYS_add_key,
                              SYS_request_key,
                              SYS_open_by_handle_at,
                              PORTS SYS_acct,
                              SYS_quotactl,
                              SYS_settimeofday,
                              SYS_clock_settime,
                              SYS_clock_adjtime,
                              SYS_adjtimex,
                              SYS_sethostname,
                              SYS_setdomainname,
                              SYS_vhangup,
                              SYS_syslog};
enum { REFUSED = sizeof refused / sizeof refused[0], HEAD = 5, NO_RINGS = sizeof rings / sizeof rings[0] };

#define NUMBER_AT offsetof(struct seccomp_data, nr)
#define ARCH_AT offsetof(struct seccomp_data, arch)

static bool set_filter(const int *calls, unsigned n, bool every_thread)
{
    const struct sock_filter deny = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
    struct sock_filter code[HEAD + REFUSED + 2] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARCH_AT),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0), /* refuses 32 bit calls, whose numbers differ */
        deny,
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, NUMBER_AT),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, CALLS_END, (unsigned char)(n + 1), 0),
    };
    for (unsigned i = 0; i < n; i++) /* jumps to the end, over the remaining comparisons and the instruction that allows */
        code[HEAD + i] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[i], (unsigned char)(n - i), 0);
    code[HEAD + n] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    code[HEAD + n + 1] = deny;
    const struct sock_fprog program = {.len = (unsigned short)(HEAD + n + 2), .filter = code};
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, every_thread ? SECCOMP_FILTER_FLAG_TSYNC : 0, &program) == 0;
}

/* ---- Landlock ---- */

/* Rights that the headers of an older kernel do not know, from ABI 2 and 3 on */
#define ACCESS_REFER (UINT64_C(1) << 13)
#define ACCESS_TRUNCATE (UINT64_C(1) << 14)
#define ACCESS_FILE (LANDLOCK_ACCESS_FS_WRITE_FILE | ACCESS_TRUNCATE)
#define ACCESS_FOLDER                                                                                                          \
    (LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_CHAR |                           \
     LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO | \
     LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_MAKE_SYM | ACCESS_REFER)

static uint64_t rights_of(int abi)
{
    return (ACCESS_FILE | ACCESS_FOLDER) & ~(abi < 3 ? ACCESS_TRUNCATE : 0) & ~(abi < 2 ? ACCESS_REFER : 0);
}

static bool allow(int rules, const char *path, uint64_t rights)
{
    struct landlock_path_beneath_attr beneath = {.allowed_access = rights, .parent_fd = open(path, O_PATH | O_CLOEXEC)};
    struct stat st;
    if (beneath.parent_fd < 0)
        return true; /* nothing can be written below a folder that does not exist */
    if (fstat(beneath.parent_fd, &st) == 0 && !S_ISDIR(st.st_mode))
        beneath.allowed_access &= ACCESS_FILE;
    bool ok = syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &beneath, 0) == 0;
    close(beneath.parent_fd);
    return ok;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

/* Landlock's ABI version in use; 0: the kernel has none. */
static int restrict_writing(const char *const *folders, size_t n)
{
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    if (abi <= 0 || SANITIZED)
        return 0;
    const struct landlock_ruleset_attr handled = {.handled_access_fs = rights_of((int)abi)};
    int rules = (int)syscall(SYS_landlock_create_ruleset, &handled, sizeof handled.handled_access_fs, 0);
    if (rules < 0)
        return 0;
    bool ok = true;
    for (size_t i = 0; i < n; i++)
        ok = ok && (!folders[i][0] || allow(rules, folders[i], handled.handled_access_fs));
    ok = ok && syscall(SYS_landlock_restrict_self, rules, 0) == 0;
    close(rules);
    return ok ? (int)abi : 0;
}

/* ---- the whole ---- */

typedef struct {
    int (*make)(void *);
    void *arg;
    int result;
} rd_ringless;

/* Where the kernel has no seccomp the sandbox will have none either, so that a ring does no harm. */
static void *sandbox_ringless(void *ringless)
{
    rd_ringless *r = ringless;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0)
        set_filter(rings, NO_RINGS, false);
    r->result = r->make(r->arg);
    return NULL;
}

int rd_sandbox_without_rings(int (*make)(void *), void *arg)
{
    rd_ringless r = {.make = make, .arg = arg};
    pthread_t thread;
    int err = pthread_create(&thread, NULL, sandbox_ringless, &r);
    if (err)
        return -err;
    pthread_join(thread, NULL);
    return r.result;
}

bool rd_sandbox_gather(void) { return set_filter(refused, REFUSED, true); }

void rd_sandbox_enter(const char *const *folders, size_t n, bool every_thread, char told[RD_SANDBOX_TEXT])
{
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
        snprintf(told, RD_SANDBOX_TEXT, "none: %s", strerror(errno));
        return;
    }
    int abi = restrict_writing(folders, n); /* before the filter, which may refuse Landlock's calls later */
    bool filter = set_filter(refused, REFUSED, every_thread);
    snprintf(told, RD_SANDBOX_TEXT, "%s, %s", filter ? "seccomp" : "no seccomp", abi ? "Landlock" : "no Landlock");
}
