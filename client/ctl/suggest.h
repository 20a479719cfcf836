/* Suggestions for mistyped words. */
#ifndef CTL_SUGGEST_H
#define CTL_SUGGEST_H

#include <stddef.h>

/* The nearest of `n` words, whatever the case: one edit away, or two if the word is long enough. NULL: none is near. */
const char *ctl_nearest(const char *word, const char *const *words, size_t n);

/* The operation or command that is meant, by other people's names for it, too ("avg"). NULL: none is near. */
const char *ctl_suggest_command(const char *word);

/* What there is instead of an operation that there is not, as words after "reducectl has". NULL: it is not one of those. */
const char *ctl_instead(const char *word);

#endif
