#include "client/only_here.h"

#include <inttypes.h>
#include <stdlib.h>

#include "client/alone.h"
#include "client/error.h"
#include "client/file_lines.h"
#include "client/keys_here.h"
#include "client/spec.h"
#include "kernels/cpu/threads/here.h"
#include "proto/clock.h"

/* Does each line fit a message? */
static bool fits_messages(const rc_level *whole, uint64_t most)
{
    const rc_sizes sizes = {.most = most, .chunk = most};
    rc_level l = *whole;
    for (uint64_t i = 0; l.offsets && i < l.lines; i++)
        if (rc_is_long(&l, &sizes, rc_offset(l.offsets, i + 1) - rc_offset(l.offsets, i)))
            return false;
    if (l.offsets || !l.len)
        return true;
    rc_tiling(&l, &sizes);
    return l.blocks == 1;
}

bool rc_is_only_here(reduce_client *c, const rc_ask *a)
{
    const bool keyed = a->whole.spec.flags & RP_KEYS;
    if (!(keyed || rp_is_ranked(a->spec.op)) || a->in.device || a->in.kept)
        return false;
    rc_enter(c);
    const uint64_t most = keyed ? rc_beside_most(c) : rc_ranked_most(c, &a->whole.spec);
    rc_leave(c);
    return keyed ? !rc_keys_fit(&a->whole, most) : !fits_messages(&a->whole, most);
}

/* Requests that only a daemon could serve as they are. 0, or the error. */
static int check(const rc_ask *a)
{
    const char *op = reduce_op_name(a->spec.op),
               *what = a->spec.keys_dtype ? "by so many keys" : "of lines longer than a message";
    if (a->spec.path && a->spec.path != REDUCE_PATH_LOCAL)
        return rc_error(REDUCE_E_TOO_LARGE, "path", "%s %s is computed in this process, not by path %s", op, what,
                        reduce_path_name(a->spec.path));
    if (a->spec.device)
        return rc_error(REDUCE_E_TOO_LARGE, "device", "%s %s is computed in this process: a device takes resident data", op,
                        what);
    return 0;
}

static bool read_piece(const rc_ask *a, uint64_t at, uint64_t n, uint8_t *to, rp_fault *f)
{
    const rc_datapath d = {.fd = a->in.fd, .offset = a->in.offset};
    const rc_tile t = {.at = at, .height = 1, .width = n, .stride = n};
    return rc_datapath_read(&d, &t, a->whole.item, to, f);
}

static int read_file(rc_ask *a, uint8_t **data)
{
    const rc_datapath d = {.fd = a->in.fd, .offset = a->in.offset};
    const rc_tile t = {.height = 1, .width = a->bytes, .stride = a->bytes, .bytes = a->bytes};
    rp_fault f = {0};
    if (!(*data = malloc(a->bytes + 1)))
        return rc_error(REDUCE_E_NO_MEMORY, "file", "no memory for the %zu bytes of the file", a->bytes);
    if (!rc_datapath_read(&d, &t, 1, *data, &f))
        return rc_report(&f);
    a->whole.elements = *data;
    return 0;
}

static int run_lines(const rc_ask *a, uint64_t deadline_ns, reduce_result *result)
{
    rp_fault f = {0};
    if (!rc_run_file_lines(a, deadline_ns, &f))
        return rc_give_here(a, result);
    rc_drop_row(&f);
    return rc_report_of(&f, rc_is_whole(&a->whole));
}

int rc_run_only_here(rc_ask *a, reduce_result *result)
{
    const uint64_t deadline = rc_until_of(a);
    uint8_t *data = NULL;
    int err = check(a);
    a->threads = rk_cpu_cores();
    if (!err && a->in.fd >= 0 && a->spec.keys_dtype) {
        err = rc_run_keys_here(a, read_piece, deadline);
        return err ? err : rc_give_here(a, result);
    }
    if (!err && a->in.fd >= 0 && rc_file_has_lines(a))
        return run_lines(a, deadline, result);
    if (!err && a->in.fd >= 0)
        err = read_file(a, &data);
    if (!err)
        err = rc_run_here(a, result);
    free(data);
    if (!err && deadline && rp_now_ns() >= deadline)
        err = rc_error(REDUCE_E_DEADLINE, "deadline_ms", "not done before the deadline");
    return err;
}
