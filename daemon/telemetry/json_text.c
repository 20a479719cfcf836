#include "daemon/telemetry/json_text.h"

void rd_json_text(FILE *f, const char *text, size_t n)
{
    fputc('"', f);
    for (size_t i = 0; i < n; i++)
        if (text[i] == '"' || text[i] == '\\')
            fprintf(f, "\\%c", text[i]);
        else if ((unsigned char)text[i] < ' ')
            fprintf(f, "\\u%04x", (unsigned char)text[i]);
        else
            fputc(text[i], f);
    fputc('"', f);
}
