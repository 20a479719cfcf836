/* Rows as text: one list of fields makes JSON and CSV, and reads JSON back. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/ladder/ladder.h"

typedef enum { TEXT, COUNT, REAL, VERDICT } kind;

typedef struct field {
    const char *name;
    kind kind;
    size_t at, size;
} field;

#define FIELD(kind, name)                                                      \
    {                                                                          \
#name, kind, offsetof(ladder_row, name), sizeof((ladder_row *)0)->name \
    }
static const field FIELDS[] = {
    FIELD(TEXT, rung),         FIELD(TEXT, dtype), FIELD(COUNT, n),       FIELD(COUNT, block),      FIELD(TEXT, finish),
    FIELD(VERDICT, verdict),   FIELD(TEXT, note),  FIELD(REAL, value),    FIELD(REAL, exact),       FIELD(COUNT, grid),
    FIELD(COUNT, passes),      FIELD(COUNT, runs), FIELD(REAL, ms),       FIELD(REAL, ms_min),      FIELD(REAL, ms_max),
    FIELD(REAL, gbs),          FIELD(REAL, share), FIELD(REAL, over_cpu), FIELD(REAL, over_before), FIELD(REAL, published_ms),
    FIELD(TEXT, published_on), FIELD(TEXT, gpu),   FIELD(REAL, peak_gbs), FIELD(TEXT, cpu),         FIELD(TEXT, date),
    FIELD(TEXT, version),
};
enum { FIELD_COUNT = sizeof FIELDS / sizeof *FIELDS };

static const char *const VERDICTS[LADDER_VERDICTS] = {"right", "wrong", "broken", "not run"};

/* ---- out ---- */

static void put_json_text(FILE *out, const char *s)
{
    putc('"', out);
    for (; *s; s++)
        if ((unsigned char)*s < ' ')
            fprintf(out, "\\u%04x", *s);
        else
            fprintf(out, *s == '"' || *s == '\\' ? "\\%c" : "%c", *s);
    putc('"', out);
}

static void put_json(FILE *out, const field *f, const void *at)
{
    if (f->kind == TEXT)
        put_json_text(out, at);
    else if (f->kind == COUNT)
        fprintf(out, "%" PRIu64, *(const uint64_t *)at);
    else if (f->kind == VERDICT)
        put_json_text(out, VERDICTS[*(const uint64_t *)at]);
    else if (isfinite(*(const double *)at))
        fprintf(out, "%.9g", *(const double *)at);
    else
        fputs("null", out);
}

static void put_csv(FILE *out, const field *f, const void *at)
{
    if (f->kind == REAL) {
        if (isfinite(*(const double *)at))
            fprintf(out, "%.9g", *(const double *)at);
    } else if (f->kind == COUNT) {
        fprintf(out, "%" PRIu64, *(const uint64_t *)at);
    } else {
        const char *s = f->kind == VERDICT ? VERDICTS[*(const uint64_t *)at] : at;
        bool quote = strpbrk(s, ",\"\n") != NULL;
        if (quote)
            putc('"', out);
        for (; *s; s++)
            fprintf(out, *s == '"' ? "\"%c" : "%c", *s);
        if (quote)
            putc('"', out);
    }
}

void ladder_print_json(FILE *out, const ladder_rows *rows)
{
    for (size_t i = 0; i < rows->count; i++)
        for (int k = 0; k < FIELD_COUNT; k++) {
            fprintf(out, "%c\"%s\":", k ? ',' : '{', FIELDS[k].name);
            put_json(out, &FIELDS[k], (const char *)&rows->row[i] + FIELDS[k].at);
            if (k == FIELD_COUNT - 1)
                fputs("}\n", out);
        }
}

void ladder_print_csv(FILE *out, const ladder_rows *rows)
{
    for (int k = 0; k < FIELD_COUNT; k++)
        fprintf(out, "%s%s", k ? "," : "", FIELDS[k].name);
    putc('\n', out);
    for (size_t i = 0; i < rows->count; i++)
        for (int k = 0; k < FIELD_COUNT; k++) {
            put_csv(out, &FIELDS[k], (const char *)&rows->row[i] + FIELDS[k].at);
            putc(k == FIELD_COUNT - 1 ? '\n' : ',', out);
        }
}

