/* Inside kernels/: which devices an engine opens. Pure. */
#ifndef RK_SELECT_H
#define RK_SELECT_H

#include "kernels/engine/engine.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Of `n` devices those that `text` names (rk_options.devices), as places in `there`, in the order of the text: *count of at
 * most RK_MAX_DEVICES. Errors, in `why` with what there is: TYPE. */
rp_err rk_select(const rk_device_info *there, unsigned n, const char *text, unsigned *chosen, unsigned *count, char *why,
                 size_t why_cap);

/* Times that the CPU's engine is opened. Errors: TYPE. */
rp_err rk_select_cpus(const char *text, unsigned *count, char *why, size_t why_cap);

/* "0 (GPU-...), 1 (GPU-...)", as many as there is room for. */
void rk_device_list(const rk_device_info *there, unsigned n, char *out, size_t cap);

/* "GPU-2c7b8d4e-...." of 16 bytes. */
void rk_uuid_text(const uint8_t uuid[16], const char *prefix, char out[RK_UUID]);

#ifdef __cplusplus
}
#endif

#endif
