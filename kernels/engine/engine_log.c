/* Passes an engine's log lines to the function in its options. */
#include <stdarg.h>
#include <stdio.h>

#include "kernels/engine/engine.h"

void rk_log(const rk_options *o, rk_log_level level, const char *fmt, ...)
{
    if (!o->log)
        return;
    char text[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    o->log(o->log_arg, level, text);
}