/* ---- back in: a flat object a line ---- */

static void skip_blanks(const char **at)
{
    while (isspace((unsigned char)**at))
        (*at)++;
}

static bool take(const char **at, char c)
{
    skip_blanks(at);
    if (**at != c)
        return false;
    (*at)++;
    return true;
}

/* A string of ASCII; what is too long is an error. */
static bool take_text(const char **at, char *out, size_t cap)
{
    size_t n = 0;
    if (!take(at, '"'))
        return false;
    for (; **at && **at != '"'; (*at)++) {
        unsigned code = (unsigned char)**at;
        int used = 0;
        if (code == '\\') {
            (*at)++;
            code = (unsigned char)**at;
            if (code == 'u') {
                if (sscanf(*at + 1, "%4x%n", &code, &used) != 1 || used != 4 || code > 127)
                    return false;
                *at += used;
            } else if (code != '"' && code != '\\' && code != '/') {
                return false;
            }
        }
        if (n + 1 >= cap)
            return false;
        out[n++] = (char)code;
    }
    out[n] = 0;
    return take(at, '"');
}

static bool take_real(const char **at, double *out)
{
    char *end;
    skip_blanks(at);
    if (!strncmp(*at, "null", 4)) {
        *at += 4;
        *out = NAN;
        return true;
    }
    *out = strtod(*at, &end);
    bool good = end != *at && isfinite(*out);
    *at = end;
    return good;
}

static bool take_count(const char **at, uint64_t *out)
{
    char *end;
    skip_blanks(at);
    if (!isdigit((unsigned char)**at))
        return false;
    errno = 0;
    *out = strtoull(*at, &end, 10);
    *at = end;
    return errno == 0;
}

static bool take_verdict(const char **at, uint64_t *out)
{
    char word[16];
    if (!take_text(at, word, sizeof word))
        return false;
    for (*out = 0; *out < LADDER_VERDICTS; ++*out)
        if (!strcmp(word, VERDICTS[*out]))
            return true;
    return false;
}

static bool take_value(const char **at, const field *f, void *to)
{
    switch (f->kind) {
    case TEXT:
        return take_text(at, to, f->size);
    case COUNT:
        return take_count(at, to);
    case REAL:
        return take_real(at, to);
    default:
        return take_verdict(at, to);
    }
}

/* Every field once: rows are never half there. */
static bool take_row(const char *line, ladder_row *r)
{
    bool seen[FIELD_COUNT] = {false};
    char name[32];
    if (!take(&line, '{'))
        return false;
    for (int i = 0; i < FIELD_COUNT; i++) {
        if ((i && !take(&line, ',')) || !take_text(&line, name, sizeof name) || !take(&line, ':'))
            return false;
        int k = 0;
        while (k < FIELD_COUNT && strcmp(FIELDS[k].name, name))
            k++;
        if (k == FIELD_COUNT || seen[k] || !take_value(&line, &FIELDS[k], (char *)r + FIELDS[k].at))
            return false;
        seen[k] = true;
    }
    return take(&line, '}') && (skip_blanks(&line), *line == 0);
}

bool ladder_read_json(const char *path, ladder_rows *rows, char why[LADDER_WHY])
{
    char *line = NULL;
    size_t room = 0, number = 0;
    bool good = true;
    FILE *f = fopen(path, "re");
    if (!f) {
        snprintf(why, LADDER_WHY, "%.100s: %s", path, strerror(errno));
        return false;
    }
    while (good && getline(&line, &room, f) >= 0) {
        number++;
        ladder_row *r = ladder_rows_add(rows);
        good = r && take_row(line, r);
        if (!good)
            snprintf(why, LADDER_WHY, "%.100s: line %zu is not a row of 'reducectl ladder --json'", path, number);
    }
    if (good && number == 0) {
        snprintf(why, LADDER_WHY, "%.100s: the file is empty", path);
        good = false;
    }
    free(line);
    fclose(f);
    return good;
}
