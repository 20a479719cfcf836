/* Text from elsewhere in JSON: a device's name, or what a client calls itself. */
#ifndef RD_JSON_TEXT_H
#define RD_JSON_TEXT_H

#include <stddef.h>
#include <stdio.h>

/* With its quotes. Bytes above 0x7f stay: they are UTF-8. */
void rd_json_text(FILE *f, const char *text, size_t n);

#endif
