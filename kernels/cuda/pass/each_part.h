/* The end of a unit that nvcc compiles in parts: the instances of RK_PART. Others (tests/simt, clangd) compile all parts.
 * PARTS(X) lists the parts, from where the Makefile has them; PART(of) declares the instances of one. */
#ifdef RK_PART
PART(RK_PART)
#elif !defined(__NVCC__) || defined(RK_ALL_PARTS)
PARTS(PART)
#else
#error "the Makefile did not find the parts of this unit"
#endif
