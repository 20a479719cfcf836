/* The CPU as a helper of GPUs: the engine goes by it, and libreduce expects it (client/ways.c). */
#ifndef RK_HELPER_H
#define RK_HELPER_H

enum {
    /* Bytes of host data that are shared with the CPU. A device finishes smaller tasks before the CPU's workers wake. */
    RK_SHARED_BYTES = 512 << 10,
    /* The CPU's share beside GPUs: one core in this many. Two threads for each device feed it, and many of clients or of
     * the daemon copy or read data: they saturate the memory bus and need most of the cores. A fifth of the cores is enough for
     * data that are in the cache, as these are (tests/bench/tuning/devices.md). */
    RK_HELPER_PART = 5
};

/* Threads of the CPU's engine beside that number of devices. */
static inline int rk_helper_threads(int cores, int devices)
{
    const int left = cores - 2 * devices, share = cores / RK_HELPER_PART, fit = share < left ? share : left;
    return fit > 0 ? fit : 1;
}

#endif
