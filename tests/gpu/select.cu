// Selection on a GPU, or as C++ (tests/simt), beside sorting on the host.
//
//     select             many arrays of all types and kinds, checked
//     select --bench     times beside our own sum of the same bytes, of 1 GiB unless --mib says otherwise
#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/cuda/launch/launch.h"
#include "kernels/cuda/launch/select_lines.h"

using namespace rk;

namespace {

#define MUST(call)                                                                          \
    do {                                                                                    \
        cudaError_t err_ = (call);                                                          \
        if (err_ != cudaSuccess) {                                                          \
            fprintf(stderr, "%s:%d: %s: error %d\n", __FILE__, __LINE__, #call, (int)err_); \
            exit(2);                                                                        \
        }                                                                                   \
    } while (0)

u64 state = 1;
u64 draw()
{
    state += 0x9e3779b97f4a7c15ull;
    u64 z = state;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

enum Kind { kUniform, kBits, kEqual, kTwo, kSorted, kOrganPipe, kHalfNan, kFewValues, kAllNan, kHot, kSubnormal, kKinds };
const char *const kKindNames[] = {"uniform",  "bits",       "equal",   "two", "sorted",   "organ pipe",
                                  "half NaN", "few values", "all NaN", "hot", "subnormal"};

float normal() { return (float)((double)(draw() >> 11) / 9007199254740992.0 * 2 - 1); }

// The bits of x as an element
u64 element(int dtype, double x)
{
    const float f = (float)x;
    u32 b;
    memcpy(&b, &f, 4);
    u64 d;
    memcpy(&d, &x, 8);
    switch (dtype) {
    case RP_F64:
        return d;
    case RP_F32:
        return b;
    case RP_BF16:
        return b >> 16;
    case RP_F16: { // of magnitudes below 1, cut
        const int e = (int)(b >> 23 & 255) - 127 + 15;
        return (b >> 16 & 0x8000) | (e <= 0 ? 0 : (u32)e << 10 | (b >> 13 & 1023));
    }
    }
    const int bits = 8 * rk_bytes(dtype);
    const double scale = bits == 64 ? 9e18 : (double)(1ull << (bits - 1)) - 1;
    return (u64)(i64)(x * scale) & (bits == 64 ? ~0ull : (1ull << bits) - 1);
}

u64 make(int dtype, Kind kind, u64 i, u64 n)
{
    if (dtype == RP_BOOL)
        return kind == kEqual ? 1 : draw() % 3 == 0;
    const u64 all = rk_bytes(dtype) == 8 ? ~0ull : (1ull << 8 * rk_bytes(dtype)) - 1;
    const bool is_float = rk_is_float(dtype);
    const u64 nan = is_float ? rk_nan_bits(rk_format_of(dtype)) : all;
    switch (kind) {
    case kUniform:
        return element(dtype, normal());
    case kBits:
        return draw() & all;
    case kEqual:
        return element(dtype, 0.5);
    case kTwo:
        return element(dtype, draw() & 1 ? 0.5 : -0.25);
    case kSorted:
        return element(dtype, (double)i / (double)n);
    case kOrganPipe:
        return element(dtype, (double)(i < n / 2 ? i : n - i) / (double)n);
    case kHalfNan:
        return draw() & 1 ? (draw() & 1 ? nan : nan | (all / 2 + 1)) : element(dtype, normal());
    case kFewValues:
        return element(dtype, (double)(draw() % 7) / 8 - 0.375);
    case kAllNan:
        return nan;
    case kHot: // nearly all in one, the others close to it
        return draw() % 100 ? element(dtype, 0.5) : element(dtype, 0.5 + normal() * 1e-3);
    case kSubnormal: // and zeros, of both signs; of integers the smaller ones
        return draw() & (is_float ? all ^ rk_inf_bits(rk_format_of(dtype)) : all / 256);
    default:
        return 0;
    }
}

struct Array {
    std::vector<unsigned char> bytes, mask;
    unsigned char *on_device = NULL, *mask_on_device = NULL;
};

Array make_array(int dtype, Kind kind, u64 lines, u64 n, u64 shift, bool masked)
{
    const u64 size = (u64)rk_bytes(dtype);
    Array a;
    a.bytes.resize(lines * n * size);
    for (u64 l = 0; l < lines; l++)
        for (u64 i = 0; i < n; i++) {
            const u64 bits = make(dtype, kind, i, n);
            memcpy(&a.bytes[(l * n + i) * size], &bits, size);
        }
    MUST(cudaMalloc((void **)&a.on_device, a.bytes.size() + 64));
    MUST(cudaMemcpyAsync(a.on_device + shift * size, a.bytes.data(), a.bytes.size(), cudaMemcpyHostToDevice, 0));
    if (masked) {
        a.mask.resize(lines * n);
        for (auto &m : a.mask)
            m = draw() % 3 ? (unsigned char)(1 + draw() % 255) : 0;
        MUST(cudaMalloc((void **)&a.mask_on_device, a.mask.size()));
        MUST(cudaMemcpyAsync(a.mask_on_device, a.mask.data(), a.mask.size(), cudaMemcpyHostToDevice, 0));
    }
    return a;
}

void drop(Array &a)
{
    cudaFree(a.on_device);
    cudaFree(a.mask_on_device);
}

// The line's elements that count, as ranks in their order; NaNs apart
std::vector<u64> sorted(int dtype, const Array &a, u64 from, u64 n, u64 *nans)
{
    const u64 size = (u64)rk_bytes(dtype);
    std::vector<u64> v;
    *nans = 0;
    for (u64 i = from; i < from + n; i++) {
        u64 bits = 0;
        memcpy(&bits, &a.bytes[i * size], size);
        if (!a.mask.empty() && !a.mask[i])
            continue;
        if (rk_is_nan(dtype, bits))
            ++*nans;
        else
            v.push_back(rk_rank(dtype, 0, bits));
    }
    std::sort(v.begin(), v.end());
    return v;
}

u64 passed, failed;

using Rules = std::vector<rk_order_rule>;

bool check_line(const std::vector<u64> &v, u64 nans, const u64 *found, const Rules &rules, const char *what)
{
    bool ok = found[0] == v.size() && found[1] == nans;
    if (!ok)
        printf("%s: %llu elements, %llu NaNs, not %llu, %llu\n", what, found[0], found[1], (u64)v.size(), nans);
    for (size_t p = 0; p < rules.size() && !v.empty() && ok; p++) {
        const RankPair r = ranks_of(rules[p], v.size());
        const u64 *keys = found + kFoundHead + 2 * p;
        ok = keys[0] == v[r.first] && keys[1] == v[r.second];
        if (!ok)
            printf("%s: pair %zu of %llu, %llu: %llx %llx, not %llx %llx\n", what, p, r.first, r.second, keys[0], keys[1],
                   v[r.first], v[r.second]);
    }
    ok ? passed++ : failed++;
    return ok;
}

struct Case {
    int dtype;
    Kind kind;
    u64 lines, n, shift;
    bool masked, tight; // tight: with the least scratch
};

SelectTask task_of(const Case &c, const Array &a, const Rules &rules)
{
    return {c.dtype,
            a.on_device + c.shift * (u64)rk_bytes(c.dtype),
            a.mask_on_device,
            c.lines,
            c.n,
            rules.data(),
            (u32)rules.size(),
            NULL};
}

// Select with `bytes` of scratch, and compare. The scratch is left in `scratch`.
void check_array(Device *d, const Case &c, const Array &a, const Rules &rules, u64 bytes, void *scratch)
{
    SelectTask t = task_of(c, a, rules);
    const u64 words = found_words(t.pairs);
    MUST(cudaMalloc((void **)&t.found, c.lines * words * sizeof(u64)));
    MUST(cudaMemsetAsync(scratch, 0xa5, bytes, 0));
    MUST(cudaMemsetAsync(t.found, 0xa5, c.lines * words * sizeof(u64), 0));
    MUST(select_launch(d, t, scratch, bytes, 0));
    MUST(cudaStreamSynchronize(0));
    std::vector<u64> got(c.lines * words);
    MUST(cudaMemcpyAsync(got.data(), t.found, got.size() * sizeof(u64), cudaMemcpyDeviceToHost, 0));
    MUST(cudaStreamSynchronize(0));
    cudaFree(t.found);
    char what[160];
    for (u64 l = 0; l < c.lines; l++) {
        snprintf(what, sizeof what, "%s %s %llu x %llu%s%s shift %llu pairs %zu scratch %llu line %llu", rp_dtype_name(c.dtype),
                 kKindNames[c.kind], c.lines, c.n, c.masked ? " masked" : "", c.tight ? " tight" : "", c.shift, rules.size(),
                 bytes, l);
        u64 nans;
        const std::vector<u64> v = sorted(c.dtype, a, l * c.n, c.n, &nans);
        check_line(v, nans, &got[l * words], rules, what);
    }
}

void check(Device *d, const Case &c, const Rules &rules)
{
    Array a = make_array(c.dtype, c.kind, c.lines, c.n, c.shift, c.masked);
    const SelectTask t = task_of(c, a, rules);
    const u64 bytes = c.tight ? select_least_scratch(t) : select_good_scratch(t) * (c.lines > 1 ? 2 : 1);
    void *scratch = NULL;
    MUST(cudaMalloc(&scratch, bytes + 256));
    check_array(d, c, a, rules, bytes, scratch);
    cudaFree(scratch);
    drop(a);
}

// Room for just the keys that are kept, for one more and for one less
void check_room(Device *d, const Case &c, const Rules &rules)
{
    Array a = make_array(c.dtype, c.kind, c.lines, c.n, c.shift, c.masked);
    const SelectTask t = task_of(c, a, rules);
    const u64 least = select_least_scratch(t), good = select_good_scratch(t), key = rk_bytes(c.dtype) == 8 ? 8 : 4;
    void *scratch = NULL;
    MUST(cudaMalloc(&scratch, good));
    check_array(d, c, a, rules, good, scratch);
    SelectState s;
    MUST(cudaMemcpyAsync(&s, scratch, sizeof s, cudaMemcpyDeviceToHost, 0));
    MUST(cudaStreamSynchronize(0));
    if (s.whole || s.kept < kSelectLeastRoom + 8) { // not what is to be checked
        printf("%llu keys were kept\n", s.kept);
        failed++;
    }
    for (u64 room = s.kept - 1; room <= s.kept + 1; room++)
        check_array(d, c, a, rules, least + (room - kSelectLeastRoom) * key, scratch);
    cudaFree(scratch);
    drop(a);
}

// So many elements that brackets are narrowed before: then what they hold has room
void check_narrowed(Device *d, const Case &c, const Rules &rules, u64 room)
{
    Array a = make_array(c.dtype, c.kind, c.lines, c.n, c.shift, c.masked);
    const u64 bytes = select_least_scratch(task_of(c, a, rules)) + room * rk_bytes(c.dtype);
    void *scratch = NULL;
    MUST(cudaMalloc(&scratch, bytes));
    check_array(d, c, a, rules, bytes, scratch);
    SelectState s;
    MUST(cudaMemcpyAsync(&s, scratch, sizeof s, cudaMemcpyDeviceToHost, 0));
    MUST(cudaStreamSynchronize(0));
    if (s.whole) {
        printf("%s: brackets were not narrow enough, of %llu keys\n", kKindNames[c.kind], s.kept);
        failed++;
    }
    cudaFree(scratch);
    drop(a);
}

constexpr rk_order_rule quantile(i64 digits, int tens) { return {digits, tens, 1, -1, 0, RK_BETWEEN}; }
constexpr rk_order_rule kth(i64 k) { return {k, 0, 1, 0, 0, RK_RANK}; }
const Rules kMedian = {quantile(5, 1)}, kFirst = {kth(0)}, kLast = {kth(-1)};
const Rules kFive = {quantile(1, 2), quantile(25, 2), quantile(5, 1), quantile(75, 2), quantile(99, 2)};
const Rules kSeven = {quantile(999, 3), quantile(1, 3), quantile(49, 2), quantile(5, 1),
                      quantile(51, 2),  kth(0),         quantile(1, 0)};
const Rules kNine = {kth(0),         kth(1),         kth(-2),        quantile(1, 1), quantile(2, 1),
                     quantile(3, 1), quantile(4, 1), quantile(5, 1), quantile(6, 1)};

void check_all(Device *d, u64 largest, u32 every)
{
    const Rules *asked[] = {&kMedian, &kFirst, &kLast, &kFive, &kSeven, &kNine};
    const u64 lengths[] = {1,    2,    3,     31,    100,   128,   129,   500,    1000,    1024,
                           1025, 5000, 16384, 16385, 32768, 32769, 50001, 131072, 1000003, 1 << 24};
    u32 number = 0;
    for (int dtype = 1; dtype <= RP_DTYPE_COUNT; dtype++)
        for (int kind = 0; kind < kKinds; kind++)
            for (u64 n : lengths) {
                if (n > largest)
                    continue;
                for (auto *rules : asked)
                    for (int variant = 0; variant < 4; variant++) {
                        if (++number % every)
                            continue;
                        const u64 lines = n <= 5000 ? 1 + draw() % 9 : n < 100000 && variant == 1 ? 3 : 1;
                        check(d, {dtype, (Kind)kind, lines, n, variant == 1 ? draw() % 5 : 0, variant == 2, variant == 3},
                              *rules);
                    }
            }
}

#ifndef SIMT_ARCH
const int kRoomTypes[] = {RP_F32, RP_I64, RP_BF16};

// ---- times ----

struct Timer {
    cudaEvent_t a, b;
    Timer()
    {
        MUST(cudaEventCreate(&a));
        MUST(cudaEventCreate(&b));
    }
    template <class F> double us(F f)
    {
        std::vector<float> t;
        for (int i = 0; i < 24; i++) {
            MUST(cudaEventRecord(a, 0));
            MUST(f());
            MUST(cudaEventRecord(b, 0));
            MUST(cudaEventSynchronize(b));
            float ms;
            MUST(cudaEventElapsedTime(&ms, a, b));
            if (i >= 4)
                t.push_back(ms * 1000);
        }
        std::sort(t.begin(), t.end());
        return t[t.size() / 2];
    }
};

double sum_us(Device *d, Timer &timer, int dtype, const void *data, u64 lines, u64 n)
{
    ChainTask t = {};
    rp_spec s = {};
    s.op = RP_OP_SUM;
    s.dtype = (uint8_t)dtype;
    s.out = rk_is_float(dtype) ? RP_F64 : RP_I64;
    s.nan = RP_NAN_PROPAGATE;
    s.rows = lines;
    s.row_len = n;
    void *scratch, *cells;
    u32 *fault;
    MUST(cudaMalloc(&scratch, chain_scratch_bytes()));
    MUST(cudaMalloc(&cells, lines * 16));
    MUST(cudaMalloc((void **)&fault, 8));
    MUST(cudaMemsetAsync(fault, 0xff, 8, 0));
    MUST(chain_scratch_clear(scratch, 0));
    t.spec = s;
    t.data = data;
    t.cells = cells;
    t.fault = fault;
    const char *route;
    const double us = timer.us([&] { return chain_launch(d, t, scratch, chain_scratch_bytes(), 0, &route); });
    cudaFree(scratch);
    cudaFree(cells);
    cudaFree(fault);
    return us;
}

void bench_one(Device *d, Timer &timer, int dtype, Kind kind, u64 lines, u64 n, const Rules &rules, const char *what)
{
    // A part is made and repeated in another order: random data of a GiB take the host too long.
    const u64 size = (u64)rk_bytes(dtype), bytes = lines * n * size, part = std::min<u64>(bytes, 64 << 20);
    Array a = make_array(dtype, kind, 1, part / size, 0, false);
    unsigned char *data;
    MUST(cudaMalloc((void **)&data, bytes));
    for (u64 at = 0; at < bytes; at += part)
        MUST(cudaMemcpyAsync(data + at, a.on_device, std::min(part, bytes - at), cudaMemcpyDeviceToDevice, 0));
    u64 *found;
    MUST(cudaMalloc((void **)&found, lines * found_words((u32)rules.size()) * sizeof *found));
    SelectTask t = {dtype, data, NULL, lines, n, rules.data(), (u32)rules.size(), found};
    const u64 scratch_bytes = std::min<u64>(select_good_scratch(t) * lines, 2ull << 30) + 256;
    void *scratch;
    MUST(cudaMalloc(&scratch, scratch_bytes));
    const double sum = sum_us(d, timer, dtype, data, lines, n);
    const double us = timer.us([&] { return select_launch(d, t, scratch, scratch_bytes, 0); });
    printf("%-5s %-10s %8llu x %-10llu %-10s %10.1f us  sum %8.1f  ratio %.2f\n", rp_dtype_name(dtype), kKindNames[kind], lines,
           n, what, us, sum, us / sum);
    fflush(stdout);
    cudaFree(scratch);
    cudaFree(found);
    cudaFree(data);
    drop(a);
}

void bench(Device *d, u64 mib)
{
    Timer timer;
    const u64 bytes = mib << 20;
    for (int dtype : {(int)RP_F32, (int)RP_F64, (int)RP_I32, (int)RP_F16, (int)RP_U8}) {
        bench_one(d, timer, dtype, kUniform, 1, bytes / (u64)rk_bytes(dtype), kMedian, "median");
        bench_one(d, timer, dtype, kUniform, 1, bytes / (u64)rk_bytes(dtype), kFive, "five");
    }
    for (Kind kind : {kEqual, kTwo, kSorted, kHalfNan, kBits, kFewValues, kHot})
        for (int dtype : {(int)RP_F32, (int)RP_F64})
            bench_one(d, timer, dtype, kind, 1, bytes / (u64)rk_bytes(dtype), kMedian, "median");
    for (u64 n : {1u << 16, 1u << 20, 1u << 24})
        bench_one(d, timer, RP_F32, kUniform, 1, n, kMedian, "median");
    for (int dtype : {(int)RP_F32, (int)RP_F64, (int)RP_F16})
        for (u64 n : {100u, 128u, 1000u, 1024u, 4096u, 16384u, 1u << 16, 1u << 20})
            bench_one(d, timer, dtype, kUniform, bytes / (u64)rk_bytes(dtype) / n, n, kMedian, "median");
}

#else
const int kRoomTypes[] = {RP_F32};
void bench(Device *, u64) {}
#endif

} // namespace

int main(int argc, char **argv)
{
    Device d;
    u64 mib = 1024, largest = 1 << 18;
    u32 every = 1;
    bool times = false;
    for (int i = 1; i < argc; i++) {
        const std::string name = argv[i];
        if (name == "--bench")
            times = true;
        else if (name == "--mib" && i + 1 < argc)
            mib = strtoull(argv[++i], NULL, 0);
        else if (name == "--largest" && i + 1 < argc)
            largest = strtoull(argv[++i], NULL, 0);
        else if (name == "--every" && i + 1 < argc)
            every = (u32)strtoul(argv[++i], NULL, 0);
        else
            return fprintf(stderr, "usage: select [--bench] [--mib N] [--largest N] [--every N]\n"), 2;
    }
    MUST(device_open(&d, 0));
    printf("%s\n", d.name);
    if (times) {
        bench(&d, mib);
        return 0;
    }
    check_all(&d, largest, every);
    for (int dtype : kRoomTypes)
        if (largest >= 70001)
            check_room(&d, {dtype, kBits, 1, 70001, 0, false, false}, kFive);
    for (Kind kind : {kUniform, kSorted})
        if (largest >= 1 << 24) {
            check_narrowed(&d, {RP_F32, kind, 1, 1 << 24, 0, false, false}, kFive, 1100000);
            check_narrowed(&d, {RP_F64, kind, 1, 1 << 24, 0, false, false}, kFive, 800000);
        }
    printf("select: %llu passed, %llu failed\n", passed, failed);
    return failed != 0;
}
