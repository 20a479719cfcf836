/* The page that a browser shows, put into the program at build (page/). */
#ifndef RD_PAGE_H
#define RD_PAGE_H

#include <stddef.h>

typedef struct rd_page_file {
    const char *path, *type;
    const unsigned char *bytes;
    size_t size;
    const unsigned char *small; /* the same, gzip'd */
    size_t small_size;
} rd_page_file;

enum { RD_PAGE_FILES = 4 };
extern const rd_page_file rd_page_files[RD_PAGE_FILES];

#endif
