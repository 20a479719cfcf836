"""The library from outside: programs in C11 and C++17 against the public header alone, its symbols, its fork rule."""
import os
import re
import subprocess
import sys

import pytest

from conftest import LIB, ROOT, SANITIZER, sanitizer

sys.path.insert(0, str(ROOT / "tests" / "abi"))
import stand_in  # noqa: E402

EXAMPLE = r"""
#include "client/reduce.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <sys/wait.h>

#define CHECK(x) do { if (!(x)) { fprintf(stderr, "line %d: %s: %s\n", __LINE__, #x, reduce_errmsg()); return 1; } } while (0)

static int done_calls;
static void on_done(void *arg, reduce_job *job, int err) { (void)job; (void)err; __atomic_add_fetch((int *)arg, 1, __ATOMIC_SEQ_CST); }
static int count_entry(void *arg, const reduce_entry *e) { (void)e; ++*(int *)arg; return 0; }
static int begins(void *with, const char *text) { return strncmp(text, (char *)with, strlen((char *)with)) == 0 ? 5 : 6; }

int main(int argc, char **argv)
{
    reduce_client *c = NULL, *remote = NULL;
    double d[3] = {1.5, 2.25, -0.5}, sum = 0;
    int32_t i[4] = {3, -7, 9, -7};
    int64_t least = 0;
    uint64_t at = 0, ns = 0;
    CHECK(argc == 3 && reduce_open(&c, argv[1], NULL) == REDUCE_OK && reduce_open(&remote, argv[2], NULL) == REDUCE_OK);
    CHECK(reduce_ping(c, &ns) == 0 && ns > 0);
    CHECK(reduce_sum_f64(c, d, 3, &sum) == 0 && sum == 3.25);
    CHECK(reduce_min_i32(c, i, 4, &least) == 0 && least == -7);
    CHECK(reduce_argmin_i32(c, i, 4, &at) == 0 && at == 1);
    CHECK(reduce_count_nonzero_i32(c, i, 4, &at) == 0 && at == 4);
    CHECK(reduce_max_f64(c, d, 0, &sum) == REDUCE_E_EMPTY && sum == 3.25 && strstr(reduce_errmsg(), "EMPTY"));
    CHECK(reduce_sum_f64(NULL, d, 3, &sum) == REDUCE_E_ARGUMENT);
    CHECK(reduce_sum_f64(c, NULL, 3, &sum) == REDUCE_E_ARGUMENT);

    double both[2] = {0, 0}, mean = 0;
    int64_t bits = 0;
    reduce_stats stats;
    CHECK(reduce_minmax_f64(c, d, 3, both) == 0 && both[0] == -0.5 && both[1] == 2.25);
    CHECK(reduce_mean_i32(c, i, 4, &mean) == 0 && mean == -0.5);
    CHECK(reduce_var_f64(c, d, 3, 1, &mean) == 0 && mean > 2.0208 && mean < 2.0209);
    CHECK(reduce_std_f64(c, d, 3, 3, &mean) == 0 && mean != mean);
    CHECK(reduce_prod_i32(c, i, 4, &least) == 0 && least == 1323);
    CHECK(reduce_xor_i32(c, i, 4, &bits) == 0 && bits == (3 ^ 9));
    CHECK(reduce_any_i32(c, i, 4, &at) == 0 && at == 1);
    CHECK(reduce_stats_i32(c, i, 4, 0, &stats) == 0 && stats.count == 4 && stats.min.i64 == -7 && stats.argmin == 1 && stats.argmax == 2);
    CHECK(stats.sum.i64 == -2 && stats.sum_high == UINT64_MAX && stats.mean == -0.5 && stats.zeros == 0);
    CHECK(reduce_stats_f64(c, d, 0, 0, &stats) == 0 && stats.count == 0 && stats.argmin == REDUCE_NO_INDEX && stats.sum.f64 == 0);

    reduce_spec shape = REDUCE_SPEC_INIT;
    const uint8_t mask[4] = {1, 0, 1, 1};
    const uint64_t offsets[4] = {0, 1, 1, 4};
    const int32_t initial = -8;
    int64_t cells[3] = {0, 0, 0};
    size_t room = 0;
    shape.dtype = REDUCE_I32;
    shape.rows = 2;
    shape.flags = REDUCE_COLUMNS;
    CHECK(reduce_result_size(&shape, sizeof i, &room) == 0 && room == 16);
    CHECK(reduce_run(c, &shape, i, sizeof i, cells, room, NULL) == 0 && cells[0] == 12 && cells[1] == -14);
    CHECK(reduce_result_size(&shape, 12, &room) == REDUCE_E_SHAPE && reduce_result_size(&shape, 16, NULL) == REDUCE_E_ARGUMENT);
    shape.flags = 0;
    shape.op = REDUCE_MAX;
    shape.rows = 3;
    shape.offsets = offsets;
    shape.mask = mask;
    CHECK(reduce_run(c, &shape, i, sizeof i, cells, sizeof cells, NULL) == REDUCE_E_EMPTY);
    reduce_fault fault = REDUCE_FAULT_INIT;
    CHECK(reduce_last_fault(&fault) == 0 && fault.index == 1 && !strcmp(reduce_errmsg(), "EMPTY: row 1: max of no elements"));
    const uint64_t most[2] = {UINT64_MAX, UINT64_MAX};
    uint64_t over = 0;
    CHECK(reduce_sum_u64(c, most, 2, &over) == REDUCE_E_OVERFLOW &&
          !strcmp(reduce_errmsg(), "OVERFLOW: the exact sum does not fit u64; the exact value is 36893488147419103230"));
    CHECK(reduce_max_u64(c, most, 0, &over) == REDUCE_E_EMPTY && !strcmp(reduce_errmsg(), "EMPTY: max of no elements"));
    shape.initial = &initial;
    CHECK(reduce_run(c, &shape, i, sizeof i, cells, sizeof cells, NULL) == 0 && cells[0] == 3 && cells[1] == -8 && cells[2] == 9);

    reduce_spec s = REDUCE_SPEC_INIT;
    s.dtype = REDUCE_F64;
    s.rows = 3;
    double rows[3] = {0, 0, 0};
    reduce_result r = REDUCE_RESULT_INIT;
    CHECK(reduce_run(c, &s, d, sizeof d, rows, sizeof rows, &r) == 0 && memcmp(rows, d, sizeof d) == 0 && r.cells == 3 && r.count == 3);
    CHECK(reduce_run(c, &s, d, sizeof d, rows, sizeof rows - 1, &r) == REDUCE_E_ARGUMENT);
    CHECK(reduce_run(c, &s, d, sizeof d - 8, rows, sizeof rows, &r) == REDUCE_E_SHAPE);
    s.size = 3;
    CHECK(reduce_run(c, &s, d, sizeof d, rows, sizeof rows, &r) == REDUCE_E_ARGUMENT);

    reduce_spec total = REDUCE_SPEC_INIT;
    total.dtype = REDUCE_F64;
    reduce_job *job = NULL;
    CHECK(reduce_submit(c, &total, d, sizeof d, &sum, sizeof sum, on_done, &done_calls, &job) == 0);
    CHECK(reduce_wait(job, UINT32_MAX, NULL) == 0 && sum == 3.25);
    reduce_job_free(job);
    CHECK(__atomic_load_n(&done_calls, __ATOMIC_SEQ_CST) == 1);

    reduce_stream *stream = NULL;
    CHECK(reduce_stream_begin(c, &total, &stream) == 0);
    CHECK(reduce_stream_append(stream, d, 5) == 0 && reduce_stream_append(stream, (char *)d + 5, sizeof d - 5) == 0);
    CHECK(reduce_stream_finish(stream, &sum, sizeof sum, &r) == 0 && sum == 3.25);

    int entries = 0;
    CHECK(reduce_query(c, REDUCE_TOPIC_STATUS, count_entry, &entries) == 0 && entries > 10);
    for (int topic = REDUCE_TOPIC_STATUS + 1; topic < 7; topic++)
        CHECK(reduce_query(c, topic, count_entry, &entries) == (topic == REDUCE_TOPIC_REQUESTS || topic == REDUCE_TOPIC_SESSIONS ? 0 : REDUCE_E_ARGUMENT));
    CHECK(reduce_query(c, 0, count_entry, &entries) == REDUCE_E_ARGUMENT);
    CHECK(reduce_metrics(c, begins, (void *)"# HELP reduced_") == 5 && reduce_metrics(c, NULL, NULL) == REDUCE_E_ARGUMENT);

    fflush(NULL);
    pid_t child = fork();
    if (child == 0) { /* the fork rule: an error, at once, no hang and no crash */
        int bad = reduce_sum_f64(c, d, 3, &sum) != REDUCE_E_FORKED || reduce_open(&remote, argv[2], NULL) != REDUCE_E_FORKED;
#ifndef __SANITIZE_THREAD__ /* which allows no threads after a fork */
        bad = bad || reduce_open(&c, argv[1], NULL) || reduce_sum_f64(c, d, 3, &sum) || sum != 3.25;
        reduce_close(c);
#endif
        _exit(bad);
    }
    int status = 1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(reduce_sum_f64(c, d, 3, &sum) == 0 && sum == 3.25);
    reduce_close(c);
    reduce_close(remote);
    reduce_close(NULL);
    puts("fine");
    return 0;
}
"""

