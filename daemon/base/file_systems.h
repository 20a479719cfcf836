/* Which file systems the daemon reads for clients, by what fstatfs says of a passed descriptor.
 *
 * A read of a local disk or of memory ends. A file system that a user runs (FUSE) answers when that user likes, a network's
 * when a server does. Files of /proc and the like show what the reader may see instead of what their opener may. So the last
 * are never read, and the others only if the configuration allows it. Otherwise the client reads them itself and sends the
 * bytes, which costs one copy through the socket. */
#ifndef RD_FILE_SYSTEMS_H
#define RD_FILE_SYSTEMS_H

#include "proto/types.h"

typedef enum { RD_FILES_LOCAL, RD_FILES_NETWORK, RD_FILES_ANY } rd_files_from; /* each includes those before it */

/* May the daemon read files of the file system of this number (statfs.f_type)? Errors: IO (file; limit = the number). */
rp_err rd_file_system_check(uint64_t number, rd_files_from from, rp_fault *f);

#endif
