/* Keys of elements, and a sample of a line's. */
#ifndef RK_CPU_SAMPLE_H
#define RK_CPU_SAMPLE_H

#include "kernels/cpu/order/reader.h"

/* The keys of a type; that of an element of `size` bytes; the element of a key. */
rk_keys rk_keys_of(int dtype);
uint64_t rk_key_of(const rk_keys *keys, size_t size, uint64_t bits);
uint64_t rk_key_bits(int dtype, uint64_t key);

/* Sort at most RK_SORTED keys. */
enum { RK_SORTED = 64 };
void rk_sort_few(uint64_t *a, size_t n);
/* Any number: by bytes, those first in which keys differ least; `other` has room for n, too. Returns where the sorted ones
 * are. */
uint64_t *rk_sort_many(uint64_t *a, uint64_t *other, size_t n);

/* Elements of the sample of a line of n. */
size_t rk_sample_size(uint64_t n);
/* Keys of `size` elements spread over the line, without NaNs and those that the mask leaves out. Returns how many. */
size_t rk_take_sample(const rk_reader *r, const rk_keys *keys, uint64_t *out, size_t size);

#endif
