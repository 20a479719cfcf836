/* Memory that outlives the daemon, and the record behind it: what comes back is whole, or refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/state/kept.h"

static rd_kept_record some_record(uint64_t bytes)
{
    return (rd_kept_record){.uid = 1000,
                            .id = 77,
                            .since_ns = 5,
                            .until_ns = UINT64_MAX,
                            .checksum = 12,
                            .store = {.dtype = RP_F64,
                                      .ttl_ms = 9,
                                      .bytes = bytes,
                                      .name_len = 3,
                                      .name = "abc",
                                      .shape = {.dims = 2, .order = 1, .len = {bytes / 16, 2}}}};
}

static void a_record_survives_its_bytes(void **state)
{
    (void)state;
    rd_kept_record r = some_record(32), back;
    uint8_t bytes[RD_KEPT_RECORD];
    rd_kept_put(bytes, &r);
    assert_null(rd_kept_get(bytes, &back));
    assert_memory_equal(back.store.name, "abc", 3);
    back.store.name = r.store.name;
    assert_int_equal(back.uid, 1000);
    assert_int_equal(back.id, 77);
    assert_int_equal(back.since_ns, 5);
    assert_true(back.until_ns == UINT64_MAX);
    assert_int_equal(back.checksum, 12);
    assert_int_equal(back.store.dtype, RP_F64);
    assert_int_equal(back.store.ttl_ms, 9);
    assert_int_equal(back.store.bytes, 32);
    assert_memory_equal(&back.store.shape, &r.store.shape, sizeof back.store.shape);
}

static void each_bit_of_a_record_counts(void **state)
{
    (void)state;
    rd_kept_record r = some_record(32), back;
    uint8_t bytes[RD_KEPT_RECORD];
    rd_kept_put(bytes, &r);
    for (size_t i = 0; i < 8 * sizeof bytes; i++) {
        bytes[i / 8] ^= (uint8_t)(1 << i % 8);
        assert_non_null(rd_kept_get(bytes, &back));
        bytes[i / 8] ^= (uint8_t)(1 << i % 8);
    }
    assert_null(rd_kept_get(bytes, &back));
}

/* Signed again, each is refused for what it says. */
static const char *refusal(size_t at, uint8_t by)
{
    rd_kept_record r = some_record(32), back;
    uint8_t bytes[RD_KEPT_RECORD];
    rd_kept_put(bytes, &r);
    bytes[at] ^= by;
    rd_kept_sum(bytes);
    const char *why = rd_kept_get(bytes, &back);
    return why ? why : "";
}

static void what_a_record_says_is_checked(void **state)
{
    (void)state;
    assert_string_equal(refusal(0, 1), "it has no record");
    assert_string_equal(refusal(8, 3), "its record has an unknown version");
    assert_string_equal(refusal(24, 77), "its record is not one of committed data"); /* no id */
    assert_string_equal(refusal(RD_KEPT_RECORD - 1, 1), "its record has bytes that this version does not know");
    assert_string_equal(refusal(13, 8), "its record has bytes that this version does not know"); /* length of the description */
    assert_string_equal(refusal(64, 0x40), "its record describes no array");                     /* type */
    assert_string_equal(refusal(72, 1), "its record describes no array");                        /* bytes */
    assert_string_equal(refusal(80, 'a' ^ '/'), "its record describes no array");                /* name */
    assert_string_equal(refusal(16, 1), "");                                                     /* another owner */
}

static void each_bit_and_the_length_change_the_checksum(void **state)
{
    (void)state;
    enum { MOST = 200 };
    uint8_t data[MOST] = {0};
    for (int i = 0; i < MOST; i++)
        data[i] = (uint8_t)(i * 7);
    for (size_t n = 0; n < MOST; n++) {
        uint64_t sum = rd_checksum(data, n);
        assert_true(rd_checksum(data, n + 1) != sum);
        for (size_t i = 0; i < 8 * n; i++) {
            data[i / 8] ^= (uint8_t)(1 << i % 8);
            assert_true(rd_checksum(data, n) != sum);
            data[i / 8] ^= (uint8_t)(1 << i % 8);
        }
    }
    uint8_t zeros[64] = {0};
    assert_true(rd_checksum(zeros, 63) != rd_checksum(zeros, 64));
}

