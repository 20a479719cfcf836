#include "daemon/base/notify.h"

#if RD_WITH_SYSTEMD
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <systemd/sd-daemon.h>

#include "proto/clock.h"

void rd_notify_ready(void) { sd_notify(0, "READY=1"); }

void rd_notify_reloading(void) { sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64, rp_now_ns() / 1000); }

void rd_notify_stopping(void) { sd_notify(0, "STOPPING=1"); }

void rd_notify_watchdog(void)
{
    if (rd_notify_watchdog_period())
        sd_notify(0, "WATCHDOG=1");
}

void rd_notify_status(const char *text) { sd_notifyf(0, "STATUS=%s", text); }

unsigned rd_notify_watchdog_period(void)
{
    uint64_t us;
    if (sd_watchdog_enabled(0, &us) <= 0)
        return 0;
    uint64_t half = us / 2000000; /* half the limit, as sd_watchdog_enabled(3) recommends */
    return half ? (unsigned)half : 1;
}

enum { STORE_TEXT = 320 }; /* a name has at most 255 bytes */

bool rd_notify_store(const char *name, int fd)
{
    char text[STORE_TEXT];
    snprintf(text, sizeof text, "FDSTORE=1\nFDNAME=%s", name);
    return sd_pid_notify_with_fds(0, 0, text, &fd, 1) > 0;
}

bool rd_notify_unstore(const char *name)
{
    char text[STORE_TEXT];
    snprintf(text, sizeof text, "FDSTOREREMOVE=1\nFDNAME=%s", name);
    return sd_notify(0, text) > 0;
}

unsigned rd_notify_store_room(void)
{
    const char *room = getenv("FDSTORE");
    if (!getenv("NOTIFY_SOCKET"))
        return 0;
    return room ? (unsigned)strtoul(room, NULL, 10) : UINT_MAX;
}

#else

void rd_notify_ready(void) {}
void rd_notify_reloading(void) {}
void rd_notify_stopping(void) {}
void rd_notify_watchdog(void) {}
void rd_notify_status(const char *text) { (void)text; }
unsigned rd_notify_watchdog_period(void) { return 0; }

bool rd_notify_store(const char *name, int fd)
{
    (void)name, (void)fd;
    return false;
}

bool rd_notify_unstore(const char *name)
{
    (void)name;
    return false;
}

unsigned rd_notify_store_room(void) { return 0; }

#endif
