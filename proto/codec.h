/* Messages of PROTOCOL.md as bytes and as structs. Pure: bytes in, struct out, no I/O, no allocation, no globals;
 * safe from any thread. Decoders read untrusted bytes: every length is checked before use, every reserved field must be
 * zero. They return RP_OK, or an error code with `f` filled (field, limit, text). Pointers in decoded structs point
 * into the given bytes. Encoders write at most the stated number of bytes to caller memory and return how many. */
#ifndef RP_CODEC_H
#define RP_CODEC_H

#include "proto/tagged.h"
#include "proto/types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define RP_MAGIC 0x45434452u /* the bytes 'R' 'D' 'C' 'E' */
#define RP_HEADER_SIZE 40u
#define RP_SPEC_SIZE 64u
#define RP_HELLO_SIZE 8u    /* + name */
#define RP_WELCOME_SIZE 56u /* + server name */
#define RP_STREAM_SIZE 8u   /* BEGIN's reply, ABORT's request, APPEND's reply */
#define RP_APPEND_SIZE 16u  /* + data */
#define RP_FINISH_SIZE 16u
#define RP_QUERY_SIZE 8u
#define RP_ENTRY_SIZE 4u /* + key + value */
#define RP_PLACE_SIZE 24u
#define RP_AT_SIZE (RP_SPEC_SIZE + RP_PLACE_SIZE)
#define RP_STORE_SIZE 16u /* + name, + shape */
#define RP_SHAPE_SIZE 8u  /* + a u64 for each dimension */
#define RP_STORE_MAX (RP_STORE_SIZE + RP_MAX_NAME + RP_SHAPE_SIZE + 8 * RP_MAX_DIMS)
#define RP_WRITE_SIZE 16u /* + data */
#define RP_WRITE_AT_SIZE (RP_WRITE_SIZE + RP_PLACE_SIZE)
#define RP_RESIDENT_SIZE 40u /* + name, + a u64 for each dimension */
#define RP_RESIDENT_MAX (RP_RESIDENT_SIZE + RP_MAX_NAME + 8 * RP_MAX_DIMS)
#define RP_SIDE_SIZE 32u /* of a packet; errors follow, and in DEVICE its handle */
#define RP_SIDE_MAX (RP_SIDE_SIZE + RP_DEVICE_HANDLE)
#define RP_RESULT_SIZE 48u /* + cells */
#define RP_ERROR_SIZE 40u  /* + field + text */

/* Every message starts with this. */
typedef struct rp_header {
    uint8_t version;
    uint8_t type;      /* rp_msg */
    bool reply;        /* false: request */
    uint32_t status;   /* replies: rp_err; requests: 0 */
    uint32_t time_ms;  /* requests: deadline after receipt, 0 = none; BUSY replies: retry hint */
    uint64_t session;  /* 0 before HELLO is answered */
    uint64_t id;       /* chosen by the client, echoed */
    uint64_t body_len; /* bytes after the header */
} rp_header;

size_t rp_put_header(uint8_t out[RP_HEADER_SIZE], const rp_header *h);
/* `len` is the length of the whole message; body_len must be len - 40 and at most RP_MAX_BODY.
 * BAD_MESSAGE means that this is not a message of this protocol: drop the connection. Any `version` is accepted here. */
rp_err rp_get_header(const uint8_t *msg, size_t len, rp_header *h, rp_fault *f);

typedef struct rp_hello {
    uint8_t min_version, max_version; /* versions the client speaks, min <= max */
    uint8_t priority;                 /* rp_priority that it asks for */
    uint16_t name_len;
    const char *name; /* UTF-8 for the logs, not terminated */
} rp_hello;

size_t rp_put_hello(uint8_t *out, const rp_hello *h); /* RP_HELLO_SIZE + name_len */
rp_err rp_get_hello(const uint8_t *body, size_t len, rp_hello *h, rp_fault *f);

typedef struct rp_welcome {
    uint8_t version;     /* the one to speak from now on */
    uint8_t priority;    /* rp_priority that the session has */
    uint32_t max_data;   /* element bytes one message may carry */
    uint32_t chunk_hint; /* good APPEND payload, bytes */
    uint32_t max_inflight;
    uint32_t max_streams;
    uint64_t session;
    uint8_t token[RP_TOKEN]; /* for the fdpass socket; all 0: there is none */
    uint16_t server_len;
    const char *server; /* "reduced 0.1.0" */
} rp_welcome;

size_t rp_put_welcome(uint8_t *out, const rp_welcome *w); /* RP_WELCOME_SIZE + server_len */
rp_err rp_get_welcome(const uint8_t *body, size_t len, rp_welcome *w, rp_fault *f);

size_t rp_put_spec(uint8_t out[RP_SPEC_SIZE], const rp_spec *s);
/* Layout only; call rp_spec_check next. */
rp_err rp_get_spec(const uint8_t *body, size_t len, rp_spec *s, rp_fault *f);

