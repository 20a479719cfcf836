/* Any bytes as what `reducectl ladder --from` reads: refused with a reason, or rows that, written as JSON, read back to the
 * same JSON. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kernels/ladder/ladder.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool read_bytes(ladder_rows *rows, const void *bytes, size_t n)
{
    char path[64], why[LADDER_WHY] = "";
    int fd = memfd_create("records", MFD_CLOEXEC);
    if (fd < 0 || write(fd, bytes, n) != (ssize_t)n)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    *rows = (ladder_rows){0};
    bool fine = ladder_read_json(path, rows, why);
    close(fd);
    if (!fine && !why[0]) {
        fprintf(stderr, "a refusal without a reason\n");
        abort();
    }
    return fine;
}

static char *as_json(const ladder_rows *rows, size_t *n)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, n);
    if (!out)
        abort();
    ladder_print_json(out, rows);
    fclose(out);
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ladder_rows rows, back;
    size_t n, m;
    if (size > 1 << 16)
        return 0;
    if (read_bytes(&rows, data, size)) {
        char *text = as_json(&rows, &n);
        if (!read_bytes(&back, text, n)) {
            fprintf(stderr, "what was written does not read back:\n%s", text);
            abort();
        }
        char *again = as_json(&back, &m);
        if (n != m || memcmp(text, again, n) != 0) {
            fprintf(stderr, "what was written reads back to something else:\n%s---\n%s", text, again);
            abort();
        }
        free(text);
        free(again);
        free(back.row);
    }
    free(rows.row);
    return 0;
}
