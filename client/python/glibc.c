/* What Debian's archives and headers take of glibc after 2.28, for programs that python.mk links for 2.28. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* By these names the headers of glibc 2.38 call strtol and its kin, which then know C23's binary numbers, too. The linker is
 * given the earlier names, because those of the headers would lead back here. */
#define OF_BEFORE(type, name)                                                  \
    type before_##name(const char *text, char **end, int base) __asm__(#name); \
    type __isoc23_##name(const char *text, char **end, int base);              \
    type __isoc23_##name(const char *text, char **end, int base) { return before_##name(text, end, base); }
OF_BEFORE(long, strtol)
OF_BEFORE(unsigned long, strtoul)
OF_BEFORE(long long, strtoll)
OF_BEFORE(unsigned long long, strtoull)

int __isoc99_vfscanf(FILE *f, const char *format, va_list list);
int __isoc99_vsscanf(const char *text, const char *format, va_list list);
int __isoc23_fscanf(FILE *f, const char *format, ...);
int __isoc23_sscanf(const char *text, const char *format, ...);

int __isoc23_fscanf(FILE *f, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    int n = __isoc99_vfscanf(f, format, list);
    va_end(list);
    return n;
}

int __isoc23_sscanf(const char *text, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    int n = __isoc99_vsscanf(text, format, list);
    va_end(list);
    return n;
}

size_t strlcpy(char *to, const char *from, size_t cap); /* glibc 2.38 */
extern char __libc_single_threaded;                     /* glibc 2.32 */
uint32_t arc4random(void);                              /* glibc 2.36 */

size_t strlcpy(char *to, const char *from, size_t cap)
{
    size_t length = strlen(from);
    if (cap) {
        size_t n = length < cap ? length : cap - 1;
        memcpy(to, from, n);
        to[n] = 0;
    }
    return length;
}

char __libc_single_threaded; /* 0: it may have threads */

uint32_t arc4random(void)
{
    uint32_t number;
    if (getrandom(&number, sizeof number, 0) != sizeof number)
        abort();
    return number;
}
