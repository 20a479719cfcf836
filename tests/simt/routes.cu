// Which kernels the launch code chooses for a shape, without running them. It links the launch code and the kernels as C++, but
// not simt.cu.
//
//     routes          about 200 shapes on an H100, each with its launches: tests/golden/routes.txt
//     routes --all    many more, on four devices: to compare two versions of the launch code line by line
#include <sys/mman.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "kernels/cuda/launch/launch.h"
#include "kernels/exact/layout.h"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;
extern "C" bool t_fails(const char *) { return false; } // no call of tests/faults/cudart.c

namespace {

using namespace rk;

// ---- what is launched ----

struct Launch {
    const void *kernel;
    dim3 grid;
    unsigned threads;
    size_t shared, times;
};
std::vector<Launch> launches;
uint64_t order; // a hash of all launches in their order

bool same(const Launch &a, const Launch &b)
{
    return a.kernel == b.kernel && a.grid.x == b.grid.x && a.grid.y == b.grid.y && a.threads == b.threads &&
           a.shared == b.shared;
}

void note(uint64_t x) { order = (order ^ x) * 0x9e3779b97f4a7c15u ^ order >> 29; }

// The names of kernels by their addresses, from this program's symbols: without what stands around them, and unless they are to
// be `whole`, without the arguments of their templates.
std::map<const void *, std::string> read_names(bool whole)
{
    static char line[1 << 16];
    std::map<const void *, std::string> names;
    FILE *f = popen("nm -C /proc/$PPID/exe", "r");
    while (f && fgets(line, sizeof line, f)) {
        char *name = NULL;
        const size_t at = strtoull(line, &name, 16);
        if (strlen(name) < 4)
            continue;
        std::string s(name + 3, strcspn(name + 3, "\n"));
        for (const char *gone : {"void ", "rk::", "(anonymous namespace)::"})
            for (size_t i; (i = s.find(gone)) != std::string::npos;)
                s.erase(i, strlen(gone));
        names[(const void *)at] = whole ? s.substr(0, s.find("(FinishArgs")).substr(0, s.find("(SegmentArgs"))
                                        : s.substr(0, s.find_first_of("<("));
    }
    if (f)
        pclose(f);
    return names;
}

// ---- what is asked for ----

// Beside the flags of a spec: the data begin at one element beyond a vector; all rows have the same weights.
enum { kMisaligned = 1 << 20, kSameWeights = 1 << 21 };

struct Shape {
    const char *kind; // of lines
    uint64_t rows, row_len, planes;
    uint32_t flags;
    uint64_t long_one; // segments: the length of the first one
};

struct Ask {
    rp_op op;
    rp_dtype dtype, out;
    rp_nan nan;
    uint32_t flags;
};

const Shape kShort[] = {
    {"whole", 1, 0, 0, 0, 0},
    {"whole", 1, 1000, 0, 0, 0},
    {"whole", 1, 1 << 20, 0, 0, 0},
    {"whole", 1, 1 << 28, 0, 0, 0},
    {"whole", 1, 5ull << 30, 0, 0, 0},
    {"masked", 1, 1 << 24, 0, RP_MASK, 0},
    {"rows", 10, 1000, 0, 0, 0},
    {"rows", 1 << 17, 2, 0, 0, 0},
    {"rows", 1 << 17, 7, 0, 0, 0},
    {"rows", 1 << 17, 32, 0, 0, 0},
    {"rows", 1 << 17, 100, 0, 0, 0},
    {"rows", 1 << 19, 1024, 0, 0, 0},
    {"rows", 4096, 1 << 16, 0, 0, 0},
    {"masked rows", 1 << 17, 32, 0, RP_MASK, 0},
    {"masked rows", 4096, 4096, 0, RP_MASK, 0},
    {"segments", 1 << 14, 100 << 14, 0, RP_OFFSETS, 0},
    {"segments", 1 << 14, 100 << 14, 0, RP_OFFSETS, 1 << 20},
    {"masked segments", 1 << 10, 100 << 10, 0, RP_OFFSETS | RP_MASK, 0},
    {"columns", 2, 1 << 19, 0, RP_COLUMNS, 0},
    {"columns", 16, 1 << 19, 0, RP_COLUMNS, 0},
    {"columns", 1 << 17, 3, 0, RP_COLUMNS, 0},
    {"columns", 1 << 12, 1 << 12, 0, RP_COLUMNS, 0},
    {"columns", 100, 1001, 0, RP_COLUMNS, 0},
    {"masked columns", 1 << 12, 1 << 12, 0, RP_COLUMNS | RP_MASK, 0},
    {"columns of planes", 16, 8, 1 << 15, RP_COLUMNS, 0},
    {"rows of planes", 100, 64, 100, 0, 0},
};

const Shape kMore[] = {
    {"whole", 1, 2, 0, 0, 0},
    {"whole", 1, 4096, 0, 0, 0},
    {"whole", 1, (1 << 20) + 3, 0, 0, 0},
    {"whole", 1, 1 << 24, 0, 0, 0},
    {"whole", 1, (1 << 24) + 16, 0, 0, 0},
    {"whole", 1, 5, 0, RP_MASK, 0},
    {"whole", 1, (1 << 20) + 3, 0, RP_MASK, 0},
    {"rows", 3, 0, 0, 0, 0},
    {"rows", 31, 64, 0, 0, 0},
    {"rows", 32, 2, 0, 0, 0},
    {"rows", 1000, 1, 0, 0, 0},
    {"rows", 1000, 64, 0, 0, 0},
    {"rows", 1000, 65, 0, 0, 0},
    {"rows", 1000, 4096, 0, 0, 0},
    {"rows", 1000, 16384, 0, 0, 0},
    {"rows", 100, 1000000, 0, 0, 0},
    {"rows", 64, 1 << 22, 0, 0, 0},
    {"rows", 4, 1 << 25, 0, 0, 0},
    {"rows", 70000, 16, 0, 0, 0},
    {"rows", 70000, 33, 0, 0, 0},
    {"rows", 70000, 64, 0, 0, 0},
    {"rows", 70000, 65, 0, 0, 0},
    {"rows", 20000, 512, 0, 0, 0},
    {"rows", 20000, 5000, 0, 0, 0},
    {"rows", 20000, 40000, 0, 0, 0},
    {"rows", 1 << 19, 8200, 0, 0, 0},
    {"rows", 1 << 19, 64, 0, 0, 0},
    {"masked rows", 1000, 1, 0, RP_MASK, 0},
    {"masked rows", 1000, 2, 0, RP_MASK, 0},
    {"masked rows", 70000, 16, 0, RP_MASK, 0},
    {"masked rows", 1000, 1001, 0, RP_MASK, 0},
    {"masked rows", 10, 1 << 20, 0, RP_MASK, 0},
    {"masked rows", 20000, 512, 0, RP_MASK, 0},
    {"masked rows", 20000, 1024, 0, RP_MASK, 0},
    {"masked rows", 20000, 2048, 0, RP_MASK, 0},
    {"segments", 10, 1000, 0, RP_OFFSETS, 0},
    {"segments", 1, 1000000, 0, RP_OFFSETS, 0},
    {"segments", 3, 0, 0, RP_OFFSETS, 0},
    {"segments", 33, 1000000, 0, RP_OFFSETS, 0},
    {"segments", 1000, 5000, 0, RP_OFFSETS, 0},
    {"segments", 100, 6000000, 0, RP_OFFSETS, 5900000},
    {"segments", 10000, 60000000, 0, RP_OFFSETS, 0},
    {"masked segments", 33, 1000000, 0, RP_OFFSETS | RP_MASK, 0},
    {"masked segments", 100, 1000000, 0, RP_OFFSETS | RP_MASK, 900000},
    {"columns", 1, 1000, 0, RP_COLUMNS, 0},
    {"columns", 2, 1 << 16, 0, RP_COLUMNS, 0},
    {"columns", 10, 10, 0, RP_COLUMNS, 0},
    {"columns", 31, 1 << 17, 0, RP_COLUMNS, 0},
    {"columns", 64, 1 << 17, 0, RP_COLUMNS, 0},
    {"columns", 100, 1 << 17, 0, RP_COLUMNS, 0},
    {"columns", 200, 1 << 16, 0, RP_COLUMNS, 0},
    {"columns", 1000, 1000, 0, RP_COLUMNS, 0},
    {"columns", 1000, 1001, 0, RP_COLUMNS, 0},
    {"columns", 100000, 1, 0, RP_COLUMNS, 0},
    {"columns", 1000000, 4, 0, RP_COLUMNS, 0},
    {"columns", 1 << 20, 64, 0, RP_COLUMNS, 0},
    {"columns", 100000, 256, 0, RP_COLUMNS, 0},
    {"columns", 20000, 2048, 0, RP_COLUMNS, 0},
    {"columns", 50000, 100, 0, RP_COLUMNS, 0},
    {"columns", 8, 1u << 19, 0, RP_COLUMNS, 0},
    {"columns", 4, 3u << 17, 0, RP_COLUMNS, 0},
    {"columns", 20000, 1 << 18, 0, RP_COLUMNS, 0},
    {"masked columns", 100000, 3, 0, RP_COLUMNS | RP_MASK, 0},
    {"masked columns", 16, 1 << 16, 0, RP_COLUMNS | RP_MASK, 0},
    {"columns of planes", 32, 16, 3000, RP_COLUMNS, 0},
    {"columns of planes", 33, 16, 3000, RP_COLUMNS, 0},
    {"columns of planes", 8, 12, 3000, RP_COLUMNS, 0},
    {"columns of planes", 100, 64, 1000, RP_COLUMNS, 0},
    {"columns of planes", 1000, 1000, 10, RP_COLUMNS, 0},
    {"columns of planes", 16, 8, 30, RP_COLUMNS | RP_MASK, 0},
    {"rows of planes", 1, 1000, 20, 0, 0},
    {"rows of planes", 1000, 1, 1000, 0, 0},
    {"rows of planes", 5, 0, 1000, 0, 0},
    {"rows of planes", 1, 100, 50, 0, 0},
    {"rows of planes", 1000, 8, 100, 0, 0},
    {"rows of planes", 100000, 8, 7, 0, 0},
    {"rows of planes", 3, 100000, 4, 0, 0},
    {"rows of planes", 1000, 30, 10, RP_MASK, 0},
    {"rows of planes", 10, 3000, 10, RP_MASK, 0},
};

const Shape kOfStates[] = {
    {"states", 1, 10, 0, RP_STATES_IN, 0},    {"states", 1, 100000, 0, RP_STATES_IN, 0},
    {"states", 10, 0, 0, RP_STATES_IN, 0},    {"states", 1000, 30, 0, RP_STATES_IN, 0},
    {"states", 50000, 2, 0, RP_STATES_IN, 0}, {"states", 3, 40000, 0, RP_STATES_IN, 0},
};

// ---- devices ----

struct Card {
    const char *name;
    int sms, major;
    bool slow_doubles, long_sums;
};
const Card kCards[] = {{"H100", 132, 9, false, false},
                       {"A100", 108, 8, false, false},
                       {"T4", 40, 7, true, false},
                       {"H100 --long", 132, 9, false, true}};

Device device_of(const Card &c)
{
    Device d = {};
    pthread_mutex_init(&d.lock, NULL);
    d.sms = c.sms;
    d.major = c.major;
    d.large_shared = d.overlapped_launch = c.major == 9;
    d.slow_doubles = c.slow_doubles;
    d.long_sums = c.long_sums;
    return d;
}

// ---- printing ----

std::map<const void *, std::string> names;
unsigned char *const kOffsets = (unsigned char *)0x200000000000; // here are the offsets, and scratch; data are nowhere
unsigned char *const kData = (unsigned char *)0x300000000000, *const kScratch = (unsigned char *)0x400000000000,
                     *const kCells = (unsigned char *)0x500000000000;
constexpr size_t kMostOffsets = 1 << 20;
bool whole_names;

// Memory that the launch code touches: it clears scratch.
bool map(void *at, size_t bytes)
{
    return mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != MAP_FAILED;
}

void fill_offsets(const rp_spec &s, uint64_t long_one)
{
    uint64_t *at = (uint64_t *)kOffsets;
    const uint64_t first = long_one ? long_one : s.row_len / s.rows;
    at[0] = 0;
    for (uint64_t i = 1; i <= s.rows; i++)
        at[i] = i == 1 ? first : i == s.rows ? s.row_len : first + (s.row_len - first) * i / s.rows;
}

void print_launches()
{
    for (const Launch &l : launches) {
        printf(" %s", names[l.kernel].c_str());
        printf(l.grid.y > 1 ? " %ux%u" : " %u", l.grid.x, l.grid.y);
        printf("/%u", l.threads);
        if (l.shared)
            printf("+%zu", l.shared);
        if (l.times > 1)
            printf(" *%zu", l.times);
        printf(";");
    }
    if (whole_names)
        printf(" #%" PRIx64, order);
    printf("\n");
}

bool spec_of(const Shape &shape, const Ask &ask, rp_spec *s)
{
    rp_fault f;
    *s = {};
    s->op = (uint8_t)ask.op;
    s->dtype = (uint8_t)ask.dtype;
    s->out = (uint8_t)ask.out;
    s->nan = (uint8_t)ask.nan;
    s->rows = shape.rows;
    s->row_len = shape.row_len;
    s->planes = shape.planes;
    s->flags = shape.flags | (ask.flags & RP_SPEC_FLAGS);
    if (rp_is_paired(s->op)) {
        s->flags |= RP_WEIGHTS;
        s->weights = s->dtype;
        s->weights_extent = ask.flags & kSameWeights ? RP_EXTENT_ROW : RP_EXTENT_ELEMENTS;
    }
    if (rp_is_top(s->op))
        s->k = 100;
    if (s->op == RP_OP_HISTOGRAM) {
        static const double edges[] = {-1, 0, 1, 2.5};
        s->edges = (const uint8_t *)edges;
        s->n_edges = sizeof edges / sizeof *edges;
    }
    return rp_spec_check(s, &f) == RP_OK;
}

void show(const Card &c, Device *d, const Shape &shape, const Ask &ask)
{
    rp_spec s;
    if (!spec_of(shape, ask, &s) || (rp_is_ranked(s.op) && !selects_on_device(s)))
        return;
    if (s.flags & RP_OFFSETS)
        fill_offsets(s, shape.long_one);
    const size_t begin = ask.flags & kMisaligned ? rp_dtype_size(s.dtype) : 0;
    u32 *fault = (u32 *)(kCells - 64);
    const ChainTask task = {s, kData + begin, s.flags & RP_OFFSETS ? kOffsets : NULL, 0, kCells, fault, NULL, NULL, NULL};
    launches.clear();
    order = 0;
    const char *route = "";
    const cudaError_t err = chain_launch(d, task, kScratch, chain_scratch_bytes(), NULL, &route);
    char what[256], extra[64], planes[32];
    snprintf(extra, sizeof extra, "%s%s%s%s%s", s.out == RP_F64 || !ask.out ? "" : rp_dtype_name((rp_dtype)s.out),
             ask.flags & kSameWeights ? "same_weights" : "", ask.flags & RP_STATES_OUT ? " to states" : "",
             ask.flags & RP_INITIAL ? " initial" : "", ask.nan ? ask.nan == RP_NAN_OMIT ? " omit" : " error" : "");
    snprintf(planes, sizeof planes, s.planes > 1 ? "x%" PRIu64 : "", s.planes);
    snprintf(what, sizeof what, "%s%s%s %s%s%s %s %" PRIu64 "x%" PRIu64 "%s%s%s", c.name == kCards[0].name ? "" : c.name,
             c.name == kCards[0].name ? "" : ": ", rp_op_name((rp_op)s.op), rp_dtype_name((rp_dtype)s.dtype), *extra ? " " : "",
             extra, shape.kind, s.rows, s.row_len, planes, shape.long_one ? ", one long" : "", begin ? ", misaligned" : "");
    printf("%s: %s:%s", what, route, err == cudaSuccess ? "" : " ERROR");
    print_launches();
}

void show_all(const Card &c, const Ask &ask)
{
    Device d = device_of(c);
    for (const Shape &s : kShort)
        show(c, &d, s, ask);
    for (const Shape &s : kMore)
        show(c, &d, s, ask);
    for (const Shape &s : kOfStates)
        if (!(ask.flags & kMisaligned))
            show(c, &d, s, ask);
}

void all_of(const Card &c, rp_op op, rp_dtype dtype)
{
    const Ask plain = {op, dtype, (rp_dtype)0, RP_NAN_PROPAGATE, 0};
    Ask a = plain;
    show_all(c, a);
    for (uint32_t flags : {(uint32_t)RP_STATES_OUT, (uint32_t)RP_INITIAL, (uint32_t)kMisaligned})
        a.flags = flags, show_all(c, a);
    a = plain;
    for (rp_nan nan : {RP_NAN_OMIT, RP_NAN_ERROR})
        if (dtype == RP_F32 || dtype == RP_F64)
            a.nan = nan, show_all(c, a);
    a = plain;
    a.out = RP_F32;
    if (dtype == RP_F32 || dtype == RP_BF16 || dtype == RP_F64)
        show_all(c, a);
}

void print_all()
{
    for (const Card &c : kCards)
        for (int op = RP_OP_SUM; op <= RP_OP_MEDIAN; op++)
            for (int dtype = RP_I8; dtype <= RP_BOOL; dtype++)
                all_of(c, (rp_op)op, (rp_dtype)dtype);
}

void print_short()
{
    const Ask asks[] = {
        {RP_OP_SUM, RP_F32, RP_F64, RP_NAN_PROPAGATE, 0},     {RP_OP_SUM, RP_F64, RP_F64, RP_NAN_PROPAGATE, 0},
        {RP_OP_SUM, RP_I32, RP_I64, RP_NAN_PROPAGATE, 0},     {RP_OP_VAR, RP_F32, RP_F64, RP_NAN_PROPAGATE, 0},
        {RP_OP_MAX, RP_F32, RP_F64, RP_NAN_PROPAGATE, 0},     {RP_OP_PROD, RP_F32, RP_F64, RP_NAN_PROPAGATE, 0},
        {RP_OP_ARGMIN, RP_F64, RP_U64, RP_NAN_OMIT, 0},       {RP_OP_STATS, RP_F32, RP_F64, RP_NAN_PROPAGATE, 0},
        {RP_OP_SUM, RP_F32, RP_F32, RP_NAN_PROPAGATE, 0},     {RP_OP_MEDIAN, RP_F32, RP_F64, RP_NAN_PROPAGATE, 0},
        {RP_OP_LARGEST, RP_F32, RP_F64, RP_NAN_PROPAGATE, 0}, {RP_OP_HISTOGRAM, RP_I32, RP_U64, RP_NAN_PROPAGATE, 0},
        {RP_OP_DOT, RP_F32, RP_F64, RP_NAN_PROPAGATE, 0},     {RP_OP_WMEAN, RP_F64, RP_F64, RP_NAN_PROPAGATE, 0},
        {RP_OP_VAR, RP_F32, RP_F32, RP_NAN_PROPAGATE, 0},     {RP_OP_MEAN, RP_F32, RP_F32, RP_NAN_PROPAGATE, 0},
        {RP_OP_NORM2, RP_BF16, RP_F32, RP_NAN_PROPAGATE, 0},  {RP_OP_NORM2, RP_F64, RP_F64, RP_NAN_PROPAGATE, 0},
        {RP_OP_COV, RP_F64, RP_F64, RP_NAN_PROPAGATE, 0},     {RP_OP_CORR, RP_I32, RP_F64, RP_NAN_PROPAGATE, 0},
    };
    Device d = device_of(kCards[0]);
    for (const Ask &a : asks)
        for (const Shape &s : kShort)
            show(kCards[0], &d, s, a);
    for (const Shape &s : kOfStates)
        show(kCards[0], &d, s, asks[0]);
    for (const Shape &s : {Shape{"rows", 524288, 1024, 0, 0, 0}, Shape{"rows", 4096, 1024, 0, 0, 0}})
        show(kCards[0], &d, s, {RP_OP_WMEAN, RP_F32, RP_F64, RP_NAN_PROPAGATE, kSameWeights});
}

} // namespace

// ---- what simt.cu would do ----

namespace simt {

void *shared_memory() { abort(); }
uint64_t warp(What, unsigned, uint64_t, unsigned) { abort(); }
bool barrier(bool, bool) { abort(); }

void launch(dim3 grid, dim3 block, size_t shared, const void *kernel, const std::function<void()> &)
{
    const Launch now = {kernel, grid, block.x, shared, 1};
    note(std::hash<std::string>()(names[kernel]) ^ grid.x ^ (uint64_t)grid.y << 32 ^ (uint64_t)block.x << 48 ^ shared << 20);
    for (Launch &l : launches)
        if (same(l, now)) {
            l.times++;
            return;
        }
    launches.push_back(now);
}

} // namespace simt

int main(int argc, char **argv)
{
    whole_names = argc > 1 && strcmp(argv[1], "--all") == 0;
    names = read_names(whole_names);
    if (!map(kOffsets, kMostOffsets) || !map(kScratch, chain_scratch_bytes())) {
        perror("routes: mmap");
        return 1;
    }
    whole_names ? print_all() : print_short();
    return 0;
}
