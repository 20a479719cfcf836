#include "client/sized.h"

#include <string.h>

static const rp_err argument = (rp_err)-REDUCE_E_ARGUMENT;

/* Every such struct begins with it. */
static uint32_t size_of(const void *sized)
{
    uint32_t size;
    memcpy(&size, sized, sizeof size);
    return size;
}

static int check(const void *given, size_t align, size_t first, const char *field, rp_fault *f)
{
    if (!given)
        return -(int)rp_fail(f, argument, field, 0, "the struct is NULL");
    uint32_t size = size_of(given);
    if (size < first || size > RC_MAX_SIZED || size % align)
        return -(int)rp_fail(f, argument, field, 0, "`size` is %u, of no version of the struct: use its _INIT macro", size);
    return 0;
}

int rc_check_sized(const void *out, size_t first, const char *field, rp_fault *f) { return check(out, 1, first, field, f); }

int rc_take_sized(void *to, size_t size, size_t align, const void *given, size_t first, const char *field, rp_fault *f)
{
    int err = check(given, align, first, field, f);
    if (err)
        return err;
    const uint8_t *bytes = given;
    size_t theirs = size_of(given);
    for (size_t i = size; i < theirs; i++)
        if (bytes[i])
            return -(int)rp_fail(f, argument, field, 0, "byte %zu is set: a field that libreduce %s does not know", i,
                                 REDUCED_VERSION);
    memcpy(to, given, theirs < size ? theirs : size);
    if (theirs < size)
        memset((uint8_t *)to + theirs, 0, size - theirs);
    return 0;
}

void rc_give_sized(void *out, const void *from, size_t size)
{
    size_t theirs = size_of(out), both = theirs < size ? theirs : size, skip = sizeof(uint32_t);
    memcpy((uint8_t *)out + skip, (const uint8_t *)from + skip, both - skip);
    memset((uint8_t *)out + both, 0, theirs - both);
}
