/* The standard streams for a static nng inside a shared library (python.mk). */
#include <stdio.h>

FILE *archive_stdout, *archive_stderr;

__attribute__((constructor)) static void stdio_begin(void)
{
    archive_stdout = stdout;
    archive_stderr = stderr;
}
