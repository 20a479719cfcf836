/* Tables as text, inside: what records and fields are (csv_fields.c), what a table is like (csv_guess.c), and a column of it as
 * numbers that the text reader takes (csv.c). All are pure. */
#ifndef CTL_CSV_H
#define CTL_CSV_H

#include "client/ctl/formats/container.h"
#include "client/ctl/formats/groups.h"

enum { CTL_FIELD = 1024 /* bytes of a name or number at most */ };

extern const char ctl_csv_unclosed[];

/* Bytes of the record at `p`, with its line feed; 0: it is not whole. A line feed in quotes does not end it. A quote within a
 * field or a comment is a character like others. Without a delimiter, quotes may follow any that may be one. *open: the last
 * record ends within quotes. */
size_t ctl_csv_record(const ctl_csv *c, const char *p, size_t len, bool last, bool *open);
/* How many fields it has, [p, end) without its line end. *field: the begin of field `index`, or NULL. */
uint64_t ctl_csv_fields(const ctl_csv *c, const char *p, const char *end, uint64_t index, const char **field);
/* The field at *at, without blanks and quotes around it; *at moves to the next field, or becomes NULL. False: it is longer than
 * any number, and cut. */
bool ctl_csv_take(const ctl_csv *c, const char **at, const char *end, char out[CTL_FIELD]);
/* Is the field [p, end), which has no quotes, without blanks around it? */
bool ctl_csv_is_trim(const ctl_csv *c, const char *p, const char *end);
/* Does the field at `p` go on behind its quotes? */
bool ctl_csv_torn(const ctl_csv *c, const char *p, const char *end);
/* The end of a record without its line end. */
const char *ctl_csv_end(const char *p, size_t n);

/* Does the text stand for a missing value? */
bool ctl_csv_is_missing(const ctl_csv *c, const char *text);
/* The decimal mark becomes a point. False: there is a point that is not the mark, or a blank. */
bool ctl_csv_point(const ctl_csv *c, char *text);

#endif
