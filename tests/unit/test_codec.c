/* The codec against the golden messages (written by a generator that knows only PROTOCOL.md), both ways, and at every
 * bound: truncated, extended, reserved bytes set. Messages lie against an unmapped page, so reading past one crashes. */
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/decode.h"

#define SESSION UINT64_C(0x0123456789abcdef)
enum { MAX_GOLDEN = 80, MAX_BYTES = 512 };

typedef struct {
    char name[32];
    uint8_t bytes[MAX_BYTES];
    size_t len;
} golden;

static golden goldens[MAX_GOLDEN];
static size_t n_goldens;
static uint8_t *page; /* page[0..MAX_BYTES) is readable, page[MAX_BYTES] is not */
static uint8_t *encoded;

static int setup(void **state)
{
    (void)state;
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    uint8_t *two = mmap(NULL, 2 * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    encoded = malloc(T_MAX_MESSAGE);
    FILE *in = fopen("tests/golden/messages.txt", "r");
    if (!in || !encoded || two == MAP_FAILED || mprotect(two + size, size, PROT_NONE))
        return -1;
    page = two + size - MAX_BYTES;
    char line[2 * MAX_BYTES + 64], hex[2 * MAX_BYTES + 1];
    while (fgets(line, sizeof line, in)) {
        golden *g = &goldens[n_goldens];
        if (line[0] == '#')
            continue;
        if (n_goldens == MAX_GOLDEN || sscanf(line, "%31s %1024s", g->name, hex) != 2)
            return -1;
        for (const char *p = hex; p[0] && p[1]; p += 2)
            g->bytes[g->len++] = (uint8_t)strtoul((char[]){p[0], p[1], 0}, NULL, 16);
        n_goldens++;
    }
    fclose(in);
    return n_goldens ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    free(encoded);
    return 0;
}

static const golden *find(const char *name)
{
    for (size_t i = 0; i < n_goldens; i++)
        if (strcmp(goldens[i].name, name) == 0)
            return &goldens[i];
    fail_msg("no golden message '%s'", name);
    return NULL;
}

/* Decode a copy that ends where readable memory ends. */
static rp_err decode(const uint8_t *bytes, size_t len, size_t *n, rp_fault *f)
{
    memcpy(page + MAX_BYTES - len, bytes, len);
    return t_decode(page + MAX_BYTES - len, len, encoded, n, f);
}

static void set_body_len(uint8_t *msg, size_t len)
{
    for (int i = 0; i < 8; i++)
        msg[32 + i] = (uint8_t)((uint64_t)(len - RP_HEADER_SIZE) >> (8 * i));
}

/* ---- encoding: the structs that the golden messages stand for ---- */
static uint8_t *body; /* the message being built */
static size_t body_len;

static void begin_message(uint8_t *out) { body = out + RP_HEADER_SIZE, body_len = 0; }
static void bytes(const void *p, size_t n)
{
    memcpy(body + body_len, p, n);
    body_len += n;
}

static void check(const char *name, uint8_t *out, rp_header h)
{
    const golden *g = find(name);
    h.body_len = body_len;
    rp_put_header(out, &h);
    assert_int_equal(g->len, RP_HEADER_SIZE + body_len);
    assert_memory_equal(out, g->bytes, g->len);
}

static void encodes_hello(void **state)
{
    (void)state;
    uint8_t out[MAX_BYTES];
    begin_message(out);
    body_len = rp_put_hello(body, &(rp_hello){1, 1, RP_PRIORITY_NORMAL, 6, "golden"});
    check("hello", out, (rp_header){.version = 1, .type = RP_MSG_HELLO, .id = 1});
    begin_message(out);
    body_len = rp_put_hello(body, &(rp_hello){1, 3, RP_PRIORITY_NORMAL, 0, NULL});
    check("hello_wide", out, (rp_header){.version = 3, .type = RP_MSG_HELLO, .id = 2});
    begin_message(out);
    body_len = rp_put_hello(body, &(rp_hello){1, 1, RP_PRIORITY_BACKGROUND, 6, "backup"});
    check("hello_background", out, (rp_header){.version = 1, .type = RP_MSG_HELLO, .id = 1});

    rp_header h = {.version = 1, .type = RP_MSG_HELLO, .reply = true, .session = SESSION, .id = 1};
    rp_welcome w = {.version = 1,
                    .max_data = RP_MAX_DATA,
                    .chunk_hint = RP_CHUNK_HINT,
                    .max_inflight = RP_MAX_INFLIGHT,
                    .max_streams = RP_MAX_STREAMS,
                    .session = SESSION,
                    .token = "\xa0\xa1\xa2\xa3\xa4\xa5\xa6\xa7\xa8\xa9\xaa\xab\xac\xad\xae\xaf",
                    .server_len = 13,
                    .server = "reduced 0.1.0"};
    begin_message(out);
    body_len = rp_put_welcome(body, &w);
    check("welcome", out, h);
    begin_message(out);
    w.priority = RP_PRIORITY_BACKGROUND;
    body_len = rp_put_welcome(body, &w);
    check("welcome_background", out, h);
}

static void encodes_ping_and_query(void **state)
{
    (void)state;
    uint8_t out[MAX_BYTES];
    begin_message(out);
    bytes("\0\1\2\3\4\5\6\7", 8);
    check("ping", out, (rp_header){.version = 1, .type = RP_MSG_PING, .id = UINT64_MAX});
    check("pong", out, (rp_header){.version = 1, .type = RP_MSG_PING, .reply = true, .id = UINT64_MAX});
    begin_message(out);
    body_len = rp_put_query(body, RP_TOPIC_STATUS);
    check("query_status", out, (rp_header){.version = 1, .type = RP_MSG_QUERY, .session = SESSION, .id = 4});
    begin_message(out);
    body_len = rp_put_query(body, RP_TOPIC_INFO);
    check("query_info", out, (rp_header){.version = 1, .type = RP_MSG_QUERY, .session = SESSION, .id = 3});

    begin_message(out);
    rp_writer w = {.out = body, .cap = MAX_BYTES - RP_HEADER_SIZE};
    rp_entry e[] = {{.kind = RP_KIND_U64, .key_len = 15, .key = "requests.reduce", .u64 = (UINT64_C(1) << 63) + 5},
                    {.kind = RP_KIND_F64, .key_len = 11, .key = "latency.p50", .f64 = 0.125},
                    {.kind = RP_KIND_TEXT, .key_len = 6, .key = "device", .text_len = 4, .text = "Xeon"}};
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(rp_put_entry(&w, &e[i]), RP_OK);
    body_len = w.used;
    check("entries", out, (rp_header){.version = 1, .type = RP_MSG_QUERY, .reply = true, .session = SESSION, .id = 4});
}

static void encodes_reduce(void **state)
{
    (void)state;
    uint8_t out[MAX_BYTES];
    begin_message(out);
    body_len = rp_put_spec(body, &(rp_spec){.op = RP_OP_SUM, .dtype = RP_F32, .rows = 1, .row_len = 3});
    bytes((float[]){1.5f, 2.25f, -0.5f}, 12);
    check("reduce", out, (rp_header){.version = 1, .type = RP_MSG_REDUCE, .session = SESSION, .id = 2});
    begin_message(out);
    body_len = rp_put_spec(body, &(rp_spec){.op = RP_OP_ARGMAX,
                                            .dtype = RP_I16,
                                            .out = RP_U64,
                                            .nan = RP_NAN_OMIT,
                                            .flags = RP_STATES_IN | RP_STATES_OUT,
                                            .rows = 2,
                                            .index_base = UINT64_C(1) << 60});
    check("reduce_all", out, (rp_header){.version = 1, .type = RP_MSG_REDUCE, .time_ms = 1500, .session = SESSION, .id = 5});

    rp_header reply = {.version = 1, .type = RP_MSG_REDUCE, .reply = true, .session = SESSION, .id = 2};
    begin_message(out);
    body_len = rp_put_result(body, &(rp_result){.dtype = RP_F64,
                                                .backend = RP_BACKEND_CPU,
                                                .path = RP_PATH_INLINE,
                                                .cell_size = 8,
                                                .cells = 1,
                                                .count = 3,
                                                .queue_ns = 1000,
                                                .compute_ns = 2000});
    bytes((double[]){3.25}, 8);
    check("result", out, reply);
    begin_message(out);
    body_len = rp_put_result(body, &(rp_result){RP_I64, RP_BACKEND_CUDA, RP_PATH_INLINE, 8, 2, 2000, 1, 2, 3});
    bytes((int64_t[]){-1, 2}, 16);
    reply.id = 6;
    check("result_rows", out, reply);
    begin_message(out);
    body_len = rp_put_result(body, &(rp_result){0, RP_BACKEND_CPU, RP_PATH_INLINE, 32, 1, 2, 1, 2, 3});
    bytes((uint8_t[]){RP_STATE_COUNT, 0, 0, 0, RP_U8, 0, 0, 0}, 8);
    bytes((uint64_t[]){2, 1, 0}, 24);
    reply.id = 7;
    check("result_state", out, reply);
}

static void encodes_shapes(void **state)
{
    (void)state;
    uint8_t out[MAX_BYTES];
    rp_header h = {.version = 1, .type = RP_MSG_REDUCE, .session = SESSION, .id = 15};
    begin_message(out);
    body_len = rp_put_spec(body, &(rp_spec){.op = RP_OP_VAR,
                                            .dtype = RP_BF16,
                                            .out = RP_F32,
                                            .nan = RP_NAN_OMIT,
                                            .flags = RP_INITIAL | RP_MASK | RP_OFFSETS,
                                            .ddof = 1,
                                            .rows = 2,
                                            .row_len = 3,
                                            .initial = 0xc040});
    bytes((uint64_t[]){0, 1, 3}, 24);
    bytes((uint16_t[]){0x3f80, 0x4000, 0x7fc0}, 6);
    bytes("\1\0\2", 3);
    check("reduce_segments", out, h);
    begin_message(out);
    h.id = 16;
    body_len = rp_put_spec(body, &(rp_spec){.op = RP_OP_MINMAX, .dtype = RP_I8, .flags = RP_COLUMNS, .rows = 2, .row_len = 2});
    bytes("\1\xfe\3\4", 4);
    check("reduce_columns", out, h);
    begin_message(out);
    h.version = 2;
    h.id = 29;
    body_len = rp_put_spec(
        body, &(rp_spec){.op = RP_OP_MAX, .dtype = RP_U8, .flags = RP_COLUMNS, .rows = 2, .row_len = 3, .planes = 2});
    bytes("\0\5\2\3\4\1\6\13\10\11\12\7", 12);
    check("reduce_planes", out, h);
    begin_message(out);
    h.id = 37;
    body_len = rp_put_spec(body, &(rp_spec){.op = RP_OP_ARGMAX, .dtype = RP_U8, .rows = 2, .row_len = 3, .planes = 2});
    bytes("\0\5\2\3\4\1\6\13\10\11\12\7", 12);
    check("reduce_runs", out, h);
    begin_message(out);
    h.id = 32;
    body_len = rp_put_spec(body, &(rp_spec){.op = RP_OP_SUM, .dtype = RP_U8, .rows = 1, .row_len = 3, .device = 1});
    bytes("\1\2\3", 3);
    check("reduce_device", out, h);
    h.version = 1;
    begin_message(out);
    h.id = 18;
    body_len = rp_put_spec(
        body,
        &(rp_spec){
            .op = RP_OP_PROD, .dtype = RP_I16, .flags = RP_STATES_IN | RP_WRAP | RP_INITIAL, .rows = 1, .initial = 0xffff});
    check("reduce_wrap", out, h);
}

static void encodes_wide_cells(void **state)
{
    (void)state;
    uint8_t out[MAX_BYTES];
    rp_header h = {.version = 1, .type = RP_MSG_REDUCE, .reply = true, .session = SESSION, .id = 16};
    begin_message(out);
    body_len = rp_put_result(body, &(rp_result){RP_I64, RP_BACKEND_CPU, RP_PATH_INLINE, 16, 2, 4, 1, 2, 3});
    bytes((int64_t[]){1, 3, -2, 4}, 32);
    check("result_minmax", out, h);
    begin_message(out);
    h.id = 17;
    body_len = rp_put_result(body, &(rp_result){RP_U64, RP_BACKEND_CPU, RP_PATH_INLINE, 96, 1, 3, 1, 2, 3});
    bytes((uint64_t[]){3, 0, 1, 0, 2, 0, 4, 6, 0}, 72);
    bytes((double[]){2, 8.0 / 3, 1.632993161855452}, 24);
    check("result_stats", out, h);
}

static void encodes_streams(void **state)
{
    (void)state;
    uint8_t out[MAX_BYTES];
    rp_header h = {.version = 1, .type = RP_MSG_BEGIN, .session = SESSION, .id = 8};
    begin_message(out);
    body_len = rp_put_spec(body, &(rp_spec){.op = RP_OP_MAX, .dtype = RP_F16, .out = RP_F32, .nan = RP_NAN_ERROR, .rows = 1});
    check("begin", out, h);
    begin_message(out);
    body_len = rp_put_u64(body, 9);
    h.reply = true;
    check("begun", out, h);
    h = (rp_header){.version = 1, .type = RP_MSG_BEGIN, .session = SESSION, .id = 19};
    begin_message(out);
    body_len = rp_put_spec(
        body, &(rp_spec){.op = RP_OP_MEAN, .dtype = RP_U16, .flags = RP_MASK | RP_INITIAL, .rows = 1, .initial = 7});
    check("begin_mask", out, h);

    h = (rp_header){.version = 1, .type = RP_MSG_APPEND, .session = SESSION, .id = 20};
    begin_message(out);
    body_len = rp_put_append(body, 10, 0);
    bytes("\x05\x00\x06\x00\x01\x00", 6);
    check("append_mask", out, h);
    h.id = 9;
    begin_message(out);
    body_len = rp_put_append(body, 9, UINT64_C(1) << 40);
    bytes("\x00\x3c\x00\xbc", 4);
    check("append", out, h);
    begin_message(out);
    body_len = rp_put_u64(body, 2);
    h.reply = true;
    check("appended", out, h);

    h = (rp_header){.version = 1, .type = RP_MSG_FINISH, .session = SESSION, .id = 10};
    begin_message(out);
    body_len = rp_put_finish(body, &(rp_finish){9, (UINT64_C(1) << 40) + 2});
    check("finish", out, h);
    begin_message(out);
    body_len = rp_put_result(body,
                             &(rp_result){RP_F32, RP_BACKEND_CUDA, RP_PATH_STREAM, 4, 1, (UINT64_C(1) << 40) + 2, 7, 8, 9});
    bytes((float[]){1.0f}, 4);
    h.reply = true;
    check("finished", out, h);

    h = (rp_header){.version = 1, .type = RP_MSG_ABORT, .session = SESSION, .id = 11};
    begin_message(out);
    body_len = rp_put_u64(body, 9);
    check("abort", out, h);
    begin_message(out);
    h.reply = true;
    check("aborted", out, h);

    h = (rp_header){.version = 1, .type = RP_MSG_CANCEL, .session = SESSION, .id = 12};
    begin_message(out);
    body_len = rp_put_u64(body, 10);
    check("cancel", out, h);
    begin_message(out);
    body_len = rp_put_u64(body, 1);
    h.reply = true;
    check("cancelled", out, h);
}

static void encodes_places_beside(uint8_t *out)
{
    rp_header h = {.version = 2, .type = RP_MSG_REDUCE_AT, .session = SESSION, .id = 38};
    rp_spec s = {.op = RP_OP_SUM, .dtype = RP_F32, .rows = 2, .row_len = 3, .flags = RP_MASK | RP_OFFSETS};
    rp_tagged t = {.companion = {[RP_ROLE_MASK] = {RP_WHERE_MESSAGE, RP_U8, RP_EXTENT_ELEMENTS, 0, 0},
                                 [RP_ROLE_OFFSETS] = {RP_WHERE_MESSAGE, RP_U64, RP_EXTENT_BOUNDS, 0, 0}},
                   .apart = true,
                   .result = {7, 8, 16, 0}};
    s.tagged_len = rp_tagged_size(&t);
    begin_message(out);
    body_len = rp_put_at(body, &s, &(rp_at){5, 128, 12, 0});
    body_len += rp_put_tagged(body + body_len, &t);
    bytes("\1\0\2", 3);
    bytes((uint64_t[]){0, 2, 3}, 24);
    check("reduce_at_beside", out, h);
    begin_message(out);
    body_len = rp_put_result(body, &(rp_result){RP_F64, RP_BACKEND_CPU, RP_PATH_RESIDENT, 8, 2, 3, 1, 2, 3});
    h.reply = true;
    check("result_beside", out, h);
    h = (rp_header){.version = 2, .type = RP_MSG_REDUCE, .session = SESSION, .id = 39};
    s = (rp_spec){.op = RP_OP_SUM, .dtype = RP_U8, .rows = 1, .row_len = 3, .flags = RP_MASK};
    t = (rp_tagged){.companion = {[RP_ROLE_MASK] = {RP_WHERE_HANDLE, RP_BOOL, RP_EXTENT_ELEMENTS, 6, 9}}};
    s.tagged_len = rp_tagged_size(&t);
    begin_message(out);
    body_len = rp_put_spec(body, &s);
    body_len += rp_put_tagged(body + body_len, &t);
    bytes("\1\2\3", 3);
    check("reduce_resident_mask", out, h);
}

static void encodes_keys(uint8_t *out)
{
    rp_header h = {.version = 2, .type = RP_MSG_REDUCE, .session = SESSION, .id = 41};
    rp_spec s = {.op = RP_OP_SUM, .dtype = RP_U8, .rows = 2, .row_len = 3, .flags = RP_MASK | RP_KEYS | RP_DROP_OUTSIDE};
    rp_tagged t = {.companion = {[RP_ROLE_KEYS] = {RP_WHERE_DATA, RP_I16, RP_EXTENT_ELEMENTS, 0, 0}}};
    s.tagged_len = rp_tagged_size(&t);
    begin_message(out);
    body_len = rp_put_spec(body, &s);
    body_len += rp_put_tagged(body + body_len, &t);
    bytes("\1\2\4\1\1\0", 6);
    bytes((int16_t[]){1, -1, 0}, 6);
    check("reduce_keys", out, h);
    h = (rp_header){.version = 2, .type = RP_MSG_REDUCE_AT, .session = SESSION, .id = 42};
    s = (rp_spec){.op = RP_OP_MAX, .dtype = RP_F32, .rows = 2, .row_len = 3, .flags = RP_KEYS};
    t = (rp_tagged){.companion = {[RP_ROLE_KEYS] = {RP_WHERE_HANDLE, RP_U32, RP_EXTENT_ELEMENTS, 6, 4}}};
    s.tagged_len = rp_tagged_size(&t);
    begin_message(out);
    body_len = rp_put_at(body, &s, &(rp_at){5, 128, 12, 0});
    body_len += rp_put_tagged(body + body_len, &t);
    check("reduce_at_keys", out, h);
}

static void encodes_weights(uint8_t *out)
{
    uint8_t one[8] = {1};
    rp_header h = {.version = 2, .type = RP_MSG_REDUCE, .session = SESSION, .id = 40};
    rp_spec s = {.op = RP_OP_WMEAN, .dtype = RP_F32, .rows = 1, .row_len = 3, .flags = RP_WEIGHTS};
    rp_tagged t = {.companion = {[RP_ROLE_WEIGHTS] = {RP_WHERE_DATA, RP_F64, RP_EXTENT_ELEMENTS, 0, 0}},
                   .parameter = {[RP_PARAMETER_ZERO_WEIGHTS_DROP] = {RP_FORM_U64, 1, one}}};
    s.tagged_len = rp_tagged_size(&t);
    begin_message(out);
    body_len = rp_put_spec(body, &s);
    body_len += rp_put_tagged(body + body_len, &t);
    bytes((float[]){1, 2, 3}, 12);
    bytes((double[]){0.5, 0.25, 0}, 24);
    check("reduce_weights", out, h);
}

static void encodes_claim(uint8_t *out)
{
    rp_header h = {.version = 2, .type = RP_MSG_REDUCE, .session = SESSION, .id = 43};
    rp_spec s = {.op = RP_OP_SUM, .dtype = RP_U8, .rows = 1, .row_len = 3};
    rp_tagged t = {.claim = {UINT64_C(1) << 40, UINT64_C(1) << 63}};
    s.tagged_len = rp_tagged_size(&t);
    begin_message(out);
    body_len = rp_put_spec(body, &s);
    body_len += rp_put_tagged(body + body_len, &t);
    bytes("\1\2\3", 3);
    check("reduce_claim", out, h);
    assert_true(rp_has_claim_alone(body, body_len));
    body[RP_SPEC_SIZE] = RP_TAG_RESULT;
    assert_false(rp_has_claim_alone(body, body_len));
    assert_false(rp_has_claim_alone(body, RP_SPEC_SIZE));
}

static void encodes_places(void **state)
{
    (void)state;
    uint8_t out[MAX_BYTES];
    rp_spec s = {.op = RP_OP_SUM, .dtype = RP_F32, .rows = 2, .row_len = 3};
    rp_header h = {.version = 1, .type = RP_MSG_REDUCE_AT, .session = SESSION, .id = 21};
    begin_message(out);
    body_len = rp_put_at(body, &s, &(rp_at){(UINT64_C(1) << 63) + 1, 128, 24, 0});
    check("reduce_at", out, h);
    h = (rp_header){.version = 2, .type = RP_MSG_REDUCE_AT, .session = SESSION, .id = 35};
    s.flags = RP_MASK;
    begin_message(out);
    rp_tagged t = {.companion = {[RP_ROLE_MASK] = {RP_WHERE_HANDLE, RP_U8, RP_EXTENT_ELEMENTS, 6, 7}}};
    s.tagged_len = rp_tagged_size(&t);
    body_len = rp_put_at(body, &s, &(rp_at){5, 128, 24, 0});
    body_len += rp_put_tagged(body + body_len, &t);
    check("reduce_at_masked", out, h);
    encodes_places_beside(out);
    encodes_weights(out);
    encodes_keys(out);
    encodes_claim(out);
    h = (rp_header){.version = 2, .type = RP_MSG_REDUCE_AT, .session = SESSION, .id = 36};
    s.flags = RP_COLUMNS;
    t = (rp_tagged){.stride = 4096};
    s.tagged_len = rp_tagged_size(&t);
    begin_message(out);
    body_len = rp_put_at(body, &s, &(rp_at){.handle = 5, .offset = 128, .length = 24});
    body_len += rp_put_tagged(body + body_len, &t);
    check("reduce_at_apart", out, h);
    h = (rp_header){.version = 1, .type = RP_MSG_REDUCE_AT, .session = SESSION, .id = 21};
    begin_message(out);
    body_len = rp_put_result(body, &(rp_result){RP_F64, RP_BACKEND_CPU, RP_PATH_FILE, 8, 2, 6, 1, 2, 3});
    bytes((double[]){1, 2}, 16);
    h.reply = true;
    check("result_at", out, h);
}

static void encodes_residents(void **state)
{
    (void)state;
    const uint64_t handle = (UINT64_C(1) << 63) + 2;
    uint8_t out[MAX_BYTES];
    rp_header h = {.version = 1, .type = RP_MSG_STORE, .session = SESSION, .id = 22};
    begin_message(out);
    body_len = rp_put_store(
        body, &(rp_store){.dtype = RP_I16, .replace = true, .ttl_ms = 1500, .bytes = 1024, .name_len = 7, .name = "run-7.x"});
    check("store", out, h);
    h.version = 2;
    h.id = 30;
    begin_message(out);
    body_len = rp_put_store(body, &(rp_store){.dtype = RP_F32,
                                              .bytes = 96,
                                              .name_len = 1,
                                              .name = "f",
                                              .shape = {.dims = 3, .order = RP_ORDER_F, .len = {2, 3, 4}}});
    check("store_shaped", out, h);
    h.id = 33;
    begin_message(out);
    body_len = rp_put_store(body,
                            &(rp_store){.dtype = RP_F64, .place = RP_PLACE_SPREAD, .bytes = 8, .name_len = 1, .name = "s"});
    check("store_placed", out, h);
    h.version = 1;
    h.type = RP_MSG_WRITE;
    h.id = 23;
    begin_message(out);
    body_len = rp_put_write(body, handle, 2);
    bytes("wxyz", 4);
    check("write", out, h);
    h.type = RP_MSG_WRITE_AT;
    h.id = 24;
    begin_message(out);
    body_len = rp_put_write(body, handle, 6);
    body_len += rp_put_place(body + body_len, &(rp_at){(UINT64_C(1) << 63) + 1, 128, 1018, 0});
    check("write_at", out, h);
    h.type = RP_MSG_COMMIT;
    h.id = 25;
    begin_message(out);
    body_len = rp_put_u64(body, handle);
    check("commit", out, h);
    h.type = RP_MSG_LIST;
    h.id = 26;
    h.reply = true;
    begin_message(out);
    body_len = rp_put_resident(body, &(rp_resident){.handle = handle,
                                                    .bytes = 1024,
                                                    .age_ms = 500,
                                                    .left_ms = 1000,
                                                    .uses = 1,
                                                    .dtype = RP_I16,
                                                    .name_len = 7,
                                                    .name = "run-7.x"});
    const rp_resident a = {.handle = 5,
                           .bytes = 8,
                           .age_ms = UINT64_C(1) << 40,
                           .left_ms = UINT64_MAX,
                           .dtype = RP_F64,
                           .name_len = 1,
                           .name = "a"};
    body_len += rp_put_resident(body + body_len, &a);
    check("listed", out, h);
    h.version = 2;
    h.id = 31;
    begin_message(out);
    body_len = rp_put_resident(body, &(rp_resident){.handle = 6,
                                                    .bytes = 96,
                                                    .left_ms = UINT64_MAX,
                                                    .dtype = RP_F32,
                                                    .name_len = 1,
                                                    .name = "f",
                                                    .shape = {.dims = 3, .order = RP_ORDER_F, .len = {2, 3, 4}}});
    body_len += rp_put_resident(body + body_len, &a);
    check("listed_shaped", out, h);
    h.id = 34;
    begin_message(out);
    body_len = rp_put_resident(body, &(rp_resident){.handle = 7,
                                                    .bytes = 8,
                                                    .left_ms = UINT64_MAX,
                                                    .dtype = RP_F64,
                                                    .place = RP_PLACE_SPREAD,
                                                    .name_len = 1,
                                                    .name = "s"});
    body_len += rp_put_resident(body + body_len, &(rp_resident){.handle = 8,
                                                                .bytes = 16,
                                                                .left_ms = UINT64_MAX,
                                                                .dtype = RP_F64,
                                                                .place = RP_PLACE_DEVICE + 3,
                                                                .name_len = 1,
                                                                .name = "t",
                                                                .shape = {.dims = 1, .len = {2}}});
    check("listed_placed", out, h);
}

static void names_of_resident_data(void **state)
{
    (void)state;
    char lengthy[RP_MAX_NAME + 1];
    rp_fault f;
    memset(lengthy, 'x', sizeof lengthy);
    assert_int_equal(rp_name_check(lengthy, RP_MAX_NAME, &f), RP_OK);
    assert_int_equal(rp_name_check(lengthy, RP_MAX_NAME + 1, &f), RP_TOO_LARGE);
    assert_int_equal(rp_name_check("", 0, &f), RP_BAD_MESSAGE);
    for (int c = 0; c < 256; c++) {
        bool word = c == '_' || (c < 128 && isalnum(c)), more = word || c == '.' || c == '-';
        char name[2] = {(char)c, 'a'};
        assert_int_equal(rp_name_check(name, 2, &f), word ? RP_OK : RP_BAD_MESSAGE);
        assert_int_equal(rp_name_check((char[]){'a', (char)c}, 2, &f), more ? RP_OK : RP_BAD_MESSAGE);
    }
}

/* Packets of the fdpass socket: bytes of PROTOCOL.md, and every malformed one refused. */
static void side_packets(void **state)
{
    (void)state;
    uint8_t out[RP_SIDE_MAX + RP_ERROR_SIZE + RP_MAX_FIELD + RP_MAX_TEXT];
    rp_side p, attach = {.kind = RP_SIDE_ATTACH, .value = SESSION, .token = "0123456789abcde"};
    rp_fault f, e;
    memcpy(attach.token, "0123456789abcdef", RP_TOKEN);
    assert_int_equal(rp_put_side(out, &attach), RP_SIDE_SIZE);
    assert_memory_equal(out,
                        "\1\0\0\0\0\0\0\0\xef\xcd\xab\x89\x67\x45\x23\x01"
                        "0123456789abcdef",
                        RP_SIDE_SIZE);
    assert_int_equal(rp_get_side(out, RP_SIDE_SIZE, &p, &f), RP_OK);
    assert_true(p.value == SESSION && memcmp(p.token, attach.token, RP_TOKEN) == 0);
    for (size_t n = 0; n < RP_SIDE_SIZE; n++)
        assert_int_equal(rp_get_side(out, n, &p, &f), RP_BAD_MESSAGE);
    assert_int_equal(rp_get_side(out, RP_SIDE_SIZE + 1, &p, &f), RP_BAD_MESSAGE);
    for (unsigned kind = 0; kind < 256; kind++) {
        size_t size = rp_put_side(out, &(rp_side){.kind = kind});
        assert_int_equal(rp_get_side(out, size, &p, &f), kind >= 1 && kind <= 6 ? RP_OK : RP_BAD_MESSAGE);
    }
    assert_int_equal(rp_put_side(out, &(rp_side){.kind = RP_SIDE_DEVICE_FD, .value = 2 << 20}), RP_SIDE_SIZE);
    assert_memory_equal(out, "\6\0\0\0\0\0\0\0\0\0\x20\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 32);
    assert_int_equal(rp_get_side(out, RP_SIDE_SIZE, &p, &f), RP_OK);
    assert_int_equal(p.value, 2 << 20);
    rp_side device = {.kind = RP_SIDE_DEVICE};
    memset(device.device, 0xda, sizeof device.device);
    assert_int_equal(rp_put_side(out, &device), 96);
    assert_memory_equal(out, "\5\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 32);
    assert_memory_equal(out + 32, device.device, 64);
    assert_int_equal(rp_get_side(out, 96, &p, &f), RP_OK);
    assert_memory_equal(p.device, device.device, 64);
    for (size_t n = 0; n < sizeof out; n++)
        assert_int_equal(rp_get_side(out, n, &p, &f), n == 96 ? RP_OK : RP_BAD_MESSAGE);
    for (size_t at = 4; at < 32; at++) { /* what DEVICE does not use is 0; from byte 16 on it has a UUID */
        rp_put_side(out, &device);
        out[at] = 1;
        assert_int_equal(rp_get_side(out, 96, &p, &f), at < 16 ? RP_BAD_MESSAGE : RP_OK);
        assert_true(at < 16 || p.uuid[at - 16] == 1);
    }
    for (size_t at = 4; at < RP_SIDE_SIZE; at++) { /* what FILE does not use is 0 */
        rp_put_side(out, &(rp_side){.kind = RP_SIDE_FILE});
        out[at] = 1;
        assert_int_equal(rp_get_side(out, RP_SIDE_SIZE, &p, &f), RP_BAD_MESSAGE);
    }
    rp_put_side(out, &(rp_side){.reply = true, .kind = RP_SIDE_ARENA, .value = 7, .size = 4096});
    assert_int_equal(rp_get_side_reply(out, RP_SIDE_SIZE, &p, &e, &f), RP_OK);
    assert_true(p.value == 7 && p.size == 4096);
    for (size_t n = 0; n < RP_SIDE_SIZE; n++)
        assert_int_equal(rp_get_side_reply(out, n, &p, &e, &f), RP_BAD_MESSAGE);
    rp_put_side(out, &(rp_side){.reply = true, .kind = RP_SIDE_FILE, .status = RP_QUOTA});
    rp_fail(&e, RP_QUOTA, "files", 64, "too many");
    size_t n = RP_SIDE_SIZE + rp_put_fault(out + RP_SIDE_SIZE, &e);
    memset(&e, 0, sizeof e);
    assert_int_equal(rp_get_side_reply(out, n, &p, &e, &f), RP_OK);
    assert_true(p.status == RP_QUOTA && e.code == RP_QUOTA && e.limit == 64);
    assert_int_equal(rp_get_side_reply(out, n - 1, &p, &e, &f), RP_BAD_MESSAGE);
    out[n - 2] = 0; /* texts are strings: what lies behind a zero byte would be lost */
    assert_int_equal(rp_get_side_reply(out, n, &p, &e, &f), RP_BAD_MESSAGE);
}

static void encodes_errors(void **state)
{
    (void)state;
    uint8_t out[MAX_BYTES];
    rp_header h = {.version = 1, .type = RP_MSG_REDUCE, .reply = true, .status = RP_OVERFLOW, .session = SESSION, .id = 12};
    begin_message(out);
    body_len = rp_put_fault(
        body, &(rp_fault){.index = 4, .value = {0, UINT64_C(1) << 63}, .field = "out", .text = "the sum does not fit i64"});
    check("error_overflow", out, h);
    begin_message(out);
    body_len = rp_put_fault(
        body, &(rp_fault){.limit = 64, .index = RP_NO_INDEX, .field = "inflight", .text = "64 requests are under way"});
    check("error_busy", out,
          (rp_header){1, RP_MSG_APPEND, true, .status = RP_BUSY, .time_ms = 20, .session = SESSION, .id = 13});
    begin_message(out);
    body_len = rp_put_fault(body, &(rp_fault){.index = RP_NO_INDEX});
    check("error_bare", out, (rp_header){1, RP_MSG_PING, true, .status = RP_INTERNAL, .session = SESSION, .id = 14});
}

static void over_long_texts_are_cut(void **state)
{
    (void)state;
    char key[300], text[300];
    memset(key, 'k', sizeof key);
    memset(text, 't', sizeof text);
    uint8_t out[MAX_BYTES];
    rp_writer w = {.out = out, .cap = sizeof out};
    rp_entry e = {.kind = RP_KIND_TEXT, .key_len = 200, .key = key, .text_len = 300, .text = text}, back;
    assert_int_equal(rp_put_entry(&w, &e), RP_OK);
    rp_reader r = {.body = out, .len = w.used};
    bool end;
    assert_int_equal(rp_get_entry(&r, &back, &end, NULL), RP_OK);
    assert_int_equal(back.key_len, RP_MAX_KEY);
    assert_int_equal(back.text_len, RP_MAX_VALUE);
    assert_int_equal(rp_put_entry(&w, &e), RP_NO_MEMORY);
    w.n = RP_MAX_ENTRIES;
    assert_int_equal(rp_put_entry(&w, &e), RP_TOO_LARGE);
}

/* ---- decoding ---- */
static void decodes_every_golden(void **state)
{
    (void)state;
    for (size_t i = 0; i < n_goldens; i++) {
        const golden *g = &goldens[i];
        rp_fault f = {0};
        size_t n;
        if (decode(g->bytes, g->len, &n, &f))
            fail_msg("%s: %s: %s", g->name, f.field, f.text);
        assert_int_equal(n, g->len);
        assert_memory_equal(encoded, g->bytes, n);
    }
}

/* Bodies that mean something at other lengths, too: from this message length on. */
static size_t elastic_from(const golden *g)
{
    if (strcmp(g->name, "ping") == 0 || strcmp(g->name, "pong") == 0)
        return RP_HEADER_SIZE;
    if (strcmp(g->name, "append") == 0 || strcmp(g->name, "append_mask") == 0)
        return RP_HEADER_SIZE + RP_APPEND_SIZE;
    if (strcmp(g->name, "write") == 0)
        return RP_HEADER_SIZE + RP_WRITE_SIZE;
    if (strcmp(g->name, "list_one") == 0)
        return RP_HEADER_SIZE;
    return SIZE_MAX;
}

/* Cut behind an entry, or to another name. */
static bool still_fine(const golden *g, size_t len)
{
    size_t body_bytes = len - RP_HEADER_SIZE, first = 4 + 15 + 8, second = first + 4 + 11 + 8;
    if (strcmp(g->name, "listed") == 0)
        return body_bytes == 0 || body_bytes == RP_RESIDENT_SIZE + 7;
    if (strcmp(g->name, "listed_shaped") == 0)
        return body_bytes == 0 || body_bytes == RP_RESIDENT_SIZE + 1 + 3 * 8;
    if (strcmp(g->name, "listed_placed") == 0)
        return body_bytes == 0 || body_bytes == RP_RESIDENT_SIZE + 1;
    if (strcmp(g->name, "drop") == 0)
        return body_bytes > 0;
    if (strncmp(g->name, "result", 6) == 0 || strcmp(g->name, "finished") == 0) /* the cells are elsewhere */
        return body_bytes == RP_RESULT_SIZE;
    return strcmp(g->name, "entries") == 0 && (body_bytes == 0 || body_bytes == first || body_bytes == second);
}

static void every_truncation_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < n_goldens; i++) {
        const golden *g = &goldens[i];
        for (size_t len = 0; len < g->len; len++) {
            size_t n;
            rp_fault f;
            if (decode(g->bytes, len, &n, &f) != RP_BAD_MESSAGE)
                fail_msg("%s cut to %zu bytes was not BAD_MESSAGE", g->name, len);
            if (len < RP_HEADER_SIZE)
                continue;
            uint8_t copy[MAX_BYTES]; /* the same with a header that tells the truth about it */
            memcpy(copy, g->bytes, len);
            set_body_len(copy, len);
            bool fine = len >= elastic_from(g) || still_fine(g, len);
            if ((decode(copy, len, &n, &f) == RP_OK) != fine)
                fail_msg("%s cut to %zu bytes with body_len to match was %s", g->name, len, fine ? "refused" : "accepted");
        }
    }
}

static void every_extension_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < n_goldens; i++) {
        const golden *g = &goldens[i];
        uint8_t copy[MAX_BYTES] = {0};
        size_t n;
        rp_fault f;
        memcpy(copy, g->bytes, g->len);
        assert_int_equal(decode(copy, g->len + 1, &n, &f), RP_BAD_MESSAGE);
        set_body_len(copy, g->len + 1);
        copy[g->len] = strcmp(g->name, "list_one") == 0 ? 'x' : 0;
        if ((decode(copy, g->len + 1, &n, &f) == RP_OK) != (elastic_from(g) != SIZE_MAX))
            fail_msg("%s with a byte more", g->name);
    }
}

