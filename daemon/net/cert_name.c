#include "daemon/net/cert_name.h"

#include <mbedtls/asn1.h>
#include <mbedtls/oid.h>
#include <string.h>

static bool is_common_name(const mbedtls_x509_name *x) { return MBEDTLS_OID_CMP(MBEDTLS_OID_AT_CN, &x->oid) == 0; }

/* String types in which ASCII characters are single bytes. BMPString (two bytes a character) and T.61 are not supported. */
static bool is_byte_string(int tag)
{
    return tag == MBEDTLS_ASN1_UTF8_STRING || tag == MBEDTLS_ASN1_PRINTABLE_STRING || tag == MBEDTLS_ASN1_IA5_STRING;
}

const char *rd_cert_name(const mbedtls_x509_name *subject, char name[RD_USER_NAME + 1])
{
    const mbedtls_x509_name *found = NULL;
    name[0] = '\0';
    for (const mbedtls_x509_name *x = subject; x; x = x->next) {
        if (!is_common_name(x))
            continue;
        if (found)
            return "there are two common names";
        found = x;
    }
    if (!found)
        return "there is no common name";
    if (!is_byte_string(found->val.tag))
        return "the name is not a UTF-8, printable or IA5 string";
    const char *problem = rd_user_name_problem((const char *)found->val.p, found->val.len);
    if (problem)
        return problem;
    memcpy(name, found->val.p, found->val.len);
    name[found->val.len] = '\0';
    return NULL;
}