typedef struct rp_append {
    uint64_t stream;
    uint64_t offset; /* index of the first element of the chunk in the whole array */
    const uint8_t *data;
    size_t data_len;
} rp_append;

size_t rp_put_append(uint8_t out[RP_APPEND_SIZE], uint64_t stream, uint64_t offset); /* data follows */
rp_err rp_get_append(const uint8_t *body, size_t len, rp_append *a, rp_fault *f);

typedef struct rp_finish {
    uint64_t stream;
    uint64_t count; /* elements in the whole array */
} rp_finish;

size_t rp_put_finish(uint8_t out[RP_FINISH_SIZE], const rp_finish *x);
rp_err rp_get_finish(const uint8_t *body, size_t len, rp_finish *x, rp_fault *f);

/* Does the body of a REDUCE have any? */
static inline bool rp_has_tagged(const uint8_t *body, size_t len)
{
    return len >= RP_SPEC_SIZE && (body[4] | body[5] | body[6] | body[7]);
}

/* ... and only a claim? */
static inline bool rp_has_claim_alone(const uint8_t *body, size_t len)
{
    return len > RP_SPEC_SIZE && body[4] == RP_PART_SIZE + RP_CLAIM_SIZE && !(body[5] | body[6] | body[7]) &&
           body[RP_SPEC_SIZE] == RP_TAG_CLAIM;
}

size_t rp_put_place(uint8_t out[RP_PLACE_SIZE], const rp_at *a); /* what follows the spec */
size_t rp_put_at(uint8_t out[RP_AT_SIZE], const rp_spec *s, const rp_at *a);
/* Layout only, as rp_get_spec; the spec has its parameters. */
rp_err rp_get_at(const uint8_t *body, size_t len, rp_spec *s, rp_at *a, rp_tagged *t, rp_fault *f);

typedef enum { RP_ORDER_C, RP_ORDER_F, RP_ORDER_COUNT } rp_order; /* the last index runs fastest, or the first one */

/* The shape of resident data. It is kept for their readers: no reduction depends on it. */
typedef struct rp_shape {
    uint8_t dims;  /* 0: the sender gave none */
    uint8_t order; /* rp_order */
    uint64_t len[RP_MAX_DIMS];
} rp_shape;

/* On which of the daemon's devices resident data are, or are to be. */
enum { RP_PLACE_ANY, RP_PLACE_SPREAD, RP_PLACE_DEVICE }; /* one that has room, all of them, that of this number */

/* STORE: an array that is to stay with the daemon, under a name. */
typedef struct rp_store {
    uint8_t dtype;
    bool replace;    /* data that have the name now, once these are complete */
    uint8_t place;   /* RP_PLACE_ANY, RP_PLACE_SPREAD, or RP_PLACE_DEVICE + the number of a device */
    uint32_t ttl_ms; /* from COMMIT on; 0: for ever */
    uint64_t bytes;
    uint16_t name_len;
    const char *name; /* not terminated */
    rp_shape shape;   /* its elements are those of `bytes` */
} rp_store;

/* Is it a name for resident data? 1 to RP_MAX_NAME letters, digits, '.', '_', '-', of which the first is a letter, a digit or
 * '_'. Errors: TOO_LARGE, BAD_MESSAGE. */
rp_err rp_name_check(const char *name, size_t len, rp_fault *f);

size_t rp_put_store(uint8_t *out, const rp_store *x); /* at most RP_STORE_MAX */
/* Values are checked, too. Errors: those of PROTOCOL.md that the message alone shows. */
rp_err rp_get_store(const uint8_t *body, size_t len, rp_store *x, rp_fault *f);

/* WRITE and WRITE_AT: where bytes go, before the bytes or where they are. */
typedef struct rp_write {
    uint64_t handle;     /* STORE's reply */
    uint64_t offset;     /* bytes */
    const uint8_t *data; /* WRITE */
    size_t data_len;
} rp_write;

size_t rp_put_write(uint8_t out[RP_WRITE_SIZE], uint64_t handle, uint64_t offset); /* data, or a place, follow */
rp_err rp_get_write(const uint8_t *body, size_t len, rp_write *w, rp_fault *f);
rp_err rp_get_write_at(const uint8_t *body, size_t len, rp_write *w, rp_at *a, rp_fault *f);

/* LIST: its reply is an array of these, to the end of the body. The body of its request, and of DROP's, is a name alone. */
typedef struct rp_resident {
    uint64_t handle;
    uint64_t bytes;
    uint64_t age_ms;  /* since COMMIT */
    uint64_t left_ms; /* to live; UINT64_MAX: no end */
    uint32_t uses;    /* requests under way that read it */
    uint8_t dtype;
    uint8_t name_len;
    uint8_t place;    /* as of rp_store; version 1 has none */
    const char *name; /* not terminated */
    rp_shape shape;   /* version 1 has none */
} rp_resident;

