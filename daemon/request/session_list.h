/* The sessions at one moment as entries for QUERY: the daemon's clients, and how much each uses it. */
#ifndef RD_SESSION_LIST_H
#define RD_SESSION_LIST_H

#include "daemon/state/session.h"
#include "daemon/telemetry/processes_json.h"
#include "daemon/telemetry/stats.h"
#include "proto/codec.h"

/* Any thread: count an answer of the session. */
void rd_session_count(rd_session *x, const rd_record *a);

/* Writes the sessions that `viewer` may see, and their number. */
void rd_session_list_put(const rd_sessions *s, const rd_session *viewer, rp_writer *w);

/* The loop: sessions of processes on this machine, as an array to be freed. NULL: none, or no memory. */
rd_process *rd_session_list_processes(const rd_sessions *s, size_t *n);

#endif
