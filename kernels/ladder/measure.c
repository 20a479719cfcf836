/* Input, repeats, medians and the check of every value against the exact sum. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/ladder/ladder.h"

enum {
    RUNS = 21,      /* timed runs of a rung ... */
    RUNS_LEAST = 3, /* ... or this many, if they add up to more than RUNS_MS */
    RUNS_MS = 1000,
    RUNS_MOST = 1000 /* --repeat */
};

typedef struct ladder_bench {
    const ladder_options *o;
    ladder_row machine; /* what all rows have in common */
    ladder_gpu *gpu;    /* NULL: `no_gpu` */
    char no_gpu[LADDER_WHY];
    void *data, *work; /* on the host: the input, and what CPU rungs may spend */
    uint64_t n;
    ladder_dtype dtype;
    double exact;
} ladder_bench;

enum { ELEMENT = 4 }; /* bytes of both types */

/* splitmix64 of the index: odd integers from -7 to 7. The sum of a set of elements that was chosen without looking at
 * them is near 4.6 sqrt(size): 2^24, from which on float32 lacks integers, is 28 standard deviations away even for 2^34
 * of them. So no rung ever rounds, whatever its order, and since no element is 0 a lost one shows. */
static int32_t element(uint64_t i)
{
    uint64_t z = (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return 2 * (int32_t)(z >> 61) - 7;
}

static double fill(void *data, ladder_dtype dtype, uint64_t n)
{
    int64_t sum = 0; /* |sum| <= 7 n: exact, also as a double */
    for (uint64_t i = 0; i < n; i++) {
        int32_t x = element(i);
        sum += x;
        if (dtype == LADDER_I32)
            ((int32_t *)data)[i] = x;
        else
            ((float *)data)[i] = (float)x;
    }
    return (double)sum;
}

static void cpu_name(char *out, size_t cap)
{
    char line[256];
    FILE *f = fopen("/proc/cpuinfo", "re");
    snprintf(out, cap, "unknown CPU");
    while (f && fgets(line, sizeof line, f)) {
        char *colon = strchr(line, ':');
        if (colon && !strncmp(line, "model name", 10)) {
            snprintf(out, cap, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
            break;
        }
    }
    if (f)
        fclose(f);
}

ladder_row *ladder_rows_add(ladder_rows *rows)
{
    if (rows->count == rows->room) {
        size_t room = rows->room ? 2 * rows->room : 64;
        ladder_row *bigger = realloc(rows->row, room * sizeof *bigger);
        if (!bigger)
            return NULL;
        rows->row = bigger;
        rows->room = room;
    }
    ladder_row *r = &rows->row[rows->count++];
    *r = (ladder_row){.peak_gbs = NAN,
                      .value = NAN,
                      .exact = NAN,
                      .ms = NAN,
                      .ms_min = NAN,
                      .ms_max = NAN,
                      .gbs = NAN,
                      .share = NAN,
                      .over_cpu = NAN,
                      .over_before = NAN,
                      .published_ms = NAN};
    return r;
}

/* One run; false: it broke. */
static bool run_once(ladder_bench *b, const ladder_rung *rung, unsigned block, ladder_finish finish, ladder_run *run,
                     char why[LADDER_WHY])
{
    if (rung->kind != LADDER_CPU)
        return ladder_gpu_run(b->gpu, rung, block, finish, run, why);
    if (rung->in_place)
        memcpy(b->work, b->data, b->n * ELEMENT);
    ladder_cpu_run(rung, b->dtype, rung->in_place ? b->work : b->data, b->n, run);
    return true;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void set_times(ladder_row *r, double *ms, int runs)
{
    qsort(ms, (size_t)runs, sizeof *ms, by_size);
    r->runs = (uint64_t)runs;
    r->ms = (ms[(runs - 1) / 2] + ms[runs / 2]) / 2;
    r->ms_min = ms[0];
    r->ms_max = ms[runs - 1];
    r->gbs = r->ms > 0 ? (double)r->n * ELEMENT / r->ms * 1e-6 : NAN;
}

/* Run a rung as often as wanted; each value must be the exact sum. */
static void run_rung(ladder_bench *b, const ladder_rung *rung, unsigned block, ladder_finish finish, ladder_row *r)
{
    const ladder_options *o = b->o;
    static double ms[RUNS_MOST];
    ladder_run run;
    double total = 0;
    int runs = 0, warm = o->check ? 0 : 1, wanted = o->check ? 1 : o->repeat ? o->repeat : RUNS;
    r->verdict = LADDER_RIGHT;
    for (int i = -warm; i < wanted; i++) {
        if (!run_once(b, rung, block, finish, &run, r->note)) {
            r->verdict = LADDER_BROKEN;
            return;
        }
        if (r->verdict == LADDER_RIGHT) /* a wrong value stays */
            r->value = run.value;
        if (run.value != b->exact)
            r->verdict = LADDER_WRONG;
        if (i < 0)
            continue;
        ms[runs++] = run.ms;
        total += run.ms;
        if (!o->repeat && runs >= RUNS_LEAST && total > RUNS_MS)
            break;
    }
    r->grid = run.grid;
    r->passes = run.passes;
    set_times(r, ms, runs);
}

/* Why a rung cannot run here, in r->note. */
static bool may_run(const ladder_bench *b, const ladder_rung *rung, unsigned block, ladder_row *r)
{
    if (rung->kind == LADDER_CPU)
        return true;
    if (!b->gpu)
        snprintf(r->note, sizeof r->note, "needs a GPU (%.200s)", b->no_gpu);
    else if (rung->power_of_two && (block & (block - 1)))
        snprintf(r->note, sizeof r->note, "needs a block of 2^k threads");
    return r->note[0] == 0;
}

static void compare(ladder_row *r, const ladder_rung *rung, double base_ms, double before_ms, ladder_dtype dtype)
{
    const ladder_figure *f = ladder_published(r->rung, dtype, r->n);
    if (f) {
        r->published_ms = f->ms;
        snprintf(r->published_on, sizeof r->published_on, "%s", f->machine);
    }
    if (rung->kind != LADDER_CPU && r->peak_gbs > 0)
        r->share = r->gbs / r->peak_gbs;
    r->over_cpu = base_ms / r->ms; /* NaN where one was not run */
    r->over_before = before_ms / r->ms;
}

/* Does the rung have nothing new to show in this combination? The CPU's rungs know no block and no finish, and the rungs
 * that give the value by themselves no finish. */
static bool repeats(const ladder_rung *rung, int block_at, int finish_at)
{
    bool any_block = rung->kind == LADDER_CPU || rung->per_thread == 0;
    return (any_block && block_at > 0) || (rung->kind != LADDER_BLOCKS && finish_at > 0);
}

/* All rungs for one block size and finish. */
static bool climb(ladder_bench *b, ladder_rows *rows, int block_at, int finish_at)
{
    const ladder_options *o = b->o;
    double base_ms = NAN, before_ms = NAN;
    size_t first = rows->count;
    for (int i = 0; i < ladder_rung_count; i++) {
        const ladder_rung *rung = &ladder_rungs[i];
        if (!o->rung[i] || (o->check && repeats(rung, block_at, finish_at)))
            continue;
        ladder_row *r = ladder_rows_add(rows);
        if (!r)
            return false;
        *r = b->machine;
        snprintf(r->rung, sizeof r->rung, "%s", rung->name);
        snprintf(r->dtype, sizeof r->dtype, "%s", ladder_dtype_names[b->dtype]);
        snprintf(r->finish, sizeof r->finish, "%s", ladder_finish_names[o->finish[finish_at]]);
        r->n = b->n;
        r->block = o->block[block_at];
        r->exact = b->exact;
        r->verdict = LADDER_NOT_RUN;
        if (may_run(b, rung, o->block[block_at], r))
            run_rung(b, rung, o->block[block_at], o->finish[finish_at], r);
        if (!strcmp(rung->name, "cpu-recursive-interleaved"))
            base_ms = r->ms;
    }
    for (size_t i = first; i < rows->count; i++) {
        ladder_row *r = &rows->row[i];
        const ladder_rung *rung = ladder_rungs;
        while (strcmp(rung->name, r->rung))
            rung++;
        compare(r, rung, base_ms, before_ms, b->dtype);
        if (r->verdict != LADDER_NOT_RUN)
            before_ms = r->ms;
    }
    return true;
}

static bool prepare(ladder_bench *b, ladder_dtype dtype, uint64_t n, char why[LADDER_WHY])
{
    b->dtype = dtype;
    b->n = n;
    b->data = malloc(n * ELEMENT);
    b->work = malloc(n * ELEMENT);
    if (!b->data || !b->work) {
        snprintf(why, LADDER_WHY, "no memory for twice %llu elements on the host", (unsigned long long)n);
        return false;
    }
    b->exact = fill(b->data, dtype, n);
    char reason[LADDER_WHY];
    if (b->gpu && !ladder_gpu_load(b->gpu, dtype, b->data, n, reason)) {
        snprintf(why, LADDER_WHY, "%llu elements on the GPU: %.200s", (unsigned long long)n, reason);
        return false;
    }
    return true;
}

static bool measure_size(ladder_bench *b, ladder_dtype dtype, uint64_t n, ladder_rows *rows, char why[LADDER_WHY])
{
    const ladder_options *o = b->o;
    bool good = prepare(b, dtype, n, why);
    for (int f = 0; good && f < o->finish_count; f++)
        for (int k = 0; good && k < o->block_count; k++)
            if (!climb(b, rows, k, f)) {
                snprintf(why, LADDER_WHY, "no memory for the table");
                good = false;
            }
    free(b->data);
    free(b->work);
    b->data = b->work = NULL;
    return good;
}

static bool wants_gpu(const ladder_options *o)
{
    for (int i = 0; i < ladder_rung_count; i++)
        if (o->rung[i] && ladder_rungs[i].kind != LADDER_CPU)
            return true;
    return false;
}

/* What all rows say about where and when, and the GPU if there is one. False: the device that was asked for is not. */
static bool meet_machine(ladder_bench *b, char why[LADDER_WHY])
{
    ladder_row *m = &b->machine;
    ladder_rows one = {0};
    ladder_card card = {0};
    time_t now = time(NULL);
    struct tm tm;
    if (!ladder_rows_add(&one)) {
        snprintf(why, LADDER_WHY, "no memory");
        return false;
    }
    *m = one.row[0];
    free(one.row);
    strftime(m->date, sizeof m->date, "%Y-%m-%d", gmtime_r(&now, &tm));
    snprintf(m->version, sizeof m->version, "%s", REDUCED_VERSION);
    cpu_name(m->cpu, sizeof m->cpu);
    if (!wants_gpu(b->o))
        return true;
    b->gpu = ladder_gpu_open(b->o->device < 0 ? 0 : b->o->device, &card, b->no_gpu);
    if (b->gpu) {
        snprintf(m->gpu, sizeof m->gpu, "%s", card.name);
        m->peak_gbs = card.peak_gbs > 0 ? card.peak_gbs : NAN;
    } else if (b->o->device >= 0) {
        snprintf(why, LADDER_WHY, "device %d: %.200s", b->o->device, b->no_gpu);
        return false;
    }
    return true;
}

bool ladder_measure(const ladder_options *o, ladder_rows *rows, char why[LADDER_WHY])
{
    ladder_bench b = {.o = o};
    bool good = meet_machine(&b, why);
    for (int t = 0; good && t < o->dtype_count; t++)
        for (int i = 0; good && i < o->n_count; i++)
            good = measure_size(&b, o->dtype[t], o->n[i], rows, why);
    ladder_gpu_close(b.gpu);
    return good;
}

bool ladder_all_right(const ladder_rows *rows)
{
    for (size_t i = 0; i < rows->count; i++)
        if (rows->row[i].verdict == LADDER_WRONG || rows->row[i].verdict == LADDER_BROKEN)
            return false;
    return true;
}
