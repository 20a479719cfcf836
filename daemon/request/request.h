/* A request on its way through the daemon. One request lives in each exchange and is used over and over, so a request costs no
 * allocation of its own. */
#ifndef RD_REQUEST_H
#define RD_REQUEST_H

#include "daemon/net/exchange.h"
#include "daemon/request/file_read.h"
#include "daemon/state/engine_job.h"
#include "proto/codec.h"

struct rd_requests;
struct rd_session;
struct rd_handle;
struct rd_resident;
struct rd_beside;
struct rd_stream;

typedef struct rd_request {
    rd_exchange exchange; /* first: the transport makes it with room for the rest */
    rd_job job;
    /* dispatch sets these */
    struct rd_requests *all;
    const uint8_t *body;
    size_t body_len;
    uint64_t deadline_ns; /* 0 = none */
    struct rd_session *session;
    /* the handler sets these */
    void (*release)(struct rd_request *r); /* gives back what the request holds, before its reply leaves; NULL: nothing */
    rp_path path;                          /* how the data arrive; 0: not known */
    struct rd_stream *stream;              /* APPEND, FINISH */
    struct rd_handle *handle;              /* REDUCE_AT, WRITE_AT: held until the request ends */
    struct rd_beside *beside;              /* REDUCE, REDUCE_AT: companions and results that are elsewhere; NULL: none */
    uint8_t *results;                      /* where its cells go; NULL: into the reply */
    rp_claim claim;                        /* REDUCE, REDUCE_AT, BEGIN */
    uint64_t scratch;                      /* REDUCE, REDUCE_AT: bytes that its user is charged with beside the message */
    bool held;                             /* it waits until devices are open (RD_LATER) */
    bool parked;                           /* REDUCE_AT, WRITE_AT: its user has all the buffers that it may have */
    struct rd_request *next_parked;        /* of the same user */
    rd_read read;                          /* REDUCE_AT, WRITE_AT: from a file */
    struct rd_resident *resident;          /* REDUCE_AT, STORE, WRITE, WRITE_AT: held until the request ends */
    bool spread;                           /* REDUCE_AT: its data lie on several devices */
    bool written;                          /* WRITE, WRITE_AT: the bytes were stored */
    uint8_t *reply;              /* REDUCE, REDUCE_AT and FINISH: body of the reply; the engine writes the cells into it */
    uint64_t offset, count;      /* APPEND: first element and elements; FINISH: count; WRITE, WRITE_AT: first byte and bytes */
    uint8_t state[RP_MAX_STATE]; /* APPEND: the chunk's state, */
    uint8_t *states;             /* or by key those of all groups */
    /* the list of requests under way, of the loop or of the fast path */
    struct rd_request *next, **link;
} rd_request;

static inline rd_request *rd_request_of_item(rd_item *i) { return (rd_request *)((char *)i - offsetof(rd_request, job.item)); }

/* Put it at the head of a list of requests, or take it out of the list that it is in, if any. */
static inline void rd_request_link(rd_request *r, rd_request **list)
{
    r->next = *list;
    r->link = list;
    if (r->next)
        r->next->link = &r->next;
    *list = r;
}

static inline void rd_request_unlink(rd_request *r)
{
    if (!r->link)
        return;
    *r->link = r->next;
    if (r->next)
        r->next->link = r->link;
    r->link = NULL;
}

/* Give back what it holds. */
static inline void rd_request_release(rd_request *r)
{
    if (r->release)
        r->release(r);
}

/* A new message: clear what an earlier request left in the exchange. */
void rd_request_begin(rd_request *r, struct rd_requests *all);

/* Fill the task of a REDUCE without tagged parts, except for its cells: spec and data are checked and set. Errors: those of
 * PROTOCOL.md's table that do not need the engine. */
rp_err rd_read_task(rd_request *r, rp_fault *f);

/* What a handler returns instead of an error if the request needs a device and devices are still opening. The handler has
 * changed nothing, and is called again when they are open. */
#define RD_LATER ((rp_err)-1)

/* rp_spec_check, or for results elsewhere (`large`) rp_spec_check_large, and whether the device that the spec asks for is
 * there. Any thread. RD_LATER, or errors: rp_spec_check's, BAD_HANDLE, DEVICE_LOST. */
rp_err rd_check_spec(const rd_request *r, rp_spec *spec, bool large, rp_fault *f);

/* Allocate the reply with its cells, unless they go elsewhere: the engine writes straight into it. Errors: NO_MEMORY. */
rp_err rd_make_room(rd_request *r, const rp_spec *spec, rp_fault *f);

/* A handler's error when rd_exchange_reply returned NULL. */
rp_err rd_no_memory(rp_fault *f);

/* The reply to REDUCE, REDUCE_AT or FINISH, from the request's finished task. */
rp_result rd_result_of(const rd_request *r, const rp_spec *spec, uint64_t count);

/* The time from its receipt until the engine began with it. */
uint64_t rd_queued_ns(const rd_request *r);

/* CLOCK_MONOTONIC; 0: none. */
uint64_t rd_deadline_of(const rd_request *r);

/* Has the deadline passed? Then `f` gets DEADLINE. */
bool rd_late(const rd_request *r, rp_fault *f);

/* Its session is gone, or its deadline has passed: no more work is done for it. `f` gets the reason. */
bool rd_abandoned(const rd_request *r, rp_fault *f);

#endif
