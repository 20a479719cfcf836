/* Default places, of a user's daemon and of the system's. */
#ifndef RD_PATHS_H
#define RD_PATHS_H

#include <stdbool.h>
#include <stddef.h>

/* Default URL to listen on: ipc:///run/reduced/reduced.sock for the system, ipc://$XDG_RUNTIME_DIR/reduced.sock for a
 * user, ipc:///tmp/reduced-UID/reduced.sock for a user without a runtime directory of its own (mode 0700). False: does not
 * fit. */
bool rd_default_url(char *out, size_t cap);

/* Default config file; it need not exist. False: there is none (no HOME) or it does not fit. */
bool rd_default_config(char *out, size_t cap);

/* The path of an ipc:// URL, or NULL for another scheme. */
const char *rd_ipc_path(const char *url);

/* The folder of a file with an absolute path; "" for NULL and "". `out` has room for the path. */
const char *rd_folder_of(const char *path, char *out);

bool rd_is_tls(const char *url);
bool rd_is_plain_tcp(const char *url);

/* Is it http://ADDRESS:PORT? *loopback: only this machine reaches the address. False for names, which may mean any address. */
bool rd_is_http(const char *url, bool *loopback);

/* Create the directory of a default path if it is missing (/tmp/reduced-UID with mode 0700, /run/reduced if root). The one in
 * /tmp must belong to this user, without access for others, because any user can create names there. */
bool rd_prepare_directory(const char *socket_path, char *why, size_t cap);

#endif
