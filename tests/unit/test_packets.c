/* The packets that pass descriptors, against golden bytes that a generator made from PROTOCOL.md alone: both ways. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/codec.h"

#define SESSION UINT64_C(0x0123456789abcdef)
#define HANDLE ((UINT64_C(1) << 63) + 1)

enum { MAX_PACKET = RP_SIDE_SIZE + RP_ERROR_SIZE + RP_MAX_FIELD + RP_MAX_TEXT };

typedef struct {
    const char *name;
    rp_side packet;
    rp_fault fault;
} expected;

static expected table[] = {
    {"attach", {.kind = RP_SIDE_ATTACH, .value = SESSION}, {0}}, /* and a token */
    {"attached", {.reply = true, .kind = RP_SIDE_ATTACH}, {0}},
    {"refused", {.reply = true, .kind = RP_SIDE_ATTACH, .status = RP_AUTH}, {0}}, /* and a fault */
    {"file", {.kind = RP_SIDE_FILE}, {0}},
    {"filed", {.reply = true, .kind = RP_SIDE_FILE, .value = HANDLE, .size = 12}, {0}},
    {"arena", {.kind = RP_SIDE_ARENA, .value = 5000}, {0}},
    {"arena_made", {.reply = true, .kind = RP_SIDE_ARENA, .value = HANDLE + 1, .size = 8192}, {0}},
    {"drop", {.kind = RP_SIDE_DROP, .value = HANDLE + 1}, {0}},
    {"device", {.kind = RP_SIDE_DEVICE}, {0}}, /* and a handle */
    {"device_uuid",
     {.kind = RP_SIDE_DEVICE, .uuid = {16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31}},
     {0}}, /* the same */
    {"device_opened", {.reply = true, .kind = RP_SIDE_DEVICE, .value = HANDLE + 2, .size = 2 << 20}, {0}},
    {"device_fd", {.kind = RP_SIDE_DEVICE_FD, .value = 2 << 20}, {0}},
    {"device_fd_opened", {.reply = true, .kind = RP_SIDE_DEVICE_FD, .value = HANDLE + 3, .size = 2 << 20}, {0}},
};
enum { PACKETS = sizeof table / sizeof table[0] };

static uint8_t golden[PACKETS][MAX_PACKET];
static size_t golden_len[PACKETS];

static int setup(void **state)
{
    (void)state;
    for (size_t i = 0; i < RP_TOKEN; i++)
        table[0].packet.token[i] = (uint8_t)(0xa0 + i);
    for (size_t i = 0; i < PACKETS; i++)
        for (uint8_t k = 0; k < RP_DEVICE_HANDLE && table[i].packet.kind == RP_SIDE_DEVICE && !table[i].packet.reply; k++)
            table[i].packet.device[k] = k;
    rp_fail(&table[2].fault, RP_AUTH, "token", 0, "no session of this user waits for an fdpass channel");
    FILE *in = fopen("tests/golden/packets.txt", "r");
    char line[2 * MAX_PACKET + 64];
    size_t n = 0;
    while (in && fgets(line, sizeof line, in)) {
        char name[32];
        if (line[0] == '#')
            continue;
        const char *hex = strrchr(line, ' ');
        if (n == PACKETS || !hex || sscanf(line, "%31s", name) != 1 || strcmp(name, table[n].name) != 0)
            return -1;
        for (const char *p = hex + 1; isxdigit((unsigned char)p[0]) && golden_len[n] < MAX_PACKET; p += 2)
            golden[n][golden_len[n]++] = (uint8_t)strtoul((char[]){p[0], p[1], 0}, NULL, 16);
        n++;
    }
    if (in)
        fclose(in);
    return n == PACKETS ? 0 : -1;
}

static void encodes(void **state)
{
    (void)state;
    for (size_t i = 0; i < PACKETS; i++) {
        uint8_t out[MAX_PACKET];
        size_t len = rp_put_side(out, &table[i].packet);
        if (table[i].packet.status)
            len += rp_put_fault(out + len, &table[i].fault);
        assert_int_equal(len, golden_len[i]);
        assert_memory_equal(out, golden[i], len);
    }
}

static void decodes(void **state)
{
    (void)state;
    for (size_t i = 0; i < PACKETS; i++) {
        const rp_side *want = &table[i].packet;
        rp_side got;
        rp_fault e = {0}, f;
        rp_err err = want->reply ? rp_get_side_reply(golden[i], golden_len[i], &got, &e, &f)
                                 : rp_get_side(golden[i], golden_len[i], &got, &f);
        assert_int_equal(err, RP_OK);
        assert_int_equal(got.kind, want->kind);
        assert_true(got.value == want->value && got.size == want->size);
        assert_memory_equal(got.token, want->token, RP_TOKEN);
        assert_memory_equal(got.device, want->device, RP_DEVICE_HANDLE);
        assert_memory_equal(got.uuid, want->uuid, RP_UUID);
        assert_int_equal(e.code, want->status);
        assert_string_equal(e.field, table[i].fault.field);
        assert_string_equal(e.text, table[i].fault.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(encodes), cmocka_unit_test(decodes)};
    return cmocka_run_group_tests(tests, setup, NULL);
}
