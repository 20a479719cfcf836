/* What of a unit test a build with a sanitizer runs: the plain build has all of it. */
#ifndef TESTS_UNIT_SANITIZED_H
#define TESTS_UNIT_SANITIZED_H

/* ALONE_TOO: also what has one thread, where ThreadSanitizer could see nothing.
 * SOME: one in so many of what differs in values alone. */
#if defined(__SANITIZE_THREAD__)
enum { ALONE_TOO = 0, SOME = 4 };
#elif defined(__SANITIZE_ADDRESS__)
enum { ALONE_TOO = 1, SOME = 4 };
#else
enum { ALONE_TOO = 1, SOME = 1 };
#endif

#endif
