/* Writes proto/protocol.json: the numbers, layouts and limits of the protocol, for programs. Numbers come from types.def and
 * limits.h. Where a field lies in a message is asked of the codec itself: it encodes a struct twice, with all bits of the field
 * clear and set, and the bytes that differ are the field. */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "proto/codec.h"

enum {
    NAME_ROOM = 1 << 16, /* what a name_len of 16 bits can copy at most */
    IMAGE = NAME_ROOM + 256
};

static uint8_t name_room[NAME_ROOM], clear[IMAGE], set[IMAGE];
static const char *separator = ""; /* before the next item */

/* ---- JSON ---- */
static void key(const char *indent, const char *name)
{
    printf("%s\n%s\"%s\": ", separator, indent, name);
    separator = ",";
}

static void open_map(const char *indent, const char *name)
{
    key(indent, name);
    printf("{");
    separator = "";
}

static void close_map(const char *indent)
{
    printf("\n%s}", indent);
    separator = ",";
}

static void number(const char *name, uint64_t v)
{
    key("    ", name);
    printf("%" PRIu64, v);
}

static void lower_number(const char *name, uint64_t v)
{
    char low[64];
    size_t n = 0;
    for (; name[n] && n < sizeof low - 1; n++)
        low[n] = (char)tolower((unsigned char)name[n]);
    low[n] = '\0';
    number(low, v);
}

/* ---- numbers ---- */
static void put_codes(void)
{
#define X(NAME, name, code, ...) number(name, code);
    open_map("  ", "messages");
    RP_MSGS(X)
    close_map("  ");
    open_map("  ", "ops");
    RP_OPS(X)
    close_map("  ");
    open_map("  ", "nan_policies");
    RP_NANS(X)
    close_map("  ");
    open_map("  ", "backends");
    RP_BACKENDS(X)
    close_map("  ");
    open_map("  ", "paths");
    RP_PATHS(X)
    close_map("  ");
    open_map("  ", "priorities");
    RP_PRIORITIES(X)
    close_map("  ");
    open_map("  ", "packets");
    RP_SIDES(X)
    close_map("  ");
    open_map("  ", "tags");
    RP_TAGS(X)
    close_map("  ");
    open_map("  ", "roles");
    RP_ROLES(X)
    close_map("  ");
    open_map("  ", "extents");
    RP_EXTENTS(X)
    close_map("  ");
    open_map("  ", "wheres");
    RP_WHERES(X)
    close_map("  ");
    open_map("  ", "forms");
    RP_FORMS(X)
    close_map("  ");
    open_map("  ", "parameters");
    RP_PARAMETERS(X)
    close_map("  ");
#undef X
    open_map("  ", "errors");
#define X(NAME, code, help) number(#NAME, code);
    RP_ERRORS(X)
#undef X
    close_map("  ");
}

static void put_flags(void)
{
    rp_store replace = {.replace = true, .name = ""};
    open_map("  ", "spec_flags");
    number("STATES_IN", RP_STATES_IN);
    number("STATES_OUT", RP_STATES_OUT);
    number("WRAP", RP_WRAP);
    number("INITIAL", RP_INITIAL);
    number("MASK", RP_MASK);
    number("OFFSETS", RP_OFFSETS);
    number("COLUMNS", RP_COLUMNS);
    close_map("  ");
    rp_put_store(set, &replace);
    open_map("  ", "store_flags");
    number("REPLACE", set[1]);
    rp_store shaped = {.shape = {.dims = 1}, .name = ""};
    rp_put_store(set, &shaped);
    number("SHAPED", set[1]);
    close_map("  ");
    open_map("  ", "topics");
    number("info", RP_TOPIC_INFO);
    number("status", RP_TOPIC_STATUS);
    number("metrics", RP_TOPIC_METRICS);
    number("requests", RP_TOPIC_REQUESTS);
    number("sessions", RP_TOPIC_SESSIONS);
    close_map("  ");
    open_map("  ", "entry_kinds");
    number("u64", RP_KIND_U64);
    number("f64", RP_KIND_F64);
    number("text", RP_KIND_TEXT);
    close_map("  ");
}

