/* Stands in for interrupt.c, which needs a client: nobody presses Ctrl-C here, and no file has a deadline. */
#include <unistd.h>

#include "client/ctl/ctl.h"

bool ctl_interrupted(void) { return false; }

long ctl_read_some(int fd, void *space, size_t room, int *err, char why[CTL_WHY])
{
    const long n = read(fd, space, room);
    if (n < 0) {
        *err = REDUCE_E_IO;
        why[0] = 0;
    }
    return n;
}
