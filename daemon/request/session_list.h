/* The sessions at one moment as entries for QUERY: the clients of the daemon, and how much each uses it. */
#ifndef RD_SESSION_LIST_H
#define RD_SESSION_LIST_H

#include "daemon/state/session.h"
#include "daemon/telemetry/processes_json.h"
#include "daemon/telemetry/stats.h"
#include "proto/codec.h"

/* Any thread: an answer of the session leaves. */
void rd_session_count(rd_session *x, const rd_record *a);

/* Those that `viewer` may see, and how many there are. */
void rd_session_list_put(const rd_sessions *s, const rd_session *viewer, rp_writer *w);

/* The loop: those of processes of this machine, as an array to be freed. NULL: none, or no memory. */
rd_process *rd_session_list_processes(const rd_sessions *s, size_t *n);

#endif