/* Daemons of version 1 counted requests there. */
static void a_results_reserved_byte_is_ignored(void **state)
{
    (void)state;
    uint8_t out[RP_RESULT_SIZE + 8] = {[3] = 1};
    const uint8_t *cells;
    rp_result r = {.dtype = RP_F64, .path = RP_PATH_INLINE, .cell_size = 8, .cells = 1};
    assert_int_equal(rp_put_result(out, &r), RP_RESULT_SIZE);
    assert_int_equal(out[3], 0);
    out[3] = 32;
    assert_int_equal(rp_get_result(out, sizeof out, &r, &cells, NULL), RP_OK);
}

static void every_reserved_byte_is_checked(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        size_t at, size; /* in the body */
    } reserved[] = {{"hello", 5, 3},      {"welcome", 2, 2},       {"welcome", 20, 4},   {"welcome", 34, 6},
                    {"query_info", 4, 4}, {"reduce", 4, 4},        {"reduce", 58, 6},    {"begin", 4, 4},
                    {"begin", 58, 6},     {"store_shaped", 19, 6}, {"error_busy", 36, 4}};
    for (size_t i = 0; i < sizeof reserved / sizeof reserved[0]; i++) {
        const golden *g = find(reserved[i].name);
        for (size_t at = 0; at < 8 * reserved[i].size; at++) {
            uint8_t copy[MAX_BYTES];
            size_t n;
            rp_fault f;
            memcpy(copy, g->bytes, g->len);
            copy[RP_HEADER_SIZE + reserved[i].at + at / 8] ^= (uint8_t)(1u << at % 8);
            if (decode(copy, g->len, &n, &f) != RP_BAD_MESSAGE)
                fail_msg("%s: reserved bit %zu of byte %zu was accepted", g->name, at % 8, reserved[i].at + at / 8);
        }
    }
    for (int bit = 1; bit < 16; bit++) { /* header flags */
        uint8_t copy[MAX_BYTES];
        size_t n;
        rp_fault f;
        const golden *g = find("ping");
        memcpy(copy, g->bytes, g->len);
        copy[6 + bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(decode(copy, g->len, &n, &f), RP_BAD_MESSAGE);
        assert_string_equal(f.field, "flags");
    }
}

