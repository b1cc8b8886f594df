/* sources: c/engine/lock.c */
/* A lock that one takes often and others rarely: what each adds is never lost, whoever
 * comes when, and nobody waits for ever. */
#include <pthread.h>
#include <sched.h>

#include "../engine/lock.h"
#include "check.h"

enum { OFTEN = 2000000, RARELY = 3000, ASIDE = 2 };

static struct mt_lock lock;
static uint64_t counter[2]; /* the same, always */

static void both(void)
{
    CHECK_EQ(counter[0], counter[1]);
    counter[0]++;
    for (volatile int i = 0; i < 3; i++) {
    }
    counter[1]++;
}

static void *aside(void *arg)
{
    (void)arg;
    for (int i = 0; i < RARELY; i++) {
        mt_lock_take_aside(&lock);
        both();
        mt_lock_give_aside(&lock);
        if (i % 16 == 0) {
            sched_yield();
        }
    }
    return NULL;
}

static void *often(void *arg)
{
    for (int i = 0; i < *(int *)arg; i++) {
        mt_lock_take(&lock);
        both();
        mt_lock_give(&lock);
    }
    return NULL;
}

/* program: threads of the program. */
static void several(bool alone, int program, int times)
{
    pthread_t threads[ASIDE + 4];
    int n = 0;
    mt_lock_open(&lock, alone);
    counter[0] = counter[1] = 0;
    for (int i = 0; i < ASIDE; i++) {
        CHECK_EQ(pthread_create(&threads[n++], NULL, aside, NULL), 0);
    }
    for (int i = 0; i < program; i++) {
        CHECK_EQ(pthread_create(&threads[n++], NULL, often, &times), 0);
    }
    for (int i = 0; i < n; i++) {
        pthread_join(threads[i], NULL);
    }
    CHECK_EQ(counter[0], (uint64_t)ASIDE * RARELY + (uint64_t)program * (uint64_t)times);
    CHECK_EQ(counter[0], counter[1]);
}

int main(void)
{
    several(true, 1, OFTEN);
    CHECK(lock.biased);
    several(false, 2, OFTEN / 20);
    CHECK(!lock.biased);
    mt_lock_take(&lock);
    mt_lock_forget(&lock);
    mt_lock_take_aside(&lock);
    mt_lock_give_aside(&lock);
    return check_failures != 0;
}
