// Reductions by key: which tables, where they lie, which kernels.
#include "kernels/cuda/launch/keyed.h"

#include <algorithm>

#include "kernels/cuda/pass/keyed_args.h"
#include "kernels/exact/layout.h"
#include "proto/types.h"

namespace rk {
namespace {

constexpr u64 kAlign = 256;             // bytes, of tables
constexpr u32 kSmShared = 227u << 10;   // of shared memory of an SM
constexpr u32 kMostShared = 220u << 10; // ... for the groups of a block, the only one of its SM
constexpr u32 kSomeShared = 74u << 10;  // ... of a block of three
constexpr u32 kSmallShared = 40u << 10; // ... of devices that have little
constexpr u64 kFew = 1 << 15;           // elements of a block: fewer are added directly

bool has_places(const rp_spec &s) { return s.op == RP_OP_ARGMIN || s.op == RP_OP_ARGMAX; }

bool is_best(const rp_spec &s) { return s.op == RP_OP_MIN || s.op == RP_OP_MAX || has_places(s); }

// Of one operand, with or without what stats have beside them
bool has_sums(const rp_spec &s)
{
    const rk_family family = rk_family_of(rp_spec_layout(&s));
    return family == RK_SUMS || family == RK_SUMMARY;
}

bool has_squares(const rp_spec &s) { return rk_square_limbs(rp_spec_layout(&s)) != 0 && has_sums(s); }

bool has_others(const rp_spec &s) { return s.op == RP_OP_STATS; }

KeyedKind squares_of(const rp_spec &s) { return rk_bytes(s.dtype) == 8 ? kKeyedWideSquares : kKeyedSquares; }

// Of the first pass
KeyedKind kind_of(const rp_spec &s)
{
    if (has_squares(s) && !rk_sum_limbs(rp_spec_layout(&s)))
        return squares_of(s);
    if (is_best(s))
        return kKeyedBest;
    if (s.op == RP_OP_COUNT)
        return kKeyedCount;
    if (rk_is_float(s.dtype))
        return s.dtype == RP_F64 ? kKeyedDouble : kKeyedFloat;
    return rk_bytes(s.dtype) == 8 ? kKeyedLong : kKeyedInt;
}

KeyedKernels kernels_of(KeyedKind kind)
{
    switch (kind) {
    case kKeyedFloat:
        return keyed_part<kKeyedFloat>();
    case kKeyedDouble:
        return keyed_part<kKeyedDouble>();
    case kKeyedInt:
        return keyed_part<kKeyedInt>();
    case kKeyedLong:
        return keyed_part<kKeyedLong>();
    case kKeyedBest:
        return keyed_part<kKeyedBest>();
    case kKeyedSquares:
        return keyed_part<kKeyedSquares>();
    case kKeyedWideSquares:
        return keyed_part<kKeyedWideSquares>();
    case kKeyedCount:
        break;
    }
    return keyed_part<kKeyedCount>();
}

// Means, variances, states and counts need the number of elements, the best one whether there is one.
bool has_counts(const rp_spec &s)
{
    const bool total = s.op == RP_OP_SUM || s.op == RP_OP_SUMSQ || s.op == RP_OP_NORM2;
    return !total || s.flags & RP_STATES_OUT;
}

bool takes_second(const rp_spec &s) { return has_squares(s) && !keyed_squares(kind_of(s)); }

// Offsets of the tables in the workspace
struct Tables {
    u64 flags, counts, places, others, window, digits, squares, square_digits, end;
};

u64 aligned(u64 bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

Tables tables_of(const rp_spec &s, u64 groups)
{
    const KeyedKind kind = kind_of(s);
    const auto words = [=](bool are, u64 each) { return are ? aligned(groups * each * sizeof(u64)) : 0; };
    const bool floats = rk_is_float(s.dtype), second = takes_second(s);
    Tables t;
    t.flags = kAlign; // behind the head
    t.counts = t.flags + aligned(groups * sizeof(u32));
    t.places = t.counts + (has_counts(s) ? aligned(groups * sizeof(u32)) : 0);
    t.others = t.places + (has_places(s) ? aligned(groups * sizeof(u32)) : 0);
    t.window = t.others + (has_others(s) ? aligned(groups * sizeof(KeyedOthers)) : 0);
    t.digits = t.window + words(true, (u64)keyed_words(kind));
    t.squares = t.digits + words(floats, (u64)keyed_digits(kind));
    t.square_digits = t.squares + words(second, (u64)keyed_words(squares_of(s)));
    t.end = t.square_digits + words(second && floats, (u64)keyed_digits(squares_of(s)));
    if (!second) // of squares alone
        t.squares = t.window, t.square_digits = t.digits;
    return t;
}

u32 log2_up(u64 n)
{
    u32 log2 = 0;
    while (log2 < 63 && 1ull << log2 < n)
        log2++;
    return log2;
}

// How wide windows are: no sum of n elements leaves them. Squares of what is in a sum's window are in theirs, because
// 2 precision + 2 reach is at most words x square_split.
void set_window(KeyedArgs *a)
{
    const bool wide = a->dtype == RP_F64, floats = rk_is_float(a->dtype);
    const u32 log2 = log2_up(a->n), bits = (u32)rk_format_of(wide ? RP_F64 : RP_F32).precision;
    a->split = wide ? std::min(36u, 63 - log2) : 32;
    a->square_split = floats ? 63 - log2 : 32;
    a->reach = floats ? 63 - bits - log2 + (wide ? a->split : 0) : 0;
    if (keyed_squares(a->kind))
        a->split = a->square_split;
}

KeyedArgs args_of(const rk_keyed_launch &l, KeyedKind kind)
{
    const Tables t = tables_of(l.spec, l.groups);
    KeyedArgs a = {};
    a.data = l.data;
    a.keys = l.keys;
    a.mask = l.mask;
    a.n = l.count;
    a.groups = l.groups;
    a.head = (KeyedHead *)l.workspace;
    a.flags = (u32 *)(l.workspace + t.flags);
    a.counts = has_counts(l.spec) ? (u32 *)(l.workspace + t.counts) : NULL;
    a.places = has_places(l.spec) ? (u32 *)(l.workspace + t.places) : NULL;
    a.others = has_others(l.spec) ? (KeyedOthers *)(l.workspace + t.others) : NULL;
    a.window = (u64 *)(l.workspace + t.window);
    a.digits = (u64 *)(l.workspace + t.digits);
    a.squares = has_squares(l.spec) ? (u64 *)(l.workspace + t.squares) : NULL;
    a.square_digits = (u64 *)(l.workspace + t.square_digits);
    a.initial = l.initial;
    a.index_base = l.spec.index_base;
    a.kind = kind;
    a.dtype = l.spec.dtype;
    a.key_dtype = l.key_dtype;
    a.nan = l.spec.nan;
    a.least = l.spec.op == RP_OP_MIN || l.spec.op == RP_OP_ARGMIN;
    a.drop_outside = l.drop_outside;
    a.drop_negative = l.drop_negative;
    a.counted = l.spec.flags & RP_STATES_OUT;
    a.magnitudes = keyed_squares(kind);
    set_window(&a);
    return a;
}

// Of the pass for squares behind that for sums, which counts
KeyedArgs second_args(const rk_keyed_launch &l, KeyedArgs a)
{
    a.kind = squares_of(l.spec);
    a.window = a.squares;
    a.digits = a.square_digits;
    a.split = a.square_split;
    a.counts = NULL;
    return a;
}

u32 most_shared(const Device *d) { return d->large_shared ? kMostShared : kSmallShared; }

// Bytes of shared memory for as many copies of the groups as let three blocks run, one for each lane at most. 0: there
// are too many groups, or too few elements.
u32 share(const Device *d, KeyedArgs *a)
{
    const u64 bytes = keyed_shared_words(a->kind, a->counts != NULL) * sizeof(u32) * a->groups;
    if (bytes > most_shared(d) || a->n < std::max(kFew, 4 * a->groups))
        return 0;
    a->copies = 1;
    while (a->copies < kWarp && 2 * a->copies * bytes <= std::min(most_shared(d), kSomeShared))
        a->copies *= 2;
    return (u32)(a->copies * bytes);
}

cudaError_t add(Device *d, KeyedArgs a, cudaStream_t stream)
{
    const KeyedKernels k = kernels_of(a.kind);
    const u32 shared = k.shared ? share(d, &a) : 0;
    const KeyedFn fn = shared ? k.shared : k.direct;
    const u64 blocks = (a.n + kKeyedThreads * kKeyedAtOnce - 1) / (kKeyedThreads * kKeyedAtOnce);
    int each = 0;
    TRY_CUDA(device_blocks_per_sm(d, (const void *)fn, kKeyedThreads, shared ? most_shared(d) : 0, &each));
    if (shared && d->large_shared) // `each` is that of the most shared memory
        each = (int)std::min<u32>((u32)keyed_blocks(a.kind), kSmShared / (shared + 1024));
    const u64 most = shared ? std::max<u64>(a.n / std::max(kFew, a.groups), 1) : blocks;
    return gpu_launch(false, fn, (u32)std::min({blocks, most, (u64)d->sms * (u64)each}), kKeyedThreads, shared, stream, a);
}

KeyedFinishFn finish_of(const rp_spec &s)
{
    return has_others(s) ? keyed_finish_stats_kernel() : has_squares(s) ? keyed_finish_squares_kernel() : keyed_finish_kernel();
}

} // namespace

bool keyed_on_device(const rp_spec &s)
{
    const bool known = s.op == RP_OP_SUM || s.op == RP_OP_MEAN || is_best(s) || has_squares(s);
    const bool counts = s.op == RP_OP_COUNT && !(s.flags & RP_STATES_OUT);
    return (known || counts) && !(s.flags & (RP_STATES_IN | RP_COLUMNS)) && s.planes <= 1;
}

size_t keyed_bytes(const rp_spec &spec, u64 groups) { return tables_of(spec, groups).end; }

cudaError_t keyed_state(Device *d, const rk_keyed_launch &l, u64 group, cudaStream_t stream)
{
    const KeyedKind kind = kind_of(l.spec);
    KeyedArgs a = args_of(l, kind);
    a.flags += group;
    a.counts += a.counts ? group : 0;
    a.places += a.places ? group : 0;
    a.others += a.others ? group : 0;
    a.window += group * (u64)keyed_words(kind);
    a.digits += group * (u64)keyed_digits(kind);
    a.squares += a.squares ? group * (u64)keyed_words(squares_of(l.spec)) : 0;
    a.square_digits += group * (u64)keyed_digits(squares_of(l.spec));
    a.groups = 1;
    rp_spec spec = l.spec; // of the tables
    spec.flags |= RP_STATES_OUT;
    return gpu_launch(false, finish_of(spec), 1, kFinishThreads, 0, stream, a, finish_args(spec, l.cells, &a.head->fault));
}

cudaError_t keyed_launch(Device *d, const rk_keyed_launch &l, cudaStream_t stream)
{
    const KeyedArgs a = args_of(l, kind_of(l.spec));
    const FinishArgs f = finish_args(l.spec, l.cells, &a.head->fault);
    const bool floats = rk_is_float(l.spec.dtype) && has_sums(l.spec);
    const u64 blocks = (a.groups + kFinishThreads - 1) / kFinishThreads;
    const u32 for_groups = (u32)std::min<u64>(blocks, 16 * (u64)d->sms), for_all = 2 * (u32)d->sms;
    TRY_CUDA(gpu_clear(l.workspace, tables_of(l.spec, l.groups).end, stream));
    TRY_CUDA(cudaMemsetAsync(a.head, 0xff, offsetof(KeyedHead, minus_zeros), stream)); // no wrong key, no fault
    if (floats && a.n)
        TRY_CUDA(gpu_launch(false, keyed_sample_kernel(), 1, kKeyedThreads, 0, stream, a));
    if (floats && blocks && (l.initial || l.spec.flags & RP_INITIAL))
        TRY_CUDA(gpu_launch(false, keyed_initial_kernel(), for_groups, kFinishThreads, 0, stream, a, f));
    if (a.n)
        TRY_CUDA(add(d, a, stream));
    if (a.n && takes_second(l.spec))
        TRY_CUDA(add(d, second_args(l, a), stream));
    if (floats && a.n)
        TRY_CUDA(gpu_launch(false, keyed_zeros_kernel(), for_all, kKeyedThreads, 0, stream, a));
    if (a.places && a.n)
        TRY_CUDA(gpu_launch(false, keyed_places_kernel(), 8 * (u32)d->sms, kKeyedThreads, 0, stream, a));
    if (a.others && a.n) {
        TRY_CUDA(gpu_launch(false, keyed_ends_kernel(), 8 * (u32)d->sms, kKeyedThreads, 0, stream, a));
        TRY_CUDA(gpu_launch(false, keyed_end_places_kernel(), 8 * (u32)d->sms, kKeyedThreads, 0, stream, a));
    }
    if (blocks)
        TRY_CUDA(gpu_launch(false, finish_of(l.spec), for_groups, kFinishThreads, 0, stream, a, f));
    return cudaSuccess;
}

} // namespace rk