/* One byte of a golden message changed; what the refusal must say. */
static void bad_values_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        size_t at; /* in the message */
        uint8_t value;
        rp_err code;
        const char *field;
        uint64_t limit;
    } bad[] = {
        {"ping", 0, 'r', RP_BAD_MESSAGE, "magic", 0},
        {"ping", 5, 0, RP_BAD_MESSAGE, "type", 0},
        {"ping", 5, 17, RP_BAD_MESSAGE, "type", 0},
        {"hello", 40, 0, RP_BAD_MESSAGE, "min_version", 1},
        {"hello", 40, 2, RP_BAD_MESSAGE, "min_version", 1},
        {"hello", 42, 7, RP_BAD_MESSAGE, "hello", 15},
        {"hello", 44, 3, RP_BAD_MESSAGE, "priority", RP_PRIORITY_COUNT - 1},
        {"welcome", 41, 3, RP_BAD_MESSAGE, "priority", RP_PRIORITY_COUNT - 1},
        {"hello", 42, 65, RP_TOO_LARGE, "name_len", RP_MAX_NAME},
        {"welcome", 72, 65, RP_TOO_LARGE, "server_len", RP_MAX_NAME},
        {"query_info", 40, RP_TOPIC_SESSIONS + 1, RP_BAD_MESSAGE, "topic", RP_TOPIC_SESSIONS},
        {"query_info", 40, 0, RP_BAD_MESSAGE, "topic", RP_TOPIC_SESSIONS},
        {"entries", 40, 4, RP_BAD_MESSAGE, "kind", RP_KIND_TEXT},
        {"entries", 41, 49, RP_TOO_LARGE, "key_len", RP_MAX_KEY},
        {"entries", 43, 2, RP_TOO_LARGE, "value_len", RP_MAX_VALUE},
        {"entries", 42, 9, RP_BAD_MESSAGE, "value", 8},
        {"reduce", 48, 128, RP_BAD_MESSAGE, "flags", 0},
        {"reduce_at", 40 + 80, 25, RP_SHAPE, "data", 4},
        {"reduce_at_masked", 48, 0, RP_BAD_MESSAGE, "flags", 0},
        {"reduce_at_masked", 40 + 88, 9, RP_BAD_MESSAGE, "tag", RP_TAG_END - 1},
        {"reduce_at_masked", 40 + 89, RP_ROLE_KEYS, RP_BAD_MESSAGE, "flags", 0},
        {"reduce_keys", 40 + 64 + 8, RP_BOOL, RP_TYPE, "keys", 0},
        {"reduce_keys", 40 + 64 + 3, RP_EXTENT_ROW, RP_SHAPE, "keys", RP_EXTENT_ELEMENTS},
        {"reduce_keys", 40 + 24, 10, RP_SHAPE, "keys", 20},
        {"reduce_keys", 40 + 24, 4, RP_SHAPE, "row_len", 0},
        {"reduce_at_keys", 40 + 24, 4, RP_SHAPE, "row_len", 0},
        {"reduce_at_masked", 40 + 96, RP_F32, RP_TYPE, "mask", 0},
        {"reduce_at_masked", 40 + 4, 40, RP_BAD_MESSAGE, "tagged_len", 32},
        {"reduce_at_masked", 40 + 4, 24, RP_BAD_MESSAGE, "parts", 24},
        {"reduce_at_beside", 40 + 4, 48, RP_BAD_MESSAGE, "parts", 24},
        {"reduce_at_beside", 40 + 152 + 3, 4, RP_SHAPE, "offsets", 3},
        {"reduce_resident_mask", 40 + 66, RP_WHERE_MESSAGE, RP_BAD_MESSAGE, "mask", 8},
        {"result_beside", 40 + 4, 0, RP_BAD_MESSAGE, "cells", 0},
        {"reduce_at_masked", 40 + 80, 30, RP_SHAPE, "data", 4},
        {"reduce_at_apart", 40 + 8, 0, RP_BAD_MESSAGE, "stride", 0},
        {"reduce_at_apart", 40 + 97, 0, RP_BAD_MESSAGE, "stride", 0},
        {"reduce_claim", 40 + 64 + 1, 1, RP_BAD_MESSAGE, "parts", 0},
        {"reduce_claim", 40 + 64 + 4, 8, RP_BAD_MESSAGE, "claim", 16},
        {"reduce_claim", 40 + 64 + 8 + 5, 0, RP_BAD_MESSAGE, "claim", 0},
        {"reduce", 48, RP_WRAP, RP_BAD_MESSAGE, "flags", 0},
        {"reduce", 48, RP_OFFSETS | RP_COLUMNS, RP_BAD_MESSAGE, "flags", 0},
        {"reduce", 52, 1, RP_BAD_MESSAGE, "ddof", 0},
        {"reduce", 80, 1, RP_BAD_MESSAGE, "initial", 0},
        {"reduce", 40 + 48, 2, RP_SHAPE, "row_len", 0},
        {"reduce_segments", 40 + 48, 1, RP_BAD_MESSAGE, "planes", 0},
        {"reduce_runs", 40 + 48, 3, RP_SHAPE, "row_len", 0},
        {"reduce_runs", 40 + 55, 0x10, RP_TOO_LARGE, "planes", RP_MAX_COUNT},
        {"reduce", 40 + 58, 1, RP_BAD_MESSAGE, "spec", 0},
        {"reduce_planes", 40 + 48, 3, RP_SHAPE, "row_len", 0},
        {"reduce_planes", 40 + 55, 0x10, RP_TOO_LARGE, "planes", RP_MAX_COUNT},
        {"reduce", 48, RP_MASK, RP_SHAPE, "data", 5},
        {"reduce", 48, RP_OFFSETS, RP_SHAPE, "offsets", 16},
        {"reduce_segments", 104 + 8, 4, RP_SHAPE, "offsets", 3},
        {"reduce_segments", 104 + 16, 0, RP_SHAPE, "offsets", 3},
        {"reduce_segments", 40 + 42, 1, RP_BAD_MESSAGE, "initial", 16},
        {"append", 55, 0xff, RP_TOO_LARGE, "offset", RP_MAX_COUNT},
        {"finish", 55, 0xff, RP_TOO_LARGE, "count", RP_MAX_COUNT},
        {"store", 40, 14, RP_TYPE, "dtype", 0},
        {"store", 41, 128, RP_BAD_MESSAGE, "flags", 0},
        {"store", 41, 2, RP_BAD_MESSAGE, "store", 8},
        {"store_shaped", 41, 0, RP_BAD_MESSAGE, "store", 17},
        {"store_shaped", 57, 0, RP_BAD_MESSAGE, "dims", 1},
        {"store_shaped", 57, 17, RP_TOO_LARGE, "dims", RP_MAX_DIMS},
        {"store_shaped", 57, 2, RP_BAD_MESSAGE, "store", 24},
        {"store_shaped", 58, 2, RP_BAD_MESSAGE, "order", 1},
        {"store_shaped", 59, 1, RP_BAD_MESSAGE, "store", 0},
        {"store_shaped", 65, 1, RP_SHAPE, "shape", 24},
        {"store_shaped", 48, 100, RP_SHAPE, "shape", 25},
        {"listed_shaped", 79, 2, RP_BAD_MESSAGE, "order", 1},
        {"listed_shaped", 78, 17, RP_TOO_LARGE, "dims", RP_MAX_DIMS},
        {"listed_shaped", 81, 3, RP_SHAPE, "shape", 24},
        {"store", 42, 8, RP_BAD_MESSAGE, "store", 24},
        {"store", 42, 65, RP_TOO_LARGE, "name_len", RP_MAX_NAME},
        {"store", 47, 0x80, RP_TOO_LARGE, "ttl_ms", RP_MAX_TTL_MS},
        {"store", 48, 1, RP_SHAPE, "bytes", 2},
        {"store", 49, 0, RP_SHAPE, "bytes", 2},
        {"store", 56, '-', RP_BAD_MESSAGE, "name", 0},
        {"store", 58, '/', RP_BAD_MESSAGE, "name", 0},
        {"list_one", 40, '.', RP_BAD_MESSAGE, "name", 0},
        {"list_one", 41, 0, RP_BAD_MESSAGE, "name", 0},
        {"drop", 8, 1, RP_BAD_MESSAGE, "status", 0},
        {"drop", 43, 0xc3, RP_BAD_MESSAGE, "name", 0},
        {"listed", 76, 0, RP_BAD_MESSAGE, "dtype", 0},
        {"listed", 77, 65, RP_BAD_MESSAGE, "entry", 65},
        {"listed", 80, ' ', RP_BAD_MESSAGE, "name", 0},
        {"result", 40, 14, RP_BAD_MESSAGE, "cell_size", 0},
        {"result", 44, 12, RP_BAD_MESSAGE, "cell_size", 8},
        {"result", 46, 65, RP_BAD_MESSAGE, "cell_size", 8}, /* above 4 MiB */
        {"result", 48, 2, RP_BAD_MESSAGE, "cells", 0},
        {"result_state", 44, 0, RP_BAD_MESSAGE, "cells", 0},
        {"error_busy", 72, 25, RP_TOO_LARGE, "field_len", RP_MAX_FIELD},
        {"error_busy", 74, 161, RP_TOO_LARGE, "text_len", RP_MAX_TEXT},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const golden *g = find(bad[i].name);
        uint8_t copy[MAX_BYTES];
        size_t n;
        rp_fault f = {0};
        memcpy(copy, g->bytes, g->len);
        copy[bad[i].at] = bad[i].value;
        if (decode(copy, g->len, &n, &f) != bad[i].code || strcmp(f.field, bad[i].field) || f.limit != bad[i].limit)
            fail_msg("%s with byte %zu = %u: %s in '%s', limit %llu", g->name, bad[i].at, bad[i].value, rp_err_name(f.code),
                     f.field, (unsigned long long)f.limit);
    }
}

