/* The unit tests of most files are one program, since linking it takes longer than most of them run. Links to it have the names
 * of the files: the name by which it is called says whose tests run. */
#include <stdio.h>
#include <string.h>

#define X(file) int file##_main(void);
UNIT_FILES(X) /* by the Makefile */
#undef X

int main(int argc, char **argv)
{
    const char *slash = argc > 0 ? strrchr(argv[0], '/') : NULL, *name = slash ? slash + 1 : argc > 0 ? argv[0] : "";
#define X(file)                   \
    if (strcmp(name, #file) == 0) \
        return file##_main();
    UNIT_FILES(X)
#undef X
    fprintf(stderr, "'%s' is not the name of a file of tests/unit/\n", name);
    return 2;
}
