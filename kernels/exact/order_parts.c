#include "kernels/exact/order_parts.h"

#include <string.h>

#include "kernels/exact/best_cell.h"
#include "kernels/exact/layout.h"
#include "kernels/exact/line.h"
#include "kernels/exact/order.h"
#include "kernels/exact/total_order.h"

/* The type that keeps an element as it is. */
static uint8_t exact_out(const rp_spec *s)
{
    return s->op == RP_OP_HISTOGRAM ? s->out : rk_is_float(s->dtype) ? s->dtype : rk_is_signed(s->dtype) != 0 ? RP_I64 : RP_U64;
}

rp_spec rk_part_spec(const rp_spec *s, uint64_t first)
{
    rp_spec part = *s;
    part.out = exact_out(s);
    part.index_base = first;
    part.flags &= ~(uint32_t)RP_STATES_OUT;
    if (s->nan == RP_NAN_ERROR)
        part.nan = RP_NAN_PROPAGATE; /* NaNs are the best, or are counted */
    return part;
}

size_t rk_part_room(const rp_spec *part) { return rp_is_top(part->op) ? (size_t)part->k * sizeof(rk_placed) : 0; }

/* ---- best elements ---- */

static rk_placed element(const rp_spec *part, const uint8_t *cell, uint64_t i)
{
    const size_t size = rp_dtype_size(part->out);
    return (rk_placed){rk_load(cell + i * size, (int)size) & rk_all_ones(part->dtype),
                       rk_load(cell + rp_indexes_at(part) + 8 * i, 8)};
}

/* Does x come before y? Places without an element come last. */
static bool precedes(const rp_spec *part, rk_placed x, rk_placed y)
{
    const int least = part->op == RP_OP_SMALLEST;
    const uint64_t of_x = rk_rank(part->dtype, least, x.bits), of_y = rk_rank(part->dtype, least, y.bits);
    if (x.index == RP_NO_INDEX || y.index == RP_NO_INDEX)
        return y.index == RP_NO_INDEX;
    return of_x > of_y || (of_x == of_y && x.index < y.index);
}

/* Of two sorted lists the k best. */
static void add_best(const rp_spec *part, uint8_t *all, const uint8_t *more, rk_placed *best)
{
    uint64_t bad, n = 0;
    rp_spec plain = *part; /* the indexes are those of the line already */
    plain.index_base = 0;
    for (uint64_t a = 0, b = 0; a + b < (uint64_t)part->k; n++) {
        const rk_placed x = element(part, all, a), y = element(part, more, b);
        const bool first = precedes(part, x, y);
        best[n] = first ? x : y;
        a += first;
        b += !first;
        if (best[n].index == RP_NO_INDEX)
            break;
    }
    rk_top_cell(&plain, best, n, all, &bad);
}

static rp_err best_cell(const rp_spec *s, const uint8_t *all, rk_placed *best, uint8_t *cell, uint64_t *bad)
{
    const rp_spec part = rk_part_spec(s, 0);
    uint64_t n = 0;
    while (n < (uint64_t)s->k && (best[n] = element(&part, all, n)).index != RP_NO_INDEX)
        n++;
    if (s->nan == RP_NAN_ERROR && n && rk_is_nan(s->dtype, best[0].bits))
        return RP_NAN;
    return rk_top_cell(s, best, n, cell, bad);
}

/* ---- counts ---- */

static void add_counts(const rp_spec *part, uint64_t *all, const uint64_t *more)
{
    for (size_t i = 0; i < rp_cell_size(part) / sizeof *all; i++)
        all[i] += more[i];
}

static rp_err counts_cell(const rp_spec *s, const uint64_t *all, uint8_t *cell)
{
    memcpy(cell, all, rp_cell_size(s));
    return s->nan == RP_NAN_ERROR && all[s->n_edges - 1 + RP_NANS_APART] ? RP_NAN : RP_OK;
}

/* ---- either ---- */

void rk_part_none(const rp_spec *part, void *all)
{
    uint64_t bad;
    if (rp_is_top(part->op))
        rk_top_cell(part, NULL, 0, all, &bad);
    else
        memset(all, 0, rp_cell_size(part));
}

void rk_part_add(const rp_spec *part, void *all, const void *more, void *room)
{
    if (rp_is_top(part->op))
        add_best(part, all, more, room);
    else
        add_counts(part, all, more);
}

rp_err rk_part_cell(const rp_spec *s, const void *all, uint64_t line, void *room, uint8_t *cell, rp_fault *f)
{
    uint64_t bad = 0;
    const rp_err err = rp_is_top(s->op) ? best_cell(s, all, room, cell, &bad) : counts_cell(s, all, cell);
    if (err)
        rk_order_fault(f, s, line, err, 0, &bad);
    return err;
}
