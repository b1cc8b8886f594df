/* table.c: putting into the tables of table.h: open addressing, at most half of
 * the slots in use. A slot keeps its key when the value goes, so that a reader's
 * way to another key stays whole, and is given to the next key that comes by.
 * Slots that were outgrown are kept until the end, since a reader may be in
 * them; together they are no larger than those in use. */
#include "table.h"

#include <stdlib.h>

enum { MT_ACT_TABLE_BITS = 6 };

static struct mt_act_slot *mt_act_table_slot(struct mt_act_slots *slots,
                                             uint64_t key)
{
    uint64_t mask = (UINT64_C(1) << slots->bits) - 1;
    struct mt_act_slot *vacant = NULL;
    uint64_t i = mt_hash(key) >> (64 - slots->bits);
    for (;; i = (i + 1) & mask) {
        struct mt_act_slot *slot = &slots->slot[i];
        if (slot->key == key) {
            return slot;
        }
        if (slot->key == UINT64_MAX) {
            return vacant != NULL ? vacant : slot;
        }
        if (vacant == NULL && slot->value == NULL) {
            vacant = slot;
        }
    }
}

static bool mt_act_table_grow(struct mt_act_table *table)
{
    struct mt_act_slots *old = table->slots;
    uint32_t bits = old == NULL ? MT_ACT_TABLE_BITS : old->bits + 1;
    size_t bytes = sizeof(struct mt_act_slot) << bits;
    struct mt_act_slots *slots = malloc(sizeof(*slots) + bytes);
    if (slots == NULL) {
        return false;
    }
    *slots = (struct mt_act_slots){.older = old, .bits = bits};
    for (uint64_t i = 0; i < UINT64_C(1) << bits; i++) {
        slots->slot[i] = (struct mt_act_slot){.key = UINT64_MAX}; /* never used */
    }
    for (uint64_t i = 0; old != NULL && i < UINT64_C(1) << old->bits; i++) {
        if (old->slot[i].key != UINT64_MAX && old->slot[i].value != NULL) {
            *mt_act_table_slot(slots, old->slot[i].key) = (struct mt_act_slot){
                .key = old->slot[i].key, .value = old->slot[i].value};
            slots->keys++;
        }
    }
    __atomic_store_n(&table->slots, slots, __ATOMIC_RELEASE);
    return true;
}

bool mt_act_table_put(struct mt_act_table *table, uint64_t key, void *value)
{
    struct mt_act_slots *slots = table->slots;
    if (slots == NULL || 2 * (slots->keys + 1) > 1U << slots->bits) {
        if (value == NULL && mt_act_table_get(table, key) == NULL) {
            return true;
        }
        if (value != NULL && !mt_act_table_grow(table)) {
            return false;
        }
        slots = table->slots;
    }
    struct mt_act_slot *slot = mt_act_table_slot(slots, key);
    if (slot->key != key) {
        if (value == NULL) {
            return true;
        }
        slots->keys += slot->key == UINT64_MAX;
        uint64_t given = slot->given;
        __atomic_store_n(&slot->given, given + 1, __ATOMIC_RELAXED);
        __atomic_store_n(&slot->value, NULL, __ATOMIC_RELEASE);
        __atomic_store_n(&slot->key, key, __ATOMIC_RELEASE);
        __atomic_store_n(&slot->given, given + 2, __ATOMIC_RELEASE);
    }
    table->values += (value != NULL) - (slot->value != NULL);
    __atomic_store_n(&slot->value, value, __ATOMIC_RELEASE);
    return true;
}

void mt_act_table_free(struct mt_act_table *table)
{
    struct mt_act_slots *slots = table->slots;
    *table = (struct mt_act_table){0};
    while (slots != NULL) {
        struct mt_act_slots *older = slots->older;
        free(slots);
        slots = older;
    }
}
