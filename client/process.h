/* Which process this is. */
#ifndef RC_PROCESS_H
#define RC_PROCESS_H

#include <sys/types.h>

/* As getpid, without a system call: of a small sum those are a sixth. Any thread. */
pid_t rc_process(void);

#endif
