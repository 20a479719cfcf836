/* What the daemon's process gives up before it reads bytes of strangers.
 *
 * A seccomp filter refuses (EPERM) calls that no part of the daemon makes, in every thread. A thread that opens devices is left
 * out until rd_sandbox_gather, as the driver may start a program. Landlock lets the calling thread, and those that it starts,
 * write to the folders below alone; reading and open descriptors stay as they are. Both are the kernel's, by its own calls, so
 * no library is needed. Each is left out where the kernel has none. */
#ifndef RD_SANDBOX_H
#define RD_SANDBOX_H

#include <stdbool.h>
#include <stddef.h>

enum { RD_SANDBOX_TEXT = 80 };

/* `folders`: n paths below which files may be made, written and removed; "" and what does not exist is left out. `told` says
 * what is on, for the log. */
void rd_sandbox_enter(const char *const *folders, size_t n, bool every_thread, char told[RD_SANDBOX_TEXT]);

/* The filter for every thread now. The caller has entered the sandbox. */
bool rd_sandbox_gather(void);

#endif