size_t rp_put_resident(uint8_t *out, const rp_resident *x); /* at most RP_RESIDENT_MAX */
rp_err rp_get_name(const uint8_t *body, size_t len, const char **name, rp_fault *f);

/* A packet of the fdpass socket; every field that its kind does not use is 0. */
typedef struct rp_side {
    bool reply;
    uint32_t kind;           /* rp_side_kind */
    rp_err status;           /* replies: an error's body follows unless it is RP_OK */
    uint64_t value;          /* ATTACH: session; ARENA: bytes; DROP: handle; replies to FILE, ARENA and DEVICE: handle */
    uint64_t size;           /* replies to FILE, ARENA and DEVICE: its bytes */
    uint8_t token[RP_TOKEN]; /* ATTACH */
    uint8_t device[RP_DEVICE_HANDLE]; /* DEVICE */
    uint8_t uuid[RP_UUID];            /* DEVICE: of the GPU that the memory is on; all 0: not known */
} rp_side;

size_t rp_put_side(uint8_t out[RP_SIDE_MAX], const rp_side *p); /* gives its bytes */
/* A request, without status; its values are not looked at. */
rp_err rp_get_side(const uint8_t *packet, size_t len, rp_side *p, rp_fault *f);
/* A reply; `e` is the error it carries. */
rp_err rp_get_side_reply(const uint8_t *packet, size_t len, rp_side *p, rp_fault *e, rp_fault *f);

/* One u64: the replies to BEGIN (stream), APPEND (elements received so far), STORE (handle), WRITE and WRITE_AT (bytes received
 * so far), CANCEL (requests taken back); the requests ABORT (stream), COMMIT (handle), CANCEL (id of a request). */
size_t rp_put_u64(uint8_t out[RP_STREAM_SIZE], uint64_t v);
rp_err rp_get_u64(const uint8_t *body, size_t len, uint64_t *v, const char *field, rp_fault *f);

typedef enum {
    RP_TOPIC_INFO = 1,
    RP_TOPIC_STATUS = 2,
    RP_TOPIC_METRICS = 3,
    RP_TOPIC_REQUESTS = 4,
    RP_TOPIC_SESSIONS = 5
} rp_topic;
size_t rp_put_query(uint8_t out[RP_QUERY_SIZE], uint32_t topic);
rp_err rp_get_query(const uint8_t *body, size_t len, uint32_t *topic, rp_fault *f);

/* QUERY's reply, but for metrics, which are a text: entries of key and value, in the daemon's order. Unknown keys are to
 * be shown or skipped. */
typedef enum { RP_KIND_U64 = 1, RP_KIND_F64 = 2, RP_KIND_TEXT = 3 } rp_kind;
typedef struct rp_entry {
    uint8_t kind;
    uint8_t key_len;
    uint16_t text_len;
    const char *key; /* not terminated: "pool.device.bytes" */
    uint64_t u64;
    double f64;
    const char *text; /* not terminated */
} rp_entry;

/* Write entries one after the other into out[0..cap); `used` starts at 0 and grows. NO_MEMORY when full, TOO_LARGE
 * above RP_MAX_ENTRIES (`n` counts them). Over-long keys and texts are cut. */
typedef struct rp_writer {
    uint8_t *out;
    size_t cap, used;
    uint32_t n;
} rp_writer;
rp_err rp_put_entry(rp_writer *w, const rp_entry *e);

/* Read entries: start with a reader over the body and call until `*end`. */
typedef struct rp_reader {
    const uint8_t *body;
    size_t len, at;
    uint32_t n;
} rp_reader;
rp_err rp_get_entry(rp_reader *r, rp_entry *e, bool *end, rp_fault *f);
rp_err rp_get_resident(rp_reader *r, rp_resident *x, bool *end, rp_fault *f); /* of LIST's reply, in the same way */

size_t rp_put_result(uint8_t out[RP_RESULT_SIZE], const rp_result *r); /* cells follow */
/* `cells` points at r->cells * r->cell_size bytes inside body; NULL: there are cells, but they are not in the reply. */
rp_err rp_get_result(const uint8_t *body, size_t len, rp_result *r, const uint8_t **cells, rp_fault *f);

size_t rp_put_fault(uint8_t *out, const rp_fault *e); /* at most RP_ERROR_SIZE + RP_MAX_FIELD + RP_MAX_TEXT */
/* `status` and `retry_ms` come from the header. */
rp_err rp_get_fault(const uint8_t *body, size_t len, uint32_t status, uint32_t retry_ms, rp_fault *e, rp_fault *f);

#ifdef __cplusplus
}
#endif
#endif
