/* The mutex of a client: how code enters, waits and leaves. */
#ifndef RC_ENTER_H
#define RC_ENTER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/reduce.h"

/* Work to do before the mutex is left: sending a message, or the callback of a finished job. */
typedef struct rc_ending {
    void (*run)(reduce_client *c, struct rc_ending *e); /* with the mutex held; may release it meanwhile */
    struct rc_ending *next;
} rc_ending;

void rc_enter(reduce_client *c);
void rc_leave(reduce_client *c); /* client.h says what it does */

/* Wait with the mutex held for a wake-up, which may be spurious, or until until_ns (0: for ever); false once that has
 * passed. */
bool rc_cond_wait(pthread_cond_t *cond, reduce_client *c, uint64_t until_ns);
/* The same for a thread that waits for the end of an exchange. Until watch_until_ns it polls instead of sleeping, if it can. */
bool rc_reply_wait(pthread_cond_t *cond, reduce_client *c, uint64_t until_ns, uint64_t watch_until_ns);
/* Wake all that wait so; with the mutex held. */
void rc_wake(pthread_cond_t *cond, reduce_client *c);

/* With the mutex held. rc_leave or the next wait runs them: messages in the order of these calls, then the rest in reverse. */
void rc_send_later(reduce_client *c, rc_ending *message);
void rc_end_later(reduce_client *c, rc_ending *e);

#endif
