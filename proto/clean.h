/* Texts that others chose, for a terminal or a log: names of members, of programs, texts of a peer. */
#ifndef RP_CLEAN_H
#define RP_CLEAN_H

#include <stddef.h>

/* Bytes of the character at `text` in UTF-8, 1 to 4; 0: it is none. The final 0 has 1. */
size_t rp_utf8_length(const char *text);

/* Copy `text` to out[0..cap), terminated; they may be the same. Control characters (C0, DEL, C1), line separators, those that
 * change the direction of writing, and bytes that are not UTF-8 become '?' each; `keep` stays. It returns the length and ends
 * with a whole character. cap > 0. */
size_t rp_clean(char *out, size_t cap, const char *text, char keep);

#endif
