/* Waiting without the kernel: tell the processor that a loop only waits, so the other thread of its core gets the time. */
#ifndef RK_SPIN_H
#define RK_SPIN_H

static inline void rk_pause(void)
{
#ifdef __x86_64__
    __builtin_ia32_pause();
#else
    __asm__ volatile("yield");
#endif
}

#endif
