"""reduce_open_opts.interrupted: a C program ends calls that wait for a daemon that answers only what it should."""
import os
import struct
import subprocess

import pytest

from conftest import LIB, ROOT, SANITIZER, sanitizer
from fakedaemon import FakeDaemon
from rawclient import ABORT, APPEND, BEGIN, CANCEL, PING, REDUCE, STORE, WRITE

PROGRAM = r"""
#include "client/reduce.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define CHECK(x) do { if (!(x)) { fprintf(stderr, "line %d: %s: %s\n", __LINE__, #x, reduce_errmsg()); return 1; } } while (0)

static reduce_client *c;
static int asked, patience, nested_error; /* it is asked so often until it says yes; 0: never yes */
static const char *until;                 /* if not NULL, a file: what it is asked before counts nothing */

static int is_over(void *arg)
{
    if (arg != &patience)
        abort();
    if (until && access(until, F_OK))
        return 0;
    asked++;
    if (patience < 0) { /* it calls the library, which asks it again if that takes long */
        patience = 0;
        nested_error = reduce_ping(c, NULL);
        return 1;
    }
    return patience && asked >= patience;
}

static double since;
static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void be_patient(int times)
{
    asked = 0;
    patience = times;
    since = now();
}

/* Was it interrupted, when it should be, and no later than that a busy machine explains it? */
static int interrupted(int err)
{
    const int right = err == REDUCE_E_INTERRUPTED && asked == (patience ? patience : 1) && now() - since < 10;
    return right && strstr(reduce_errmsg(), "INTERRUPTED: the program") != NULL;
}

static int deaf_listener(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
    return fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof a) || listen(fd, 8);
}

static int take_nothing(void *arg, const reduce_entry *e)
{
    (void)arg;
    (void)e;
    return 0;
}

int main(int argc, char **argv)
{
    reduce_open_opts opts = REDUCE_OPEN_OPTS_INIT;
    reduce_client *none = NULL;
    reduce_spec spec = REDUCE_SPEC_INIT;
    reduce_job *job;
    reduce_stream *stream;
    reduce_resident kept = REDUCE_RESIDENT_INIT;
    static double d[1 << 20];
    double sum = 0;
    CHECK(argc == 5 && !deaf_listener(argv[2]));
    opts.interrupted = is_over;
    opts.interrupted_arg = &patience;
    CHECK(reduce_open(&c, argv[1], &opts) == 0);
    spec.dtype = REDUCE_F64;

    be_patient(1);
    CHECK(interrupted(reduce_sum_f64(c, d, 3, &sum)) && sum == 0);
    be_patient(0);
    CHECK(reduce_ping(c, NULL) == 0);
    be_patient(4);
    CHECK(interrupted(reduce_sum_f64(c, d, 3, &sum)) && now() - since >= 0.2); /* every 50 ms */
    be_patient(2);
    until = argv[3];
    CHECK(interrupted(reduce_sum_f64(c, d, 1 << 20, &sum)));                    /* of several messages, and fdpass before */
    until = NULL;
    be_patient(1);
    CHECK(interrupted(reduce_query(c, REDUCE_TOPIC_STATUS, take_nothing, NULL)));
    be_patient(1);
    CHECK(interrupted(reduce_find(c, "name", &kept)));
    be_patient(1);
    CHECK(interrupted(reduce_drop(c, "name")));
    be_patient(2);
    until = argv[4];
    CHECK(interrupted(reduce_put(c, "name", REDUCE_F64, d, sizeof d, NULL)));   /* STORE is answered, WRITE is not */
    until = NULL;

    be_patient(-1);
    CHECK(reduce_sum_f64(c, d, 3, &sum) == REDUCE_E_INTERRUPTED && nested_error == 0 && asked >= 1);

    be_patient(0); /* a job that nobody waits for */
    CHECK(reduce_submit(c, &spec, d, sizeof *d * 3, &sum, sizeof sum, NULL, NULL, &job) == 0);
    CHECK(reduce_wait(job, 20, NULL) == REDUCE_PENDING);
    CHECK(reduce_wait(job, 220, NULL) == REDUCE_PENDING && asked > 0);
    be_patient(1);
    CHECK(interrupted(reduce_wait(job, UINT32_MAX, NULL)));
    CHECK(reduce_poll(job, NULL) == REDUCE_PENDING);
    reduce_cancel(job);
    CHECK(reduce_wait(job, UINT32_MAX, NULL) == REDUCE_E_CANCELLED);
    reduce_job_free(job);

    be_patient(0);
    spec.deadline_ms = 120; /* it ends the call as ever */
    CHECK(reduce_run(c, &spec, d, sizeof *d * 3, &sum, sizeof sum, NULL) == REDUCE_E_DEADLINE && asked > 0);
    spec.deadline_ms = 60000;
    be_patient(1);
    CHECK(interrupted(reduce_run(c, &spec, d, sizeof *d * 3, &sum, sizeof sum, NULL)));
    spec.deadline_ms = 0;

    be_patient(0);
    CHECK(reduce_stream_begin(c, &spec, &stream) == 0);
    be_patient(1);
    int err;
    while ((err = reduce_stream_append(stream, d, sizeof d)) == 0)
        ;
    CHECK(interrupted(err));
    CHECK(reduce_stream_append(stream, d, 8) == REDUCE_E_INTERRUPTED && asked == 1);
    reduce_stream_abort(stream);
    be_patient(0);
    CHECK(reduce_stream_begin(c, &spec, &stream) == 0 && reduce_stream_append(stream, d, 24) == 0);
    be_patient(1);
    CHECK(interrupted(reduce_stream_finish(stream, &sum, sizeof sum, NULL)));

    be_patient(3);
    opts.connect_timeout_ms = 60000;
    char url[200];
    snprintf(url, sizeof url, "ipc://%s", argv[2]);
    CHECK(interrupted(reduce_open(&none, url, &opts)) && !none);
    opts.flags = REDUCE_WAIT;
    be_patient(2);
    CHECK(interrupted(reduce_open(&none, "ipc:///nowhere/at/all", &opts)) && !none);
    be_patient(0);
    CHECK(reduce_ping(c, NULL) == 0 && sum == 0);
    reduce_close(c);
    puts("fine");
    return 0;
}
"""