/* ---- memory ---- */
static rd_kept sealed(uint64_t bytes)
{
    rd_kept k;
    rd_kept_record r = some_record(bytes);
    assert_true(rd_kept_make(&k, bytes));
    for (uint64_t i = 0; i < bytes; i++)
        k.base[i] = (uint8_t)i;
    const uint8_t *before = k.base;
    assert_true(rd_kept_seal(&k, &r));
    assert_ptr_equal(k.base, before);
    return k;
}

static void sealed_memory_comes_back(void **state)
{
    (void)state;
    for (uint64_t bytes = 16; bytes < 70000; bytes *= 16) {
        rd_kept k = sealed(bytes), back;
        rd_kept_record r;
        assert_null(rd_kept_take(&back, dup(k.fd), &r));
        assert_int_equal(back.bytes, bytes);
        assert_memory_equal(back.base, k.base, bytes);
        assert_int_equal(r.store.bytes, bytes);
        rd_kept_free(&back);
        rd_kept_free(&k);
        rd_kept_free(&k);
    }
}

static void nobody_can_change_sealed_memory(void **state)
{
    (void)state;
    rd_kept k = sealed(64);
    assert_int_equal(pwrite(k.fd, "x", 1, 0), -1);
    assert_int_equal(errno, EPERM);
    assert_int_equal(ftruncate(k.fd, 1), -1);
    assert_ptr_equal(mmap(NULL, 64, PROT_WRITE, MAP_SHARED, k.fd, 0), MAP_FAILED);
    rd_kept_free(&k);
}

static void memory_that_is_not_whole_is_refused(void **state)
{
    (void)state;
    rd_kept k, back;
    rd_kept_record r;
    assert_true(rd_kept_make(&k, 64));
    assert_string_equal(rd_kept_take(&back, dup(k.fd), &r), "it is not sealed");
    fcntl(k.fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
    assert_string_equal(rd_kept_take(&back, dup(k.fd), &r), "it is not sealed"); /* it is mapped for writing */
    munmap(k.base, 64 + RD_KEPT_RECORD);
    k.base = NULL;
    fcntl(k.fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
    assert_string_equal(rd_kept_take(&back, dup(k.fd), &r), "it has no record");
    assert_int_equal(back.fd, -1);
    assert_null(back.base);
    rd_kept_free(&k);
}

/* Sealed, with a record that is right, but of other data. */
static void data_that_are_not_those_of_the_record_are_refused(void **state)
{
    (void)state;
    enum { BYTES = 64 };
    rd_kept k, back;
    rd_kept_record r = some_record(BYTES);
    assert_true(rd_kept_make(&k, BYTES));
    r.checksum = rd_checksum(k.base, BYTES);
    rd_kept_put(k.base + BYTES, &r);
    k.base[BYTES - 1] ^= 1;
    munmap(k.base, BYTES + RD_KEPT_RECORD);
    k.base = NULL;
    fcntl(k.fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
    assert_string_equal(rd_kept_take(&back, dup(k.fd), &r), "the checksum of its data is wrong");
    rd_kept_free(&k);
}

/* The same of a record for memory of another size. */
static void a_record_of_another_size_is_refused(void **state)
{
    (void)state;
    enum { BYTES = 64 };
    rd_kept k, back;
    rd_kept_record r = some_record(BYTES / 2);
    assert_true(rd_kept_make(&k, BYTES));
    r.checksum = rd_checksum(k.base, BYTES);
    rd_kept_put(k.base + BYTES, &r);
    munmap(k.base, BYTES + RD_KEPT_RECORD);
    k.base = NULL;
    fcntl(k.fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
    assert_string_equal(rd_kept_take(&back, dup(k.fd), &r), "its size is not that of its record");
    rd_kept_free(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_record_survives_its_bytes),
        cmocka_unit_test(each_bit_of_a_record_counts),
        cmocka_unit_test(what_a_record_says_is_checked),
        cmocka_unit_test(each_bit_and_the_length_change_the_checksum),
        cmocka_unit_test(sealed_memory_comes_back),
        cmocka_unit_test(nobody_can_change_sealed_memory),
        cmocka_unit_test(memory_that_is_not_whole_is_refused),
        cmocka_unit_test(data_that_are_not_those_of_the_record_are_refused),
        cmocka_unit_test(a_record_of_another_size_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
