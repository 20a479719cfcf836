/* A program of the time of version 0.1: every struct of its header. */
#include <stdio.h>
#include <string.h>

#include "reduce.h"

#define CHECK(x)                                                                  \
    do {                                                                          \
        if (!(x)) {                                                               \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #x, reduce_errmsg());  \
            return 1;                                                             \
        }                                                                         \
    } while (0)

/* A struct as it was, with something behind it that the library must leave alone. */
#define GUARDED(type, init)           \
    struct {                          \
        type s;                       \
        unsigned char behind[64];     \
    } type##_guarded = {.s = init};   \
    memset(type##_guarded.behind, 0xa5, sizeof type##_guarded.behind)
#define UNTOUCHED(type) (untouched(type##_guarded.behind) && type##_guarded.s.size == sizeof(type))

static int untouched(const unsigned char *bytes)
{
    for (int i = 0; i < 64; i++)
        if (bytes[i] != 0xa5)
            return 0;
    return 1;
}

static int count_entry(void *arg, const reduce_entry *e)
{
    *(int *)arg += e->key[0] != 0;
    return 0;
}

static int find_x(void *arg, const reduce_resident *r)
{
    *(int *)arg += !strcmp(r->name, "x") && r->dtype == REDUCE_F64 && r->bytes == 24;
    return 0;
}

static const double d[3] = {1.5, 2.25, -0.5};

static int results(reduce_client *c)
{
    double x;
    reduce_spec spec = REDUCE_SPEC_INIT;
    GUARDED(reduce_result, REDUCE_RESULT_INIT);
    reduce_result *r = &reduce_result_guarded.s;
    reduce_job *job;
    reduce_stream *stream;
    spec.dtype = REDUCE_F64;
    CHECK(reduce_run(c, &spec, d, sizeof d, &x, sizeof x, r) == 0 && x == 3.25 && r->count == 3 && r->cells == 1);
    CHECK(UNTOUCHED(reduce_result));
    CHECK(reduce_submit(c, &spec, d, sizeof d, &x, sizeof x, NULL, NULL, &job) == 0);
    r->count = 0;
    CHECK(reduce_wait(job, UINT32_MAX, r) == 0 && r->count == 3 && UNTOUCHED(reduce_result));
    reduce_job_free(job);
    CHECK(reduce_stream_begin(c, &spec, &stream) == 0 && reduce_stream_append(stream, d, sizeof d) == 0);
    r->count = 0;
    CHECK(reduce_stream_finish(stream, &x, sizeof x, r) == 0 && x == 3.25 && r->count == 3 && UNTOUCHED(reduce_result));
    return 0;
}

static int resident(reduce_client *c)
{
    int n = 0;
    double x;
    reduce_spec spec = REDUCE_SPEC_INIT;
    reduce_put_opts put = REDUCE_PUT_OPTS_INIT;
    GUARDED(reduce_resident, REDUCE_RESIDENT_INIT);
    spec.dtype = REDUCE_F64;
    put.flags = REDUCE_REPLACE;
    CHECK(reduce_put(c, "x", REDUCE_F64, d, sizeof d, &put) == 0);
    CHECK(reduce_find(c, "x", &reduce_resident_guarded.s) == 0 && reduce_resident_guarded.s.bytes == sizeof d);
    CHECK(UNTOUCHED(reduce_resident));
    CHECK(reduce_list(c, find_x, &n) == 0 && n == 1);
    CHECK(reduce_named(c, &spec, "x", 0, REDUCE_REST, &x, sizeof x, NULL) == 0 && x == 3.25);
    CHECK(reduce_drop(c, "x") == 0);
    return 0;
}

int main(int argc, char **argv)
{
    int n = 0;
    reduce_client *c;
    reduce_open_opts opts = REDUCE_OPEN_OPTS_INIT;
    GUARDED(reduce_info, REDUCE_INFO_INIT);
    GUARDED(reduce_fault, REDUCE_FAULT_INIT);
    opts.name = "a program of 0.1";
    CHECK(argc == 2 && REDUCE_VERSION == 100 && reduce_version() > REDUCE_VERSION);
    CHECK(reduce_open(&c, argv[1], &opts) == 0);
    CHECK(reduce_get_info(c, &reduce_info_guarded.s) == 0 && !strcmp(reduce_info_guarded.s.url, argv[1]));
    CHECK(UNTOUCHED(reduce_info));
    CHECK(reduce_query(c, REDUCE_TOPIC_STATUS, count_entry, &n) == 0 && n > 10);
    if (results(c) || resident(c))
        return 1;
    CHECK(reduce_drop(c, "x") == REDUCE_E_BAD_HANDLE);
    CHECK(reduce_last_fault(&reduce_fault_guarded.s) == 0 && reduce_fault_guarded.s.code == REDUCE_E_BAD_HANDLE);
    CHECK(UNTOUCHED(reduce_fault));
    reduce_close(c);
    puts("fine");
    return 0;
}
