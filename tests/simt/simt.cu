// The fibers of simt.cuh. x86-64 alone: switching between them is a few lines of its machine code.
//
//     SIMT_ORDER=forward | backward | a number, with which orders are drawn: in which order threads and blocks run
//     SIMT_SMS=N: multiprocessors that the device has; how work is divided depends on them
//     SIMT_LAUNCHES=FILE: a line for each kernel that ran, with its address
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <vector>

#include "tests/faults/cudart.h"

extern "C" {
bool t_fails(const char *) { return false; } // no call of tests/faults/cudart.c
void simt_switch(void **from, void *to);     // the stack pointer goes to *from, execution to where `to` was left
const char *__asan_default_options(void) { return "detect_stack_use_after_return=0"; } // a fiber's stack is its own
}
asm(R"(
    .text
    .globl simt_switch
simt_switch:
    push %rbp
    push %rbx
    push %r12
    push %r13
    push %r14
    push %r15
    mov %rsp, (%rdi)
    mov %rsi, %rsp
    pop %r15
    pop %r14
    pop %r13
    pop %r12
    pop %rbx
    pop %rbp
    ret
)");

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace simt {
namespace {

constexpr unsigned kWarpLanes = 32, kMostThreads = 1024;
constexpr size_t kStack = 256 << 10, kGuard = 4 << 10; // bytes
const char *const kWhat[kNames] = {"shfl", "shfl.xor", "vote", "max", "and", "add", "syncwarp"};

enum State { kReady, kAtBarrier, kInWarp, kEnded };

struct Fiber {
    void *sp;
    State state;
    What what;     // kInWarp
    unsigned mask; // kInWarp
    unsigned from;
    uint64_t value; // given, then returned
    bool asks;      // kAtBarrier: with a condition
};

std::mutex one_launch; // at a time
Fiber fibers[kMostThreads], *now;
char *stacks;
void *launcher; // its stack pointer
const std::function<void()> *body;
unsigned threads, ended, at_barrier;
bool any_at_barrier, any_of_last;
std::vector<unsigned> ready;
size_t next_ready;
std::vector<char> dynamic; // shared memory
std::map<const void *, size_t> launches;

// ---- the order ----

enum Order { kForward, kBackward, kDrawn } order;
uint64_t drawn;

uint64_t draw(uint64_t n)
{
    drawn = drawn * 6364136223846793005u + 1442695040888963407u;
    return (drawn >> 33) % n;
}

void read_order()
{
    const char *name = getenv("SIMT_ORDER");
    order = !name || strcmp(name, "forward") == 0 ? kForward : strcmp(name, "backward") == 0 ? kBackward : kDrawn;
    drawn = order == kDrawn ? strtoull(name, NULL, 0) : 0;
}

// Number i of n in the order
unsigned in_order(unsigned i, unsigned n) { return order == kBackward ? n - 1 - i : i; }

// ---- the fibers ----

unsigned number(const Fiber *f) { return (unsigned)(f - fibers); }

[[noreturn]] void fail(const char *what)
{
    fprintf(stderr, "simt: %s: block %u,%u of %u,%u, thread %u of %u\n", what, blockIdx.x, blockIdx.y, gridDim.x, gridDim.y,
            number(now), threads);
    for (unsigned i = 0; i < threads; i++) {
        const Fiber &f = fibers[i];
        if (f.state == kInWarp)
            fprintf(stderr, "  thread %u: %s of lanes %08x\n", i, kWhat[f.what], f.mask);
        else if (f.state != kEnded || i % kWarpLanes == 0)
            fprintf(stderr, "  thread %u: %s\n", i, f.state == kEnded ? "ended" : f.state == kReady ? "runs" : "barrier");
    }
    abort();
}

void make_ready(unsigned i)
{
    fibers[i].state = kReady;
    ready.push_back(i);
}

// Gives way to another fiber; returns when this one is to go on.
void give_way()
{
    if (next_ready == ready.size())
        fail("threads wait for others that do not come");
    if (order == kDrawn)
        std::swap(ready[next_ready], ready[next_ready + draw(ready.size() - next_ready)]);
    Fiber *before = now;
    now = &fibers[ready[next_ready++]];
    if (now != before)
        simt_switch(&before->sp, now->sp);
    threadIdx.x = number(now);
}

void pass_barrier()
{
    at_barrier = 0;
    any_of_last = any_at_barrier;
    any_at_barrier = false;
    ready.clear();
    next_ready = 0;
    for (unsigned k = 0; k < threads; k++) {
        const unsigned i = in_order(k, threads);
        if (fibers[i].state == kAtBarrier)
            make_ready(i);
    }
}

void begin_fiber()
{
    threadIdx.x = number(now);
    (*body)();
    now->state = kEnded;
    if (at_barrier)
        fail("a thread ends while others are at a barrier");
    if (++ended < threads)
        give_way();
    simt_switch(&now->sp, launcher);
}

void prepare(unsigned i)
{
    void **top = (void **)(stacks + (i + 1) * kStack - 56);
    *top = NULL;                   // the return address of begin_fiber, whose stack is aligned as behind a call
    top[-1] = (void *)begin_fiber; // where simt_switch returns to
    for (int k = 2; k <= 7; k++)
        top[-k] = NULL; // registers
    fibers[i] = Fiber{};
    fibers[i].sp = top - 7;
    ready.push_back(i);
}

void open_stacks()
{
    stacks = (char *)mmap(NULL, kMostThreads * kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                          0);
    if (stacks == MAP_FAILED)
        abort();
    for (unsigned i = 0; i < kMostThreads; i++)
        mprotect(stacks + i * kStack, kGuard, PROT_NONE);
}

void run_block()
{
    ready.clear();
    next_ready = ended = at_barrier = 0;
    any_at_barrier = false;
    std::fill(dynamic.begin(), dynamic.end(), (char)0xa5);
    for (unsigned k = 0; k < threads; k++)
        prepare(in_order(k, threads));
    if (order == kDrawn)
        std::swap(ready[0], ready[draw(threads)]);
    now = &fibers[ready[next_ready++]];
    simt_switch(&launcher, now->sp);
}

// ---- warps ----

uint64_t reduced(What what, const Fiber *lanes, unsigned mask)
{
    uint64_t all = what == kAnd ? ~0ull : 0;
    for (unsigned i = 0; i < kWarpLanes; i++) {
        const uint64_t v = lanes[i].value;
        if (!(mask >> i & 1))
            continue;
        all = what == kBallot ? all | v << i : what == kMax ? std::max(all, v) : what == kAnd ? all & v : (uint32_t)(all + v);
    }
    return all;
}

void shuffle(Fiber *lanes, unsigned mask)
{
    uint64_t given[kWarpLanes];
    for (unsigned i = 0; i < kWarpLanes; i++)
        given[i] = lanes[i].value;
    for (unsigned i = 0; i < kWarpLanes; i++) {
        if (!(mask >> i & 1))
            continue;
        const unsigned from = lanes[i].what == kShfl ? lanes[i].from % kWarpLanes : i ^ lanes[i].from;
        if (from >= kWarpLanes || !(mask >> from & 1))
            fail("a lane asks for another's value that is not in the mask");
        lanes[i].value = given[from];
    }
}

// Each lane of the mask has come.
void complete(Fiber *lanes, What what, unsigned mask)
{
    if (what <= kShflXor) {
        shuffle(lanes, mask);
    } else if (what != kMeet) {
        const uint64_t all = reduced(what, lanes, mask);
        for (unsigned i = 0; i < kWarpLanes; i++)
            if (mask >> i & 1)
                lanes[i].value = all;
    }
    const unsigned first = number(lanes);
    for (unsigned k = 0; k < kWarpLanes; k++) {
        const unsigned i = in_order(k, kWarpLanes);
        if (mask >> i & 1 && lanes + i != now)
            make_ready(first + i);
    }
    now->state = kReady;
}

// Has each lane of the mask come to this instruction? One may still wait for others, which are not this one.
bool all_come(const Fiber *lanes, What what, unsigned mask)
{
    bool all = true;
    for (unsigned i = 0; i < kWarpLanes; i++) {
        if (!(mask >> i & 1))
            continue;
        const Fiber &f = lanes[i];
        const bool here = f.state == kInWarp && f.what == what && f.mask == mask;
        if (f.state == kInWarp && !here && (f.mask >> (number(now) % kWarpLanes) & 1))
            fail("lanes of a warp wait for different things");
        if (f.state == kEnded || f.state == kAtBarrier)
            fail("a lane of the mask does not come");
        all = all && here;
    }
    return all;
}

} // namespace

void *shared_memory() { return dynamic.data(); }

uint64_t warp(What what, unsigned mask, uint64_t value, unsigned from)
{
    const unsigned lane = number(now) % kWarpLanes;
    Fiber *lanes = now - lane;
    if (!(mask >> lane & 1) || number(lanes) + kWarpLanes > threads)
        fail("a lane is not in its own mask");
    now->state = kInWarp;
    now->what = what;
    now->mask = mask;
    now->from = from;
    now->value = value;
    if (all_come(lanes, what, mask))
        complete(lanes, what, mask);
    else
        give_way();
    return now->value;
}

bool barrier(bool any, bool asks)
{
    now->state = kAtBarrier;
    now->asks = asks;
    any_at_barrier |= any;
    if (ended)
        fail("a barrier after a thread has ended");
    for (unsigned i = 0; i < threads && at_barrier == threads - 1; i++)
        if (fibers[i].asks != asks)
            fail("threads of a block are at different barriers");
    if (++at_barrier == threads)
        pass_barrier();
    give_way();
    return any_of_last;
}

void launch(dim3 grid, dim3 block, size_t shared, const void *kernel, const std::function<void()> &f)
{
    std::lock_guard<std::mutex> lock(one_launch);
    if (!stacks) {
        open_stacks();
        read_order();
    }
    launches[kernel]++;
    body = &f;
    gridDim = grid;
    blockDim = block;
    threads = block.x;
    if (threads > kMostThreads || block.y * block.z * grid.z != 1)
        fail("a launch of this shape is not supported");
    if (shared > (size_t)t_dynamic_shared(kernel))
        fail("a launch has more shared memory than cudaFuncSetAttribute allowed");
    std::vector<char>(shared).swap(dynamic); // of this size: the sanitizer sees what lies beyond
    const unsigned blocks = grid.x * grid.y, begin = order == kDrawn ? (unsigned)draw(blocks) : 0;
    for (unsigned k = 0; k < blocks; k++) {
        const unsigned i = in_order((begin + k) % blocks, blocks);
        blockIdx = {i % grid.x, i / grid.x, 0};
        run_block();
    }
}

namespace {

struct Device {
    Device()
    {
        const char *count = getenv("SIMT_SMS");
        if (count)
            t_cuda_sms = atoi(count);
    }
} device;

struct Report {
    ~Report()
    {
        const char *name = getenv("SIMT_LAUNCHES");
        FILE *f = name ? fopen(name, "w") : NULL;
        for (auto &l : launches)
            if (f)
                fprintf(f, "%p %zu\n", l.first, l.second);
        if (f)
            fclose(f);
    }
} report;

} // namespace
} // namespace simt
