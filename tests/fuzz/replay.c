/* Stands in for libFuzzer where there is no clang: run the target on each file, and on each file of each directory,
 * named on the command line; on its prefixes, too: all of the first DENSE bytes, then one each STEP bytes, for the time grows
 * with the square of a file's size. Linked with one fuzz_*.c. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { DENSE = 512, STEP = 61 };

static unsigned long inputs;

static size_t next_prefix(size_t n, size_t size)
{
    size_t next = n < DENSE ? n + 1 : n + STEP;
    return n < size && next > size ? size : next;
}

static int run_file(const char *path)
{
    FILE *in = fopen(path, "rb");
    struct stat st;
    if (!in || fstat(fileno(in), &st)) {
        perror(path);
        return 1;
    }
    size_t size = (size_t)st.st_size;
    uint8_t *whole = malloc(size + 1);
    if (!whole || fread(whole, 1, size, in) != size) {
        perror(path);
        return 1;
    }
    fclose(in);
    /* a block of its own for each, so that a sanitizer sees its end */
    for (size_t n = 0; n <= size; n = next_prefix(n, size)) {
        uint8_t *part = malloc(n + (n == 0));
        if (!part)
            return 1;
        memcpy(part, whole, n);
        LLVMFuzzerTestOneInput(part, n);
        free(part);
        inputs++;
    }
    free(whole);
    return 0;
}

static int run_directory(const char *path, DIR *dir)
{
    int bad = 0;
    for (struct dirent *e; (e = readdir(dir));) {
        char name[4096];
        if (e->d_name[0] == '.')
            continue;
        snprintf(name, sizeof name, "%s/%s", path, e->d_name);
        bad |= run_file(name);
    }
    closedir(dir);
    return bad;
}

int main(int argc, char **argv)
{
    int bad = 0;
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] == '-')
            continue; /* libFuzzer's options */
        DIR *dir = opendir(argv[i]);
        bad |= dir ? run_directory(argv[i], dir) : run_file(argv[i]);
    }
    printf("%lu inputs\n", inputs);
    return bad;
}
