/* The log: lines on stderr. Any thread. */
#ifndef RD_LOG_H
#define RD_LOG_H

#include <stddef.h>

typedef enum { RD_LOG_ERROR, RD_LOG_WARN, RD_LOG_INFO, RD_LOG_DEBUG } rd_log_level;

/* Lines above this level are not written. Default: info. */
void rd_log_set_level(rd_log_level level);

/* One line. Bytes that a terminal or a log reader could interpret as control are written as \xNN, so a client's text
 * cannot forge lines. Cut at 1000 bytes. */
void rd_log(rd_log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* `text` escaped into out[0..cap), terminated; returns the length. */
size_t rd_log_escape(char *out, size_t cap, const char *text);

#endif