static void caps_hold_at_their_value(void **state)
{
    (void)state;
    uint8_t *msg = calloc(1, T_MAX_MESSAGE + 1);
    rp_header h = {.version = 1, .type = RP_MSG_APPEND, .body_len = RP_MAX_BODY}, back;
    rp_fault f;
    rp_append a;
    rp_put_header(msg, &h);
    assert_int_equal(rp_get_header(msg, T_MAX_MESSAGE, &back, &f), RP_OK);
    h.body_len++;
    rp_put_header(msg, &h);
    assert_int_equal(rp_get_header(msg, T_MAX_MESSAGE + 1, &back, &f), RP_BAD_MESSAGE);
    assert_string_equal(f.field, "body_len");
    assert_int_equal(f.limit, RP_MAX_BODY);

    rp_put_append(msg, 1, RP_MAX_COUNT);
    assert_int_equal(rp_get_append(msg, RP_APPEND_SIZE + RP_MAX_DATA, &a, &f), RP_OK);
    assert_int_equal(a.data_len, RP_MAX_DATA);
    assert_int_equal(rp_get_append(msg, RP_APPEND_SIZE + RP_MAX_DATA + 1, &a, &f), RP_TOO_LARGE);
    assert_string_equal(f.field, "data");
    rp_put_append(msg, 1, RP_MAX_COUNT + 1);
    assert_int_equal(rp_get_append(msg, RP_APPEND_SIZE, &a, &f), RP_TOO_LARGE);
    free(msg);
}

