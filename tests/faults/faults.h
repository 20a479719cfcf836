/* Faults on cue: the n-th call of those in calls.def fails. A page holds the cue; a program's own, or, so that a test can
 * set it from outside, the file that $REDUCED_FAULTS names. */
#ifndef T_FAULTS_H
#define T_FAULTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct t_faults {
    _Atomic uint64_t calls;   /* so far */
    _Atomic uint64_t fail_at; /* the number of the call that fails; 0: none */
    _Atomic uint64_t fired;   /* 1 once it has */
    char name[40];            /* of the call that failed */
    char always[40];          /* a call that fails every time; "": none */
} t_faults;

t_faults *t_faults_page(void);

/* A call of this name is about to be made: shall it fail? */
bool t_fails(const char *name);

#endif
