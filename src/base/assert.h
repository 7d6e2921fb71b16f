/*
 * Assertions: facts about our own code, on in release builds too. What a client, a peer or the disk
 * said is never asserted but checked (enum err). assert_slow is for walks that cost more than the
 * work they guard: on in sanitizer builds and in simulation.
 *
 * Threads  any.
 */
#ifndef OTTLA_BASE_ASSERT_H
#define OTTLA_BASE_ASSERT_H

/* Prints where and what, then the crash report (crash.h), then aborts. */
_Noreturn void assert_failed(const char *expression, const char *file, int line, const char *function);

#undef assert
#define assert(expression) ((expression) ? (void)0 : assert_failed(#expression, __FILE__, __LINE__, __func__))

/* For the branch that cannot be: behind a switch over all values of an enum. */
#define assert_never(why) assert_failed(why, __FILE__, __LINE__, __func__)

#ifdef OTTLA_SLOW_ASSERTS
#define assert_slow(expression) assert(expression)
#else
#define assert_slow(expression) ((void)(0 && (expression))) /* what it calls counts as used */
#endif

#endif
