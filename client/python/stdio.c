/* The standard streams for a static nng inside a shared library (python.mk). */
#include <stdio.h>

FILE *nng_stdout, *nng_stderr;

__attribute__((constructor)) static void stdio_begin(void)
{
    nng_stdout = stdout;
    nng_stderr = stderr;
}
