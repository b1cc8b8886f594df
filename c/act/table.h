/* table.h: finds a pointer by a handle. Reading takes no lock; whoever changes a
 * table holds a lock of the caller's. It knows no MPI. */
#ifndef MPITRACE_ACT_TABLE_H
#define MPITRACE_ACT_TABLE_H

#include "../include/base.h"

struct mt_act_slot {
    uint64_t key; /* with value NULL: free to be used again */
    void *value;
    uint64_t given; /* changes twice when the slot is given to another key, and is
                     * odd meanwhile */
};

struct mt_act_slots {
    struct mt_act_slots *older; /* a reader may still be in them */
    uint32_t bits;
    uint32_t keys; /* slots that ever had a key */
    struct mt_act_slot slot[];
};

struct mt_act_table {
    struct mt_act_slots *slots; /* NULL: nothing was ever put */
    uint32_t values;
};

/* The value of a key, or NULL. Pairs with the releases of mt_act_table_put: who
 * sees the value of another key, to which the slot was given meanwhile, sees that
 * it was, and looks again. */
MT_INLINE void *mt_act_table_get(const struct mt_act_table *table, uint64_t key)
{
    const struct mt_act_slots *slots =
        __atomic_load_n(&table->slots, __ATOMIC_ACQUIRE);
    if (mt_unlikely(slots == NULL)) {
        return NULL;
    }
    uint64_t mask = (UINT64_C(1) << slots->bits) - 1;
    uint64_t i = mt_hash(key) >> (64 - slots->bits);
    for (;;) {
        const struct mt_act_slot *slot = &slots->slot[i];
        uint64_t given = __atomic_load_n(&slot->given, __ATOMIC_ACQUIRE);
        uint64_t found = __atomic_load_n(&slot->key, __ATOMIC_ACQUIRE);
        if (mt_likely(found == key)) {
            void *value = __atomic_load_n(&slot->value, __ATOMIC_ACQUIRE);
            if (mt_likely(given % 2 == 0 &&
                          __atomic_load_n(&slot->given, __ATOMIC_RELAXED) ==
                              given)) {
                return value;
            }
        } else if (found == UINT64_MAX) {
            return NULL;
        } else {
            i = (i + 1) & mask;
        }
    }
}

/* Under the caller's lock. value NULL removes. False: no memory. */
bool mt_act_table_put(struct mt_act_table *table, uint64_t key, void *value);
/* With no reader left. */
void mt_act_table_free(struct mt_act_table *table);

#endif
