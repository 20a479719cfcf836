/* Names of users: which are names, what a certificate's subject says, and the users that have them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <mbedtls/asn1.h>
#include <mbedtls/oid.h>
#include <string.h>

#include "daemon/base/access.h"
#include "daemon/net/cert_name.h"
#include "daemon/state/users.h"

static char long_name[RD_USER_NAME + 2];

static int fill(void **state)
{
    (void)state;
    memset(long_name, 'x', sizeof long_name - 1);
    return 0;
}

static bool is_name(const char *text) { return rd_user_name_problem(text, strlen(text)) == NULL; }

static void names_are_of_few_characters(void **state)
{
    (void)state;
    static const char *const good[] = {"a", "0", "Alice", "host-7.example.org", "alice@example.org", "a+b_c.d-e@f"};
    static const char *const bad[] = {"",    ".a",  "-a",  "_a",  "@a",  "a b",       "a\tb",  "a\nb", "a\x7f", "a\"b", "a\\b",
                                      "a:b", "a/b", "a,b", "a=b", "a;b", "J\xc3\xa9", "a\xff", "a{b}", "a'b",   "a%b"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        assert_true(is_name(good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(is_name(bad[i]));
    assert_non_null(rd_user_name_problem("a\0b", 3));
    assert_false(is_name(long_name));
    assert_true(is_name(long_name + 1));
}

/* ---- subjects, as mbedTLS parses them ---- */
static mbedtls_x509_name field(const char *oid, int tag, const char *value)
{
    return (mbedtls_x509_name){.oid = {MBEDTLS_ASN1_OID, strlen(oid), (unsigned char *)oid},
                               .val = {tag, strlen(value), (unsigned char *)value}};
}

static void the_common_name_is_the_user(void **state)
{
    (void)state;
    char name[RD_USER_NAME + 1];
    static const int tags[] = {MBEDTLS_ASN1_UTF8_STRING, MBEDTLS_ASN1_PRINTABLE_STRING, MBEDTLS_ASN1_IA5_STRING};
    for (size_t i = 0; i < 3; i++) {
        mbedtls_x509_name other = field(MBEDTLS_OID_AT_ORGANIZATION, tags[i], "x, CN=root");
        mbedtls_x509_name cn = field(MBEDTLS_OID_AT_CN, tags[i], "alice");
        mbedtls_x509_name unit = field(MBEDTLS_OID_AT_ORG_UNIT, tags[i], "CN=root");
        other.next = &cn;
        cn.next = &unit;
        assert_null(rd_cert_name(&other, name));
        assert_string_equal(name, "alice");
    }
    mbedtls_x509_name longest = field(MBEDTLS_OID_AT_CN, MBEDTLS_ASN1_UTF8_STRING, long_name + 1);
    assert_null(rd_cert_name(&longest, name));
    assert_string_equal(name, long_name + 1);
}

static void refuses(const mbedtls_x509_name *subject, const char *why)
{
    char name[RD_USER_NAME + 1] = "before";
    const char *problem = rd_cert_name(subject, name);
    assert_non_null(problem);
    assert_non_null(strstr(problem, why));
    assert_string_equal(name, "");
}

static void subjects_that_name_nobody(void **state)
{
    (void)state;
    mbedtls_x509_name other = field(MBEDTLS_OID_AT_ORGANIZATION, MBEDTLS_ASN1_UTF8_STRING, "alice"), empty = {.next = NULL};
    refuses(&other, "no common name");
    refuses(&empty, "no common name");
    mbedtls_x509_name one = field(MBEDTLS_OID_AT_CN, MBEDTLS_ASN1_UTF8_STRING, "alice"), two = one;
    one.next = &two;
    refuses(&one, "two common names");
    static const int tags[] = {MBEDTLS_ASN1_BMP_STRING, MBEDTLS_ASN1_T61_STRING, MBEDTLS_ASN1_UNIVERSAL_STRING,
                               MBEDTLS_ASN1_OCTET_STRING};
    for (size_t i = 0; i < 4; i++) {
        mbedtls_x509_name wide = field(MBEDTLS_OID_AT_CN, tags[i], "alice");
        refuses(&wide, "string");
    }
    mbedtls_x509_name nothing = field(MBEDTLS_OID_AT_CN, MBEDTLS_ASN1_UTF8_STRING, "");
    refuses(&nothing, "empty");
    mbedtls_x509_name endless = field(MBEDTLS_OID_AT_CN, MBEDTLS_ASN1_UTF8_STRING, long_name);
    refuses(&endless, "longer than 64");
    mbedtls_x509_name cut = field(MBEDTLS_OID_AT_CN, MBEDTLS_ASN1_UTF8_STRING, "alice");
    cut.val.p = (unsigned char *)"root\0x";
    cut.val.len = 6;
    refuses(&cut, "other characters");
}