SANITIZE = [f"-fsanitize={sanitizer()}"] if sanitizer() else []
COMPILERS = {
    "c11": ["gcc", "-std=c11", "-D_GNU_SOURCE", "-x", "c"],
    "c++17": ["g++", "-std=c++17", "-x", "c++", "-Wno-missing-field-initializers"],
}


@pytest.mark.parametrize("language", COMPILERS)
@pytest.mark.parametrize("link", ["shared", "static"])
def test_program(start, scratch, language, link):
    source, program = scratch / "example.src", scratch / "example"
    source.write_text(EXAMPLE)
    libs = [f"-L{LIB}", "-lreduce"] if link == "shared" else [LIB / "libreduce.a", "-lnng", "-lm"]
    command = [*COMPILERS[language], "-Wall", "-Wextra", "-Werror", "-pedantic", f"-I{ROOT}", *SANITIZE, source, "-x", "none", *libs, "-pthread", "-o", program]
    built = subprocess.run(command, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    daemon = start(tcp=True)
    ran = subprocess.run([program, daemon.url, daemon.tcp_url], capture_output=True, text=True, timeout=60, env={**os.environ, "LD_LIBRARY_PATH": str(LIB)})
    assert (ran.returncode, ran.stdout) == (0, "fine\n"), ran.stderr
    assert not SANITIZER.search(ran.stderr)


NO_MEMORY = r"""
#include <client/reduce.h>
#include <stdio.h>
#include <stdlib.h>

static int lacking;
void *__real_malloc(size_t n);
void *__wrap_malloc(size_t n) { return lacking && n > 65536 ? NULL : __real_malloc(n); }

int main(int argc, char **argv)
{
    reduce_client *c;
    reduce_stream *s;
    reduce_spec spec = REDUCE_SPEC_INIT;
    float d[2] = {1, 2};
    double sum;
    if (argc < 2 || reduce_open(&c, argv[1], NULL) || reduce_stream_begin(c, &spec, &s))
        return printf("%s\n", reduce_errmsg()), 1;
    int refused = reduce_stream_append_masked(s, d, d, 2);
    lacking = 1;
    int first = reduce_stream_append(s, d, sizeof d);
    lacking = 0;
    int next = reduce_stream_append(s, d, sizeof d);
    printf("%d %d %d %d\n", refused, first, next, reduce_stream_finish(s, &sum, sizeof sum, NULL));
    reduce_close(c);
}
"""


@pytest.mark.unsanitized
def test_a_stream_that_lacked_memory_has_no_value(start, scratch):
    """Without the piece that was not appended it would be another one."""
    source, program = scratch / "p.c", scratch / "p"
    source.write_text(NO_MEMORY)
    command = [*COMPILERS["c11"], f"-I{ROOT}", source, "-x", "none", "-Wl,--wrap=malloc", LIB / "libreduce.a", "-lnng", "-lm", "-pthread", "-o", program]
    built = subprocess.run(command, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    assert subprocess.run([program, start().url], capture_output=True, text=True, timeout=60).stdout == "-101 -19 -19 -19\n"


@pytest.mark.unsanitized
def test_exported_symbols_are_the_header_s():
    """A new program links what the header declares, and nothing else. tests/lint/abi has the list."""
    text = subprocess.run(["nm", "-D", "--defined-only", LIB / "libreduce.so"], capture_output=True, text=True, check=True).stdout
    exported = set(re.findall(r" T (\w+)@@", text))
    declared = set(stand_in.prototypes(ROOT / "client" / "reduce.h"))
    assert exported and declared == exported, (declared - exported, exported - declared)


@pytest.mark.unsanitized
def test_header_needs_nothing_but_standard_types():
    header = (ROOT / "client" / "reduce.h").read_text()
    assert set(re.findall(r"#include\s+<(\w+\.h)>", header)) - {"reduce.h"} <= {"stddef.h", "stdint.h", "stdbool.h"}


@pytest.mark.unsanitized
def test_codes_are_the_protocol_s():
    """The public header repeats the codes of types.def."""
    header, table = (ROOT / "client" / "reduce.h").read_text(), (ROOT / "proto" / "types.def").read_text()
    for name, code in re.findall(r"X\((\w+), (\d+), \"", table):
        if name != "OK":
            assert re.search(rf"REDUCE_E_{name} = -{code},", header), name
    for name, code in re.findall(r"X\((\w+), \"\w+\", (\d+), ", table.split("RP_MSGS")[0].split("RP_NANS")[0]):
        assert re.search(rf"REDUCE_{name} = {code}\b", header), name
