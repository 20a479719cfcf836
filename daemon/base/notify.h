/* Notifications to systemd (sd_notify); nothing without systemd or with RD_WITH_SYSTEMD=0. */
#ifndef RD_NOTIFY_H
#define RD_NOTIFY_H

#include <stdint.h>

void rd_notify_ready(void);
void rd_notify_reloading(void); /* rd_notify_ready ends it */
void rd_notify_stopping(void);
void rd_notify_watchdog(void); /* if systemd watches */
void rd_notify_status(const char *text);

/* Seconds between two rd_notify_watchdog that keep systemd content, 0 if it does not watch. */
unsigned rd_notify_watchdog_period(void);

#endif
