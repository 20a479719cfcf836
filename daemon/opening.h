/* Devices that open while the CPU answers. CUDA's contexts take 0.2 s and more, on a cold machine seconds, and the bits are the
 * same on the CPU. So the engine begins there, a thread of its own opens the devices, and they join in a turn of the loop.
 * What needs a device waits until then: requests (RD_LATER), and allocations on the device (rd_handles_open_late). */
#ifndef RD_OPENING_H
#define RD_OPENING_H

#include "daemon/server.h"

/* Start the thread, if devices may join the engine later. Call it before the sandbox, as the driver may start a program. The
 * thread waits for the engine. False: the devices open with the engine. */
bool rd_opening_begin(rd_server *s, const rk_options *o);

/* The engine is there: open its devices. */
void rd_opening_go(rd_server *s);

/* Note what depends on the engine's devices: names, caps, windows. Call it at the start, and when devices have joined. */
void rd_opening_know(rd_server *s);

/* The number of threads that read files: as many as the devices can use. */
unsigned rd_opening_readers(const rd_server *s);

/* In a turn of the loop: have they been opened? */
void rd_opening_turn(rd_server *s);

/* The daemon leaves. False: the driver has not answered; the process must end without the engine's close. */
bool rd_opening_end(rd_server *s);

#endif
