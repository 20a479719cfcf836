/* Pieces of a task of elements, for threads that work on it together: those of the CPU backend, or those of one call (here.c).
 *
 * Rows and segments lie one behind the other on a scale: each takes LINE_BYTES for its cell and then its elements. A piece is
 * an equal share of the scale, so neither one long segment nor many empty ones keep one worker busy while others wait. Lines
 * that end in the piece where they begin are finished by its worker. Each boundary between pieces cuts one line at most:
 * that line's state gathers in the slot of the piece where it begins, and is finished with the task.
 *
 * A piece of columns has some whole columns, or whole planes if they are small. With few long columns a piece has some rows of
 * all of them, counted through all planes, and each column has a slot.
 *
 * Tasks by key have pieces of elements or of groups (keys/by_key.h).
 *
 * Order statistics have no states (order/ranked.h). A piece has whole lines of them. Or threads share one line after the other:
 * all its pieces run again for each pass.
 *
 * States are exact, so neither the cut nor the order in which pieces end shows in the result. Sums and products of lines may
 * at first be near the exact ones (near.h). If a result is not certain then, all pieces run again, exactly. */
#ifndef RK_PIECES_H
#define RK_PIECES_H

#include <pthread.h>

#include "kernels/cpu/cpu.h"

enum { RK_MAX_PIECES = 256 }; /* pieces of lines: each may need a slot */

typedef enum {
    RK_LINES,
    RK_COLUMNS,
    RK_ROWS_OF_COLUMNS,
    RK_RANKED,
    RK_SHARED_LINES,
    RK_KEYED_ELEMENTS,
    RK_KEYED_GROUPS
} rk_cutting;

typedef struct rk_pieces {
    rk_task *t; /* the owner may set NULL: no task */
    const rk_simd *simd;
    pthread_mutex_t *lock;
    rk_cutting how;
    bool near;    /* the sums of lines in slots lack up to `neglected` */
    bool settles; /* a line's state may decide its result: rk_cpu_may_settle */
    uint64_t pieces, next, left;
    uint64_t each;    /* units of a piece: elements on the scale of lines, columns of all planes, or their rows */
    uint64_t units;   /* in all */
    uint64_t weight;  /* LINES: units before the elements of a line */
    uint64_t bad_row; /* first line without a result so far, RP_NO_INDEX if none */
    int bad_code;
    rk_state bad_state;
    struct rk_selection *ordered; /* SHARED_LINES: of the line that all work on; NULL at first */
    uint64_t ordered_line;
    struct rk_table *tables;      /* KEYED_ELEMENTS: those that no piece has */
    bool opened;                  /* it has its brackets */
    bool late;                    /* some pieces of its pass were left out: the task is late or stopped */
    uint64_t line[RK_MAX_PIECES]; /* the line whose state is in the slot; RP_NO_INDEX: none */
    rk_state slot[RK_MAX_PIECES];
    double neglected[RK_MAX_PIECES];
} rk_pieces;

/* Cut a task of elements for `threads` threads. `lock` guards the pieces from here on. */
void rk_cut(rk_pieces *j, rk_task *t, int threads, const rk_simd *simd, pthread_mutex_t *lock);

/* May pieces that have ended have to run again? */
static inline bool rk_pieces_repeat(const rk_pieces *j) { return j->near || j->how == RK_SHARED_LINES; }

/* Run the next piece, which must exist (next < pieces), under rk_fp_enter's arithmetic. Call with the lock held; it is released
 * meanwhile and held on return. */
typedef enum { RK_PIECES_LEFT, RK_PIECES_AGAIN, RK_PIECES_ENDED } rk_progress; /* AGAIN: all of them must run once more */
rk_progress rk_run_piece(rk_pieces *j);

/* All pieces have ended: finish the task, its cells, fault and time. Call without the lock. */
void rk_finish_pieces(rk_pieces *j);

#endif
