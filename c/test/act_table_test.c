/* sources: c/act/table.c */
/* Finding a pointer by a handle: a random stream against a dumb twin, and a
 * thread that looks up a key while its slot is given to others. */
#include <pthread.h>

#include "../act/table.h"
#include "check.h"

enum { KEYS = 500, STEPS = 200000, ROUNDS = 5000000 };

static void stream(void)
{
    static char values[KEYS];
    static void *twin[KEYS];
    struct mt_act_table table = {0};
    unsigned long long state = 7;
    for (int i = 0; i < STEPS; i++) {
        uint64_t key = check_random(&state) % KEYS;
        if (check_random(&state) % 3 == 0) {
            twin[key] =
                check_random(&state) % 2 == 0 ? &values[key] : NULL;
            CHECK(mt_act_table_put(&table, key, twin[key]));
        }
        CHECK(mt_act_table_get(&table, key) == twin[key]);
    }
    mt_act_table_free(&table);
}

/* ---- a slot that is given to another key while somebody looks ---- */

static struct mt_act_table shared;
static int mine, others;
static uint32_t stop;

static void *look(void *wrong_p)
{
    unsigned long wrong = 0;
    while (__atomic_load_n(&stop, __ATOMIC_RELAXED) == 0) {
        void *value = mt_act_table_get(&shared, 1);
        wrong += value != NULL && value != &mine;
    }
    *(unsigned long *)wrong_p = wrong;
    return NULL;
}

/* Another key whose way begins at the same slot of the first size. */
static uint64_t same_slot(void)
{
    uint64_t key = 2;
    while (mt_hash(key) >> 58 != mt_hash(1) >> 58) {
        key++;
    }
    return key;
}

static void given_away(void)
{
    pthread_t thread;
    unsigned long wrong = 0;
    uint64_t other = same_slot();
    CHECK(mt_act_table_put(&shared, 1, &mine));
    pthread_create(&thread, NULL, look, &wrong);
    for (int i = 0; i < ROUNDS; i++) {
        mt_act_table_put(&shared, 1, NULL);
        mt_act_table_put(&shared, other, &others);
        mt_act_table_put(&shared, other, NULL);
        mt_act_table_put(&shared, 1, &mine);
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    pthread_join(thread, NULL);
    CHECK_EQ(wrong, 0);
    mt_act_table_free(&shared);
}

int main(void)
{
    stream();
    given_away();
    return check_failures != 0;
}