static void put_dtypes(void)
{
    static const char *const classes[] = {"", "signed", "unsigned", "float"};
    open_map("  ", "dtypes");
#define X(NAME, name, code, bytes, cls) \
    key("    ", name);                  \
    printf("{\"code\": %d, \"bytes\": %d, \"class\": \"%s\"}", code, bytes, classes[RP_CLASS_##cls]);
    RP_DTYPES(X)
#undef X
    close_map("  ");
}

static const char *layout_name(int layout)
{
#define X(NAME, code, sum, squares, others, ...) [code] = #NAME,
    static const char *const names[] = {RP_LAYOUTS(X)};
#undef X
    return names[layout];
}

static void put_layouts(void)
{
    open_map("  ", "layouts");
#define X(NAME, code, sum, squares, others, ...)                                                                       \
    key("    ", #NAME);                                                                                                \
    printf("{\"code\": %d, \"sum\": %d, \"squares\": %d, \"others\": %d, \"bytes\": %zu}", code, sum, squares, others, \
           rp_state_size(code));
    RP_LAYOUTS(X)
#undef X
    close_map("  ");
}

/* What op makes of a type: its state's layout, and the types that a reply may have, the default one first. */
static void put_result(int op, int dtype)
{
    rp_spec s = {.op = (uint8_t)op, .dtype = (uint8_t)dtype, .rows = 1};
    if (rp_spec_check(&s, NULL))
        return;
    key("      ", rp_dtype_name(dtype));
    printf("{\"state\": \"%s\", \"out\": [\"%s\"", layout_name(rp_state_layout(op, dtype)), rp_dtype_name(s.out));
    for (uint8_t out = 1; rp_dtype_size(out); out++) {
        rp_spec other = {.op = (uint8_t)op, .dtype = (uint8_t)dtype, .out = out, .rows = 1};
        if (out != s.out && rp_spec_check(&other, NULL) == RP_OK)
            printf(", \"%s\"", rp_dtype_name(out));
    }
    printf("]}");
}

static void put_results(void)
{
    open_map("  ", "results");
#define X(NAME, name, code, ...)           \
    open_map("    ", name);                \
    for (int d = 1; rp_dtype_size(d); d++) \
        put_result(code, d);               \
    close_map("    ");
    RP_OPS(X)
#undef X
    close_map("  ");
}

static void put_limits(void)
{
    open_map("  ", "limits");
#define X(NAME) lower_number(&#NAME[sizeof "RP_" - 1], NAME);
    RP_LIMITS(X) /* every number of limits.h, by the Makefile */
#undef X
    close_map("  ");
}

/* ---- layouts ---- */
static void begin_struct(const char *name, size_t size)
{
    open_map("    ", name);
    key("      ", "bytes");
    printf("%zu", size);
    open_map("      ", "fields");
}

static void end_struct(void)
{
    close_map("      ");
    close_map("    ");
}

/* The field is where the two images differ first; `size` 0: up to where they differ last. */
static void field(const char *name, size_t size)
{
    size_t from = 0, to = IMAGE;
    while (from < IMAGE && clear[from] == set[from])
        from++;
    while (to > from && clear[to - 1] == set[to - 1])
        to--;
    key("        ", name);
    printf("{\"offset\": %zu, \"size\": %zu}", from, size ? size : to - from);
    memset(clear, 0, sizeof clear);
    memset(set, 0, sizeof set);
}

/* `put` encodes x; `change` sets the field. */
#define FIELD_BY(name, size, type, put, base, change) \
    do {                                              \
        type x = base;                                \
        put(clear, &x);                               \
        change;                                       \
        put(set, &x);                                 \
        field(name, size);                            \
    } while (0)
#define FIELD(type, put, base, member) FIELD_BY(#member, 0, type, put, base, memset(&x.member, 0xff, sizeof x.member))

#define NO_HEADER ((rp_header){0})
static void put_header(void)
{
    begin_struct("header", RP_HEADER_SIZE);
    rp_put_header(set, &NO_HEADER);
    field("magic", 0);
    FIELD(rp_header, rp_put_header, NO_HEADER, version);
    FIELD(rp_header, rp_put_header, NO_HEADER, type);
    FIELD_BY("flags", sizeof(uint16_t), rp_header, rp_put_header, NO_HEADER, x.reply = true);
    FIELD(rp_header, rp_put_header, NO_HEADER, status);
    FIELD(rp_header, rp_put_header, NO_HEADER, time_ms);
    FIELD(rp_header, rp_put_header, NO_HEADER, session);
    FIELD(rp_header, rp_put_header, NO_HEADER, id);
    FIELD(rp_header, rp_put_header, NO_HEADER, body_len);
    end_struct();
}

#define NO_HELLO ((rp_hello){.name = (const char *)name_room})
#define NO_WELCOME ((rp_welcome){.server = (const char *)name_room})
static void put_hello(void)
{
    begin_struct("hello", RP_HELLO_SIZE);
    FIELD(rp_hello, rp_put_hello, NO_HELLO, min_version);
    FIELD(rp_hello, rp_put_hello, NO_HELLO, max_version);
    FIELD(rp_hello, rp_put_hello, NO_HELLO, name_len);
    FIELD(rp_hello, rp_put_hello, NO_HELLO, priority);
    end_struct();
    begin_struct("hello_reply", RP_WELCOME_SIZE);
    FIELD(rp_welcome, rp_put_welcome, NO_WELCOME, version);
    FIELD(rp_welcome, rp_put_welcome, NO_WELCOME, priority);
    FIELD(rp_welcome, rp_put_welcome, NO_WELCOME, max_data);
    FIELD(rp_welcome, rp_put_welcome, NO_WELCOME, chunk_hint);
    FIELD(rp_welcome, rp_put_welcome, NO_WELCOME, max_inflight);
    FIELD(rp_welcome, rp_put_welcome, NO_WELCOME, max_streams);
    FIELD(rp_welcome, rp_put_welcome, NO_WELCOME, session);
    FIELD(rp_welcome, rp_put_welcome, NO_WELCOME, server_len);
    FIELD(rp_welcome, rp_put_welcome, NO_WELCOME, token);
    end_struct();
}

static void put_topic(uint8_t *out, const uint32_t *topic) { rp_put_query(out, *topic); }

static void put_entry(uint8_t *out, const rp_entry *e)
{
    rp_writer w = {.out = out, .cap = IMAGE};
    rp_put_entry(&w, e);
}

#define NO_NUMBER ((rp_entry){.kind = RP_KIND_U64, .key = ""})
#define NO_ENTRY ((rp_entry){.kind = RP_KIND_TEXT, .key = (const char *)name_room, .text = (const char *)name_room})
static void put_query(void)
{
    begin_struct("query", RP_QUERY_SIZE);
    FIELD_BY("topic", 0, uint32_t, put_topic, 0, x = UINT32_MAX);
    end_struct();
    rp_writer w = {.out = clear, .cap = IMAGE};
    rp_put_entry(&w, &NO_ENTRY);
    begin_struct("entry", w.used);
    FIELD_BY("kind", 0, rp_entry, put_entry, NO_NUMBER, x.kind = RP_KIND_F64);
    FIELD(rp_entry, put_entry, NO_ENTRY, key_len);
    FIELD_BY("value_len", sizeof(uint16_t), rp_entry, put_entry, NO_ENTRY, x.text_len = UINT8_MAX);
    end_struct();
}

#define NO_SPEC ((rp_spec){0})
#define NO_RESULT ((rp_result){0})
static void put_reduce(void)
{
    begin_struct("spec", RP_SPEC_SIZE);
    FIELD(rp_spec, rp_put_spec, NO_SPEC, op);
    FIELD(rp_spec, rp_put_spec, NO_SPEC, dtype);
    FIELD(rp_spec, rp_put_spec, NO_SPEC, out);
    FIELD(rp_spec, rp_put_spec, NO_SPEC, nan);
    FIELD(rp_spec, rp_put_spec, NO_SPEC, tagged_len);
    FIELD(rp_spec, rp_put_spec, NO_SPEC, flags);
    FIELD(rp_spec, rp_put_spec, NO_SPEC, ddof);
    FIELD(rp_spec, rp_put_spec, NO_SPEC, rows);
    FIELD(rp_spec, rp_put_spec, NO_SPEC, row_len);
    FIELD(rp_spec, rp_put_spec, NO_SPEC, index_base);
    FIELD(rp_spec, rp_put_spec, NO_SPEC, initial);
    FIELD(rp_spec, rp_put_spec, NO_SPEC, planes);
    FIELD(rp_spec, rp_put_spec, NO_SPEC, device);
    end_struct();
    begin_struct("result", RP_RESULT_SIZE);
    FIELD(rp_result, rp_put_result, NO_RESULT, dtype);
    FIELD(rp_result, rp_put_result, NO_RESULT, backend);
    FIELD(rp_result, rp_put_result, NO_RESULT, path);
    FIELD(rp_result, rp_put_result, NO_RESULT, batch);
    FIELD(rp_result, rp_put_result, NO_RESULT, cell_size);
    FIELD(rp_result, rp_put_result, NO_RESULT, cells);
    FIELD(rp_result, rp_put_result, NO_RESULT, count);
    FIELD(rp_result, rp_put_result, NO_RESULT, queue_ns);
    FIELD(rp_result, rp_put_result, NO_RESULT, copy_ns);
    FIELD(rp_result, rp_put_result, NO_RESULT, compute_ns);
    end_struct();
}

static void put_append_of(uint8_t *out, const rp_append *a) { rp_put_append(out, a->stream, a->offset); }
static void put_write_of(uint8_t *out, const rp_write *w) { rp_put_write(out, w->handle, w->offset); }

/* REDUCE_AT: behind the spec. WRITE_AT: behind WRITE's fields. */
typedef struct {
    rp_write write;
    rp_at from;
} write_at;

static void put_write_at_of(uint8_t *out, const write_at *x)
{
    put_write_of(out, &x->write);
    rp_put_place(out + RP_WRITE_SIZE, &x->from);
}

/* Behind the name of STORE. */
static void put_shape_of(uint8_t *out, const rp_shape *s)
{
    uint8_t body[RP_STORE_MAX];
    rp_put_store(body, &(rp_store){.name = "", .shape = *s});
    memcpy(out, body + RP_STORE_SIZE, RP_SHAPE_SIZE);
}

static void put_at_of(uint8_t *out, const rp_at *a) { rp_put_at(out, &NO_SPEC, a); }

#define NO_APPEND ((rp_append){0})
#define NO_FINISH ((rp_finish){0})
#define NO_AT ((rp_at){0})
#define NO_WRITE ((rp_write){0})
#define NO_WRITE_AT ((write_at){0})
#define NO_SHAPE ((rp_shape){.dims = 1})
#define NO_STORE ((rp_store){.name = (const char *)name_room})
#define NO_RESIDENT ((rp_resident){.name = (const char *)name_room})
static void put_data(void)
{
    begin_struct("append", RP_APPEND_SIZE);
    FIELD(rp_append, put_append_of, NO_APPEND, stream);
    FIELD(rp_append, put_append_of, NO_APPEND, offset);
    end_struct();
    begin_struct("finish", RP_FINISH_SIZE);
    FIELD(rp_finish, rp_put_finish, NO_FINISH, stream);
    FIELD(rp_finish, rp_put_finish, NO_FINISH, count);
    end_struct();
    begin_struct("reduce_at", RP_AT_SIZE);
    FIELD(rp_at, put_at_of, NO_AT, handle);
    FIELD(rp_at, put_at_of, NO_AT, offset);
    FIELD(rp_at, put_at_of, NO_AT, length);
    end_struct();
    begin_struct("store", RP_STORE_SIZE);
    FIELD(rp_store, rp_put_store, NO_STORE, dtype);
    FIELD_BY("flags", 0, rp_store, rp_put_store, NO_STORE, x.replace = true);
    FIELD(rp_store, rp_put_store, NO_STORE, name_len);
    FIELD(rp_store, rp_put_store, NO_STORE, ttl_ms);
    FIELD(rp_store, rp_put_store, NO_STORE, bytes);
    end_struct();
    begin_struct("shape", RP_SHAPE_SIZE);
    FIELD_BY("dims", 1, rp_shape, put_shape_of, NO_SHAPE, x.dims = 2);
    FIELD_BY("order", 1, rp_shape, put_shape_of, NO_SHAPE, x.order = 1);
    end_struct();
    begin_struct("write", RP_WRITE_SIZE);
    FIELD(rp_write, put_write_of, NO_WRITE, handle);
    FIELD(rp_write, put_write_of, NO_WRITE, offset);
    end_struct();
    begin_struct("write_at", RP_WRITE_AT_SIZE);
    FIELD_BY("handle", 0, write_at, put_write_at_of, NO_WRITE_AT, x.write.handle = UINT64_MAX);
    FIELD_BY("offset", 0, write_at, put_write_at_of, NO_WRITE_AT, x.write.offset = UINT64_MAX);
    FIELD_BY("from", 0, write_at, put_write_at_of, NO_WRITE_AT, x.from.handle = UINT64_MAX);
    FIELD_BY("from_offset", 0, write_at, put_write_at_of, NO_WRITE_AT, x.from.offset = UINT64_MAX);
    FIELD_BY("length", 0, write_at, put_write_at_of, NO_WRITE_AT, x.from.length = UINT64_MAX);
    end_struct();
    begin_struct("list_entry", RP_RESIDENT_SIZE);
    FIELD(rp_resident, rp_put_resident, NO_RESIDENT, handle);
    FIELD(rp_resident, rp_put_resident, NO_RESIDENT, bytes);
    FIELD(rp_resident, rp_put_resident, NO_RESIDENT, age_ms);
    FIELD(rp_resident, rp_put_resident, NO_RESIDENT, left_ms);
    FIELD(rp_resident, rp_put_resident, NO_RESIDENT, uses);
    FIELD(rp_resident, rp_put_resident, NO_RESIDENT, dtype);
    FIELD(rp_resident, rp_put_resident, NO_RESIDENT, name_len);
    FIELD_BY("dims", 1, rp_resident, rp_put_resident, NO_RESIDENT, x.shape.dims = 1);
    FIELD_BY("order", 1, rp_resident, rp_put_resident, NO_RESIDENT, x.shape.order = 1);
    end_struct();
}

#define NO_PACKET ((rp_side){.reply = true})
#define NO_ATTACH ((rp_side){.kind = RP_SIDE_ATTACH})
#define NO_DEVICE ((rp_side){.kind = RP_SIDE_DEVICE})
#define NO_FAULT ((rp_fault){0})
static void put_packet(void)
{
    begin_struct("packet", RP_SIDE_SIZE);
    FIELD(rp_side, rp_put_side, NO_PACKET, kind);
    FIELD(rp_side, rp_put_side, NO_PACKET, status);
    FIELD(rp_side, rp_put_side, NO_PACKET, value);
    FIELD(rp_side, rp_put_side, NO_PACKET, size);
    FIELD(rp_side, rp_put_side, NO_ATTACH, token);
    FIELD(rp_side, rp_put_side, NO_DEVICE, uuid);
    FIELD(rp_side, rp_put_side, NO_DEVICE, device);
    end_struct();
    begin_struct("error", RP_ERROR_SIZE);
    FIELD(rp_fault, rp_put_fault, NO_FAULT, limit);
    FIELD(rp_fault, rp_put_fault, NO_FAULT, index);
    FIELD(rp_fault, rp_put_fault, NO_FAULT, value);
    FIELD_BY("field_len", sizeof(uint16_t), rp_fault, rp_put_fault, NO_FAULT, x.field[0] = 1);
    FIELD_BY("text_len", sizeof(uint16_t), rp_fault, rp_put_fault, NO_FAULT, x.text[0] = 1);
    end_struct();
}

int main(void)
{
    printf("{");
    key("  ", "about");
    printf("\"The numbers and layouts of PROTOCOL.md. Integers are little-endian; offsets and sizes are bytes. Written by make "
           "protocol-json: do not edit.\"");
    key("  ", "protocol");
    printf("%d", RP_WIRE_VERSION);
    put_codes();
    put_dtypes();
    put_flags();
    put_layouts();
    put_results();
    put_limits();
    open_map("  ", "structs");
    put_header();
    put_hello();
    put_query();
    put_reduce();
    put_data();
    put_packet();
    close_map("  ");
    printf("\n}\n");
    return fflush(stdout) ? 1 : 0;
}
