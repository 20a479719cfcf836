/* Which program is started: one that nobody but root and this user can have put there. */
#ifndef RC_PROGRAM_H
#define RC_PROGRAM_H

enum { RC_PROGRAM_PATH = 4096, RC_PROGRAM_WHY = 96 };

/* The program `name`, for execvp: its path beside this executable, links resolved; its name alone, for $PATH, if none can be
 * executed there. An errno, and `why` with the path, if another user could have put it there. */
int rc_find_program(const char *name, char path[RC_PROGRAM_PATH], char why[RC_PROGRAM_WHY]);

/* Can none but root and this user change what the absolute path `asked` names? Each folder and each link on the way counts.
 * `path` is where it leads, without links. 0; else an errno, of which EPERM has the reason in `why`. */
int rc_trust_path(const char *asked, char path[RC_PROGRAM_PATH], char why[RC_PROGRAM_WHY]);

#endif
