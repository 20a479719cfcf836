/* Any bytes as the record of kept data, as they are and with the right checksum: refused with a reason, or values that write
 * the same bytes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/state/kept_record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_record(const uint8_t record[RD_KEPT_RECORD])
{
    rd_kept_record r;
    uint8_t back[RD_KEPT_RECORD];
    const char *why = rd_kept_get(record, &r);
    if (why && !why[0])
        abort();
    if (why)
        return;
    rd_kept_put(back, &r);
    if (memcmp(record, back, sizeof back) != 0) {
        fprintf(stderr, "what was read is written in another way\n");
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t record[RD_KEPT_RECORD] = {0};
    memcpy(record, data, size < sizeof record ? size : sizeof record);
    try_record(record);
    rd_kept_sum(record);
    try_record(record);
    return 0;
}
