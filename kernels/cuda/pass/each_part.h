/* The end of a unit that is compiled in parts: the instances of RK_PART, or of all parts where there is none (tests/simt).
 * PARTS(X) lists the parts, from where the Makefile has them; PART(of) declares the instances of one. */
#ifdef RK_PART
PART(RK_PART)
#else
PARTS(PART)
#endif