static void entries_are_counted(void **state)
{
    (void)state;
    uint8_t *out = malloc(16 * (RP_MAX_ENTRIES + 1));
    rp_writer w = {.out = out, .cap = 16 * (RP_MAX_ENTRIES + 1)};
    rp_entry e = {.kind = RP_KIND_U64, .key_len = 1, .key = "k"};
    rp_fault f;
    bool end = false;
    for (unsigned i = 0; i <= RP_MAX_ENTRIES; i++) {
        assert_int_equal(rp_put_entry(&w, &e), i < RP_MAX_ENTRIES ? RP_OK : RP_TOO_LARGE);
    }
    w.n = 0;
    assert_int_equal(rp_put_entry(&w, &e), RP_OK); /* one too many, written by a daemon that does not count */
    rp_reader r = {.body = out, .len = w.used};
    for (unsigned i = 0; i < RP_MAX_ENTRIES; i++)
        assert_int_equal(rp_get_entry(&r, &e, &end, &f), RP_OK);
    assert_int_equal(rp_get_entry(&r, &e, &end, &f), RP_TOO_LARGE);
    assert_string_equal(f.field, "entries");
    free(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(encodes_hello),
        cmocka_unit_test(encodes_ping_and_query),
        cmocka_unit_test(encodes_reduce),
        cmocka_unit_test(encodes_shapes),
        cmocka_unit_test(encodes_wide_cells),
        cmocka_unit_test(encodes_streams),
        cmocka_unit_test(encodes_places),
        cmocka_unit_test(encodes_residents),
        cmocka_unit_test(names_of_resident_data),
        cmocka_unit_test(side_packets),
        cmocka_unit_test(encodes_errors),
        cmocka_unit_test(over_long_texts_are_cut),
        cmocka_unit_test(decodes_every_golden),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(every_extension_is_refused),
        cmocka_unit_test(a_results_reserved_byte_is_ignored),
        cmocka_unit_test(every_reserved_byte_is_checked),
        cmocka_unit_test(bad_values_are_named),
        cmocka_unit_test(caps_hold_at_their_value),
        cmocka_unit_test(entries_are_counted),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