/* ---- users ---- */
static void names_have_numbers_that_no_uid_has(void **state)
{
    (void)state;
    rd_users u = {.names = 0};
    rd_user *alice = rd_user_get_named(&u, "alice"), *bob = rd_user_get_named(&u, "bob");
    assert_ptr_equal(rd_user_get_named(&u, "alice"), alice);
    assert_true(alice->uid > UINT32_MAX && bob->uid > UINT32_MAX && alice->uid != bob->uid && bob->uid != RD_NETWORK);
    assert_string_equal(alice->text, "tls:alice");
    rd_user *uid = rd_user_get(&u, UINT32_MAX), *network = rd_user_get(&u, RD_NETWORK);
    assert_string_equal(uid->text, "4294967295");
    assert_string_equal(network->text, "tcp");
    uint64_t first = alice->uid;
    rd_user_put(&u, alice);
    assert_ptr_equal(rd_user_find(&u, first), alice);
    rd_user_put(&u, alice);
    assert_null(rd_user_find(&u, first));
    alice = rd_user_get_named(&u, "alice");
    assert_true(alice->uid > bob->uid); /* what the old number had is gone with it */
    rd_user *all[] = {alice, bob, uid, network};
    for (size_t i = 0; i < 4; i++)
        rd_user_put(&u, all[i]);
    assert_null(u.first);
}

static void names_that_differ_in_case_look_alike(void **state)
{
    (void)state;
    rd_users u = {.names = 0};
    rd_user *users[] = {rd_user_get(&u, 1000), rd_user_get(&u, RD_NETWORK), rd_user_get_named(&u, "alice")};
    assert_true(rd_user_looks_alike(&u, "ALICE") && rd_user_looks_alike(&u, "alicE"));
    assert_false(rd_user_looks_alike(&u, "alice") || rd_user_looks_alike(&u, "alicf") || rd_user_looks_alike(&u, "alice1"));
    assert_false(rd_user_looks_alike(&u, "tcp") || rd_user_looks_alike(&u, "TLS"));
    for (size_t i = 0; i < 3; i++)
        rd_user_put(&u, users[i]);
}

/* ---- lists ---- */
static void a_list_of_names_lets_in_whom_it_names(void **state)
{
    (void)state;
    rd_gate gate = {.n_members = 0};
    assert_true(rd_gate_lets_name(&gate, "bob")); /* no list */
    rd_names *list = &gate.allow.names;
    assert_null(rd_names_add(list, "alice"));
    assert_null(rd_names_add(list, "alice"));
    assert_true(rd_gate_lets_name(&gate, "alice"));
    assert_false(rd_gate_lets_name(&gate, "Alice") || rd_gate_lets_name(&gate, "bob") || rd_gate_lets_name(&gate, ""));
    assert_non_null(strstr(rd_names_add(list, "ALICE"), "other letters"));
    assert_non_null(strstr(rd_names_add(list, "two words"), "other characters"));
    assert_non_null(strstr(rd_names_add(list, long_name), "longer"));
    while (list->n < RD_MAX_IDS)
        assert_null(rd_names_add(list, "carol"));
    assert_string_equal(rd_names_add(list, "carol"), "at most 32 are allowed");
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_of_few_characters),
        cmocka_unit_test(the_common_name_is_the_user),
        cmocka_unit_test(subjects_that_name_nobody),
        cmocka_unit_test(names_have_numbers_that_no_uid_has),
        cmocka_unit_test(names_that_differ_in_case_look_alike),
        cmocka_unit_test(a_list_of_names_lets_in_whom_it_names),
    };
    return cmocka_run_group_tests(tests, fill, NULL);
}
