/* check.h: what every C test uses. A failed CHECK prints where and goes on;
 * main returns check_failures != 0. */
#ifndef MPITRACE_TEST_CHECK_H
#define MPITRACE_TEST_CHECK_H

#include <stdio.h>

static int check_failures;

#define CHECK(condition)                                                     \
    do {                                                                     \
        if (!(condition)) {                                                  \
            printf("%s:%d: %s\n", __FILE__, __LINE__, #condition);           \
            check_failures++;                                                \
        }                                                                    \
    } while (0)

#define CHECK_EQ(got, want)                                                  \
    do {                                                                     \
        unsigned long long got_ = (unsigned long long)(got);                 \
        unsigned long long want_ = (unsigned long long)(want);               \
        if (got_ != want_) {                                                 \
            printf("%s:%d: %s is %llu, want %llu\n", __FILE__, __LINE__,     \
                   #got, got_, want_);                                       \
            check_failures++;                                                \
        }                                                                    \
    } while (0)

/* xorshift64*: the same numbers on every machine. */
static inline unsigned long long check_random(unsigned long long *state)
{
    unsigned long long x = *state;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    *state = x;
    return x * 0x2545f4914f6cdd1dULL;
}

#endif
