/* For fuzzers of what reduces in this process: there is no daemon. */
#include "client/error.h"

static int none(void) { return rc_error(REDUCE_E_NO_DAEMON, "client", "fuzzers have no daemon"); }

int reduce_run(reduce_client *c, const reduce_spec *spec, const void *data, size_t bytes, void *out, size_t room,
               reduce_result *result)
{
    (void)c, (void)spec, (void)data, (void)bytes, (void)out, (void)room, (void)result;
    return none();
}

int reduce_file(reduce_client *c, const reduce_spec *spec, int fd, uint64_t offset, uint64_t bytes, void *out, size_t room,
                reduce_result *result)
{
    (void)c, (void)spec, (void)fd, (void)offset, (void)bytes, (void)out, (void)room, (void)result;
    return none();
}

int reduce_device(reduce_client *c, const reduce_spec *spec, const void *handle, uint64_t offset, uint64_t bytes, void *out,
                  size_t room, reduce_result *result)
{
    (void)c, (void)spec, (void)handle, (void)offset, (void)bytes, (void)out, (void)room, (void)result;
    return none();
}
