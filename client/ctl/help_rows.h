/* The texts of reducectl's help: a row for each option, example and paragraph, each of one topic. */
#ifndef CTL_HELP_ROWS_H
#define CTL_HELP_ROWS_H

#include <stdbool.h>
#include <stddef.h>

typedef struct help_row {
    const char *topic;
    const char *name; /* "-t, --dtype T", "--text", or a command to try; NULL: a paragraph */
    const char *text; /* is broken into lines when it is printed */
    bool first;       /* --help has it, too */
} help_row;

extern const help_row ctl_help_rows[];
extern const size_t ctl_n_help_rows;

typedef struct help_topic {
    const char *name, *about;
} help_topic;

/* The name of the last is NULL. */
extern const help_topic ctl_topics[];

/* The topic that explains an option, by its long name without dashes. NULL: none does. */
const char *ctl_topic_of_option(const char *name);

#endif
