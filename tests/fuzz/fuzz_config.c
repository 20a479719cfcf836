/* Any bytes as a config file: refused with one line of text, or taken over and printed as a file that reads back to the
 * same settings. */
#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/base/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Instead of libc's, which ask the system's database: one user and one group. */
struct passwd *getpwnam(const char *name)
{
    static struct passwd alice = {.pw_uid = 1001};
    return strcmp(name, "alice") == 0 ? &alice : NULL;
}

struct group *getgrnam(const char *name)
{
    static struct group gpu = {.gr_gid = 70};
    return strcmp(name, "gpu") == 0 ? &gpu : NULL;
}

static bool read_bytes(rd_config *c, const void *bytes, size_t n)
{
    char path[64], why[RD_MAX_WHY] = "";
    int fd = memfd_create("config", MFD_CLOEXEC);
    if (fd < 0 || write(fd, bytes, n) != (ssize_t)n)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    rd_config_defaults(c);
    bool fine = rd_config_read(c, path, NULL, why);
    close(fd);
    if (!fine && (!why[0] || strlen(why) >= RD_MAX_WHY)) {
        fprintf(stderr, "a refusal without a reason\n");
        abort();
    }
    return fine;
}

static char *dump(const rd_config *c, size_t *n)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, n);
    if (!out)
        abort();
    rd_config_dump(c, out);
    fclose(out);
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    rd_config c, back;
    size_t n, m;
    if (size > 4096 || !read_bytes(&c, data, size))
        return 0;
    char *text = dump(&c, &n);
    if (!read_bytes(&back, text, n)) {
        fprintf(stderr, "the dump does not read back:\n%s", text);
        abort();
    }
    char *again = dump(&back, &m);
    if (n != m || memcmp(text, again, n) != 0) {
        fprintf(stderr, "the dump reads back to something else:\n%s---\n%s", text, again);
        abort();
    }
    free(text);
    free(again);
    return 0;
}
