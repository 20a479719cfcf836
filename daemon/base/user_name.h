/* Names of users that come from certificates (net/cert_name.h) and from the config (access.h). They appear in the log, in
 * lists, in keys and labels. So they have few characters, and none that ends a field, a label or a line. */
#ifndef RD_USER_NAME_H
#define RD_USER_NAME_H

#include <stdbool.h>
#include <stddef.h>

#define RD_USER_NAME 64                   /* bytes: X.520's limit of a common name */
enum { RD_USER_TEXT = RD_USER_NAME + 8 }; /* how lists name any user: "1000", "tls:NAME" or "tcp" */

/* Is it a valid name: 1 to RD_USER_NAME letters, digits and '.', '_', '-', '@', '+', beginning with a letter or a digit? NULL:
 * it is; else what is wrong with it. */
const char *rd_user_name_problem(const char *name, size_t n);

/* Do the names differ in case at most? Such names are different users that people easily confuse. */
bool rd_user_names_look_alike(const char *a, const char *b);

#endif
