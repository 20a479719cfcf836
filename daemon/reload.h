/* SIGHUP: what the config file and its files say now. */
#ifndef RD_RELOAD_H
#define RD_RELOAD_H

#include "daemon/server.h"

/* The log has a line for each change, for what ends with it, and for what stays until a restart. */
void rd_reload(rd_server *s);

/* The rule of each URL that is served, by the lists of the config. False: no memory, and the rule before stays. */
bool rd_gate_open_url(rd_server *s, uint64_t i);

#endif
