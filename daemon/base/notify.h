/* Notifications to systemd (sd_notify); nothing without systemd or with RD_WITH_SYSTEMD=0. */
#ifndef RD_NOTIFY_H
#define RD_NOTIFY_H

#include <stdbool.h>
#include <stdint.h>

void rd_notify_ready(void);
void rd_notify_reloading(void); /* rd_notify_ready ends it */
void rd_notify_stopping(void);
void rd_notify_watchdog(void); /* only if systemd's watchdog is on */
void rd_notify_status(const char *text);

/* Interval of rd_notify_watchdog in seconds; 0: systemd's watchdog is off. */
unsigned rd_notify_watchdog_period(void);

/* ---- the file descriptor store ----
 * The service manager keeps descriptors under names for the next process of the service, whatever ends this one. Both are
 * sent without an answer; false: not sent, because its queue is full. */
bool rd_notify_store(const char *name, int fd);
bool rd_notify_unstore(const char *name);

/* How many descriptors it keeps at most; 0: none. systemd before version 254 does not say: no limit. */
unsigned rd_notify_store_room(void);

#endif
