/* STORE, WRITE, WRITE_AT, COMMIT, LIST and DROP: resident data (resident.h). */
#ifndef RD_ON_RESIDENT_H
#define RD_ON_RESIDENT_H

#include "daemon/request/requests.h"

/* ABORT of what the session is writing. False: it writes nothing of this handle. */
bool rd_resident_abort(const rd_request *r, uint64_t id);

#endif
