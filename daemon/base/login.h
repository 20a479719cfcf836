/* Login names of the machine's users. */
#ifndef RD_LOGIN_H
#define RD_LOGIN_H

#include <stddef.h>

enum { RD_LOGIN = 33 }; /* bytes of a name: 32, what useradd allows, and its end */

/* The name of the user with this number, in decimal, in the file `path` (of the form of /etc/passwd); "": there is none. Only
 * the file is asked: a directory of users on another machine could keep the caller waiting. */
void rd_login_of(const char *path, const char *uid, char out[RD_LOGIN]);

#endif
