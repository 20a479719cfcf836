/* Rights that the daemon's process gives up before it reads bytes of peers.
 *
 * A seccomp filter refuses (EPERM) calls that no part of the daemon makes, in every thread. A thread that opens devices is left
 * out until rd_sandbox_gather, as the driver may start a program. Landlock lets the calling thread, and those that it starts,
 * write only below the given folders; reading and open descriptors are not affected. Both are plain system calls and need no
 * library. On a kernel without one of them, that one is left out. */
#ifndef RD_SANDBOX_H
#define RD_SANDBOX_H

#include <stdbool.h>
#include <stddef.h>

enum { RD_SANDBOX_TEXT = 80 };

/* `folders`: n paths below which files may be made, written and removed; "" and missing folders are skipped. `told` says
 * what is on, for the log. */
void rd_sandbox_enter(const char *const *folders, size_t n, bool every_thread, char told[RD_SANDBOX_TEXT]);

/* make(arg)'s result, or a negative errno. Where it runs, io_uring is refused: libuv from 1.45 on makes a ring for each loop,
 * would abort when the sandbox later refuses it, and does without one that it never got. A thread of its own runs it, because
 * this one may still start a thread that opens devices, which must not inherit anything. */
int rd_sandbox_without_rings(int (*make)(void *), void *arg);

/* Apply the filter to every thread now. The caller has already entered the sandbox. */
bool rd_sandbox_gather(void);

#endif
