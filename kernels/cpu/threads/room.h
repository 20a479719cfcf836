/* Stack for the loops. They keep tiles and accumulators in their frames: up to 290 KiB for rows, 1070 KiB for columns and
 * rows in runs (gcc -fstack-usage). A program's thread may have less, and a coroutine's stack is not known. */
#ifndef RK_ROOM_H
#define RK_ROOM_H

#include <stdbool.h>
#include <stddef.h>

enum { RK_ROOM_LINES = 384 << 10, RK_ROOM_COLUMNS = 1280 << 10, RK_ROOM_THREAD = 2 << 20 /* of a thread for either */ };

/* Run work(arg) here, if the stack of the calling thread has so many bytes left; else in a thread of its own, which ends with
 * the call and takes some 50 us more. False: there is no memory for that thread, and nothing was run. */
bool rk_with_room(size_t bytes, void (*work)(void *), void *arg);

/* Start a thread with RK_ROOM_THREAD bytes of stack. It takes no signals: those belong to the program's own threads. */
bool rk_start_thread(void *(*run)(void *), void *arg, bool detached, unsigned long *thread);

#endif
