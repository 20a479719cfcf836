#include "kernels/exact/best_cell.h"

#include <string.h>

#include "kernels/exact/families/choice.h"

rp_err rk_top_cell(const rp_spec *s, const rk_placed *best, uint64_t n, uint8_t *cell, uint64_t *bad)
{
    const size_t size = rp_dtype_size(s->out);
    const uint64_t nothing = rk_is_float(s->out) ? rk_nan_bits(rk_format_of(s->out)) : 0, none = RP_NO_INDEX;
    uint8_t *indexes = cell + rp_indexes_at(s);
    memset(cell, 0, rp_cell_size(s));
    for (uint64_t i = 0; i < (uint64_t)s->k; i++) {
        uint64_t word = nothing, index = none;
        if (i < n) {
            index = best[i].index + s->index_base;
            if (rk_element_out(s->dtype, best[i].bits, s->out, &word)) {
                *bad = best[i].bits;
                return RP_OVERFLOW;
            }
        }
        memcpy(cell + i * size, &word, size);
        memcpy(indexes + 8 * i, &index, sizeof index);
    }
    return RP_OK;
}
