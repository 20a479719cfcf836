// How a histogram is launched, and how slots are guessed.
#include "kernels/cuda/launch/bins_lines.h"

#include <cmath>
#include <cstdlib>
#include <cstring>

#include "kernels/cuda/launch/routes.h"
#include "kernels/cuda/pass/bins_args.h"
#include "kernels/exact/edges.h"

namespace rk {
namespace {

// Bytes of a block beside its tables: what every device has, where two blocks fit, and most
constexpr u64 kUsualShared = 38 << 10, kHalfShared = 98 << 10, kLargeShared = 208 << 10;
constexpr u64 kLinesAtOnce = 65535;

u64 least(u64 a, u64 b) { return a < b ? a : b; }
u64 most(u64 a, u64 b) { return a < b ? b : a; }
u64 key_bytes(int dtype) { return rk_bytes(dtype) == 8 ? 8 : 4; }

BinsFn kernel_of(int dtype)
{
    const int bytes = rk_bytes(dtype);
    return bytes == 1   ? bins_part<1>(dtype)
           : bytes == 2 ? bins_part<2>(dtype)
           : bytes == 4 ? bins_part<4>(dtype)
                        : bins_part<8>(dtype);
}

struct Bounds {
    u64 *key;
    u64 n;
};

// Keys of the edges, but for those above all elements, to `b`, which has room for all
void find_bounds(const rp_spec &s, const uint64_t *bounds, const KeyRule &rule, Bounds *b)
{
    uint64_t bits;
    for (u32 i = 0; bounds && i < s.n_edges && bounds[i] <= rule.range; i++)
        b->key[b->n++] = bounds[i];
    if (bounds)
        return;
    for (u32 i = 0; i < s.n_edges && rk_from_edge(s.dtype, rp_spec_edge(&s, i), i + 1 == s.n_edges, &bits); i++)
        b->key[b->n++] = rk_rank(s.dtype, 0, bits) - rule.least;
}

// ---- the guess ----

// The element of a key as the number that kernels guess from
struct Number {
    double wide;
    float narrow;
};

template <class To> To same_bits(u64 bits)
{
    To x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

Number number_of_key(int dtype, const KeyRule &rule, u64 key)
{
    const u64 bits = bits_of_key(dtype, key + rule.least);
    if (rk_is_float(dtype))
        return {same_bits<double>(rk_convert_float(dtype, bits, RP_F64)),
                same_bits<float>(rk_convert_float(dtype, bits, RP_F32))};
    const u64 wide = rk_is_signed(dtype) ? rk_sign_extend(bits, rk_bytes(dtype)) : bits;
    const double x = rk_is_signed(dtype) ? (double)(i64)wide : (double)wide;
    return {x, rk_is_signed(dtype) ? (float)(i64)wide : (float)wide};
}

float guessed(const BinGuess &g, int dtype, const KeyRule &rule, u64 key)
{
    const Number x = number_of_key(dtype, rule, key);
    return rk_bytes(dtype) == 8 ? guess_at(g, x.wide) : guess_at(g, x.narrow);
}

// Between the bound and the key before it
double middle(int dtype, const KeyRule &rule, u64 key)
{
    const double at = number_of_key(dtype, rule, key).wide;
    return key ? at / 2 + number_of_key(dtype, rule, key - 1).wide / 2 : at;
}

BinGuess guess_of(const rp_spec &s, const KeyRule &rule, const Bounds &b)
{
    const u64 n = b.n;
    BinGuess g = {0, 0, 0, -1};
    if (n < 2 || rk_bytes(s.dtype) == 1)
        return g;
    const double first = middle(s.dtype, rule, b.key[0]), last = middle(s.dtype, rule, b.key[n - 1]);
    g.scale = (double)(n - 1) / (last - first);
    g.shift = -first * g.scale - 0.5;
    g.most = (float)(n - 1);
    double off = 0; // how far guesses are on the wrong side of a bound
    for (u64 i = 0; i < n; i++) {
        const double at = (double)i - 0.5, from = at - guessed(g, s.dtype, rule, b.key[i]),
                     before = b.key[i] ? guessed(g, s.dtype, rule, b.key[i] - 1) - at : 0;
        if (!(from < 0.25 && before < 0.25))
            return {0, 0, 0, -1};
        off = fmax(off, fmax(from, before));
    }
    g.certain = nextafterf((float)(0.5 - off - 1e-6), 0);
    return g;
}

// ---- launches ----

cudaError_t put(const Bounds &b, bool wide, unsigned char *to, cudaStream_t stream)
{
    for (u64 at = 0; at < b.n; at += kBoundsAtOnce) {
        PutBounds a = {};
        a.to = to + at * (wide ? 8 : 4);
        a.n = (u32)least(kBoundsAtOnce, b.n - at);
        a.wide = wide;
        memcpy(a.key, b.key + at, a.n * sizeof(u64));
        TRY_CUDA(gpu_launch(false, bins_ends().put_bounds, 1, 128, 0, stream, a));
    }
    return cudaSuccess;
}

// Columns of counts, and how many slots a launch counts. Returns the bytes of shared memory.
u64 divide(const Device *d, BinsArgs *a, u64 keys)
{
    const u64 slots = a->slots * sizeof(u32), most_bytes = d->large_shared ? kLargeShared : kUsualShared;
    a->shared_keys = slots + keys <= most_bytes;
    keys = a->shared_keys ? keys : 0;
    const u64 bytes = slots + keys <= kUsualShared                     ? kUsualShared
                      : slots + keys <= kHalfShared && d->large_shared ? kHalfShared
                                                                       : most_bytes;
    const u64 counts = (bytes - keys) / sizeof(u32);
    a->some = (u32)least(a->slots, counts);
    while (a->columns_log2 < 5 && (u64)a->some << (a->columns_log2 + 1) <= counts)
        a->columns_log2++;
    return ((u64)a->some << a->columns_log2) * sizeof(u32) + keys;
}

// So that there are not more ranges than kBinRanges, and than are worth making for n elements
u32 range_shift(const Bounds &b, u64 n)
{
    const u64 ranges = most(2, least(kBinRanges, n / 8));
    u32 shift = 0;
    while (b.n && (b.key[b.n - 1] - b.key[0]) >> shift >= ranges)
        shift++;
    return shift;
}

cudaError_t launch_counts(Device *d, const rp_spec &s, const LineSet &lines, const KeyRule &rule, const Bounds &b, u64 *counts,
                          void *scratch, cudaStream_t stream)
{
    const BinsFn count = kernel_of(s.dtype);
    const u64 size = (u64)rk_bytes(s.dtype), key_room = b.n * key_bytes(s.dtype);
    BinsArgs a = {};
    a.data = (const unsigned char *)lines.data;
    a.mask = (const unsigned char *)lines.mask;
    a.n = lines.n;
    a.key = rule;
    a.guess = guess_of(s, rule, b);
    a.keys = (const unsigned char *)scratch;
    a.bounds = (u32)b.n;
    a.shift = range_shift(b, lines.n);
    a.slots = (u32)bins_slots(s);
    a.counts = counts;
    const size_t shared = divide(d, &a, key_room + 8); // keys are aligned to 8
    const int threads = (int)least(kBinsThreads, div_up(div_up(lines.n * size, 64), kWarp) * kWarp + kWarp);
    int one; // the device remembers the shared memory of a kernel's first launch: so the most that any takes
    TRY_CUDA(device_blocks_per_sm(d, (const void *)count, kBinsThreads, d->large_shared ? kLargeShared : kUsualShared, &one));
    const u64 blocks = most(1, least(1024 / (u64)threads, (216u << 10) / (shared + (9u << 10)))); // as many fit, with tables
    TRY_CUDA(put(b, size == 8, (unsigned char *)scratch, stream));
    TRY_CUDA(gpu_clear(counts, lines.lines * a.slots * sizeof(u64), stream));
    const u64 tiles = div_up(lines.n * size, 64 * (u64)threads);
    for (u64 first = 0, some; first < lines.lines; first += some) {
        some = least(kLinesAtOnce, lines.lines - first);
        const u64 share = blocks * (u64)d->sms / some;
        const dim3 grid((u32)most(1, least(tiles, share)), (u32)some);
        for (a.first_slot = 0; a.first_slot < a.slots; a.first_slot += a.some) {
            BinsArgs part = a;
            part.some = (u32)least(a.some, a.slots - a.first_slot);
            TRY_CUDA(gpu_launch(false, count, grid, threads, shared, stream, part));
        }
        a.data += some * lines.n * size;
        a.mask += a.mask ? some * lines.n : 0;
        a.counts += some * a.slots;
    }
    return cudaSuccess;
}

} // namespace

cudaError_t bins_launch(Device *d, const rp_spec &s, const uint64_t *bounds, const LineSet &lines, u64 *counts, void *scratch,
                        cudaStream_t stream)
{
    const KeyRule rule = key_rule(s.dtype);
    Bounds b = {(u64 *)malloc(s.n_edges * sizeof(u64)), 0};
    if (!b.key)
        return cudaErrorMemoryAllocation;
    find_bounds(s, bounds, rule, &b);
    const cudaError_t err = launch_counts(d, s, lines, rule, b, counts, scratch, stream);
    free(b.key);
    return err;
}

cudaError_t bins_finish(Device *d, const rp_spec &s, u64 first, u64 lines, const u64 *counts, u64 *cells, u32 *fault,
                        cudaStream_t stream)
{
    const FinishBins a = {counts, lines, first, s.n_edges, s.nan == RP_NAN_ERROR, cells, fault};
    const u64 blocks = least(div_up(lines * bins_slots(s), 128), 4096);
    return gpu_launch(d->overlapped_launch, bins_ends().finish, (u32)blocks, 128, 0, stream, a);
}

} // namespace rk
