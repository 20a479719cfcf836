/* Arrays stored in another order of their axes, such as with the first index running fastest (Fortran order), as arrays where
 * the last one does (C order). */
#include <string.h>

#include "client/ctl/ctl.h"

void ctl_c_order(uint8_t *to, const uint8_t *from, size_t element, int dims, const uint64_t *shape)
{
    uint64_t stride[CTL_MAX_DIMS], count = 1;
    for (int d = 0; d < dims; d++) {
        stride[d] = count;
        count *= shape[d];
    }
    ctl_permute(to, from, element, dims, shape, stride);
}

void ctl_permute(uint8_t *to, const uint8_t *from, size_t element, int dims, const uint64_t *shape, const uint64_t *stride)
{
    uint64_t index[CTL_MAX_DIMS] = {0}, count = 1, at = 0;
    for (int d = 0; d < dims; d++)
        count *= shape[d];
    for (uint64_t i = 0; i < count; i++, to += element) {
        memcpy(to, from + at * element, element);
        int d = dims - 1;
        for (; d >= 0 && ++index[d] == shape[d]; d--) {
            index[d] = 0;
            at -= (shape[d] - 1) * stride[d];
        }
        if (d >= 0)
            at += stride[d];
    }
}