SANITIZE = [f"-fsanitize={sanitizer()}"] if sanitizer() else []


@pytest.mark.parametrize("link", ["shared", "static"])
def test_calls_that_wait_end_when_the_program_says_so(scratch, link):
    """What was begun is given back: a stream, an array. Requests are withdrawn."""
    answered = {PING: b"", BEGIN: struct.pack("<Q", 77), STORE: struct.pack("<Q", 88), ABORT: b"", CANCEL: b""}
    source, program, aborted, seen = scratch / "interrupted.c", scratch / "interrupted", [], []
    parts, written = scratch / "parts", scratch / "written"  # files that say that two messages of a large sum, and a WRITE, are here
    source.write_text(PROGRAM)

    def answer(r):
        seen.append(r.kind)
        if seen.count(REDUCE) == 4:
            parts.touch()
        if r.kind == WRITE:
            written.touch()
        if r.kind == ABORT:
            aborted.append(r.body)
        if r.kind in answered:
            r.reply(answered[r.kind])
    libs = [f"-L{LIB}", "-lreduce"] if link == "shared" else [LIB / "libreduce.a", "-lnng", "-lm"]
    subprocess.run(["gcc", "-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}", *SANITIZE, source, *libs, "-pthread", "-o", program],
                   check=True)
    with FakeDaemon(scratch / "s", answer) as fake:
        ran = subprocess.run([program, fake.url, scratch / "deaf", parts, written], capture_output=True, text=True, timeout=120,
                             env={**os.environ, "LD_LIBRARY_PATH": str(LIB)})
        assert (ran.returncode, ran.stdout) == (0, "fine\n"), ran.stderr
        assert not SANITIZER.search(ran.stderr)
        assert sorted(aborted) == [answered[BEGIN], answered[STORE]]
        assert fake.count(REDUCE) >= 8 and fake.count(WRITE) > 0 and fake.count(APPEND) > 0
        assert fake.count(CANCEL) >= fake.count(REDUCE)
