/* Inside kernels/: the clock. */
#ifndef RK_CLOCK_H
#define RK_CLOCK_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
uint64_t rk_now_ns(void); /* CLOCK_MONOTONIC */
#ifdef __cplusplus
}
#endif

#endif
