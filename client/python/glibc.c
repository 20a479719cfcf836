/* What Debian's libstdc++ takes of glibc after 2.28, for a program that the wheel links for 2.28 (python.mk). */
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>

extern char __libc_single_threaded; /* glibc 2.32 */
uint32_t arc4random(void);          /* glibc 2.36 */

char __libc_single_threaded; /* 0: it may have threads */

uint32_t arc4random(void)
{
    uint32_t number;
    if (getrandom(&number, sizeof number, 0) != sizeof number)
        abort();
    return number;
}
