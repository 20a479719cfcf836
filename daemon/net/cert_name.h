/* The user that a certificate names: the common name (CN) of its subject.
 *
 * It is read from the parsed subject, field by field. A text of all fields in one line cannot tell them apart: an organisation
 * may be named "x, CN=root". */
#ifndef RD_CERT_NAME_H
#define RD_CERT_NAME_H

#include <mbedtls/x509.h>

#include "daemon/base/user_name.h"

/* NULL: `name` has the user's name. Otherwise why the certificate names no user, and `name` is "". */
const char *rd_cert_name(const mbedtls_x509_name *subject, char name[RD_USER_NAME + 1]);

#endif
