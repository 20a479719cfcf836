#include "client/alone.h"

#include "client/ask.h"
#include "client/error.h"
#include "client/keys_here.h"
#include "client/sized.h"
#include "client/spec.h"
#include "kernels/cpu/threads/here.h"
#include "proto/clock.h"

/* All of it as one message would have it, if there were no bounds. */
static void whole_tile(const rc_ask *a, rc_level *l, rc_tile *t)
{
    *l = a->whole;
    rc_tiling(l, &(rc_sizes){.most = UINT64_MAX / 2, .chunk = UINT64_MAX / 2});
    l->tile_lines = l->lines;
    rc_next_tile(l, t);
}

uint64_t rc_until_of(const rc_ask *a) { return a->spec.deadline_ms ? a->start_ns + a->spec.deadline_ms * RP_NS_PER_MS : 0; }

int rc_give_here(const rc_ask *a, reduce_result *result)
{
    reduce_result r = a->result;
    r.backend = RP_BACKEND_CPU;
    r.path = REDUCE_PATH_LOCAL;
    r.compute_ns = r.wall_ns = rp_now_ns() - a->start_ns;
    if (result)
        rc_give_sized(result, &r, sizeof r);
    return 0;
}

int rc_run_here(const rc_ask *a, reduce_result *result)
{
    rc_level l;
    rc_tile t;
    rp_fault f = {0};
    if (rc_has_many_groups(a)) {
        const int err = rc_run_keys_here(a, NULL, rc_until_of(a));
        return err ? err : rc_give_here(a, result);
    }
    whole_tile(a, &l, &t);
    const bool keyed = l.spec.flags & RP_KEYS;
    const rp_parts beside = {
        .mask = l.mask, .offsets = l.offsets, .weights = keyed ? NULL : l.beside, .keys = keyed ? l.beside : NULL};
    if (l.offsets)
        t.spec.row_len += t.at; /* with what precedes the first segment */
    if (rk_reduce_here(&t.spec, l.elements, &beside, t.bytes, a->threads, rc_until_of(a), a->out, &f)) {
        rc_drop_row(&f);
        return rc_report_of(&f, rc_is_whole(&a->whole));
    }
    return rc_give_here(a, result);
}

int rc_run_alone(const reduce_spec *spec, const void *data, size_t bytes, void *out, size_t room)
{
    const rc_input in = {.data = data, .fd = -1};
    rc_ask a;
    rp_fault f = {0};
    if (rc_check_pointers(&in, bytes, out, room, &f) || rc_ask_for(&a, spec, &in, bytes, room, &f))
        return rc_report(&f);
    a.out = out;
    a.threads = bytes < RK_THREAD_BYTES / 4 ? 1 : rk_cpu_cores(); /* with what is beside them, 2 MiB at most */
    return a.whole.lines ? rc_run_here(&a, NULL) : 0;
}
