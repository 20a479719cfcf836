#include "daemon/base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static atomic_int level_now = RD_LOG_INFO;

void rd_log_set_level(rd_log_level level) { atomic_store(&level_now, (int)level); }

size_t rd_log_escape(char *out, size_t cap, const char *text)
{
    static const char hex[] = "0123456789abcdef";
    size_t n = 0;
    for (const unsigned char *p = (const unsigned char *)text; *p && n + 5 <= cap; p++) {
        if (*p >= 0x20 && *p < 0x7f) {
            out[n++] = (char)*p;
            continue;
        }
        out[n++] = '\\';
        out[n++] = 'x';
        out[n++] = hex[*p >> 4];
        out[n++] = hex[*p & 15];
    }
    if (cap)
        out[n] = '\0';
    return n;
}

/* Is stderr the journal's socket? What a service starts has the variable, also if its stderr is a file (systemd.exec(5)). */
static bool is_journal(void)
{
    const char *stream = getenv("JOURNAL_STREAM");
    unsigned long long device, inode;
    struct stat st;
    return stream && sscanf(stream, "%llu:%llu", &device, &inode) == 2 && fstat(STDERR_FILENO, &st) == 0 &&
           st.st_dev == device && st.st_ino == inode;
}

void rd_log(rd_log_level level, const char *fmt, ...)
{
    /* sd-daemon(3): the journal reads the priority from <N>; on a terminal a word stands there */
    static const char *const journal[] = {"<3>", "<4>", "<6>", "<7>"};
    static const char *const words[] = {"reduced: error: ", "reduced: warning: ", "reduced: ", "reduced: debug: "};
    if ((int)level > atomic_load(&level_now))
        return;
    char text[1000], line[1100];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    int n = snprintf(line, sizeof line, "%s", is_journal() ? journal[level] : words[level]);
    size_t len = (size_t)n + rd_log_escape(line + n, sizeof line - (size_t)n - 1, text);
    line[len++] = '\n';
    /* one write: lines of several threads do not mix; a closed stderr is not an error */
    if (write(STDERR_FILENO, line, len) < 0)
        return;
}
