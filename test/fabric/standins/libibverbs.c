/* libibverbs.c: in place of the library of that name: it has all functions that
 * the provider loads, and no devices. */
#include "../../../c/fabric/verbs/verbs.h"

static void *none[1];

/* Every function returns an empty list, which one of them is asked for. */
#define STAND_IN(symbol, name)                                                 \
    void *stand_in_##name(void) __asm__(symbol);                               \
    void *stand_in_##name(void)                                                \
    {                                                                          \
        return none;                                                           \
    }
#define STAND_IN_IBV(name) STAND_IN("ibv_" #name, name)

MT_VERBS_FUNCTIONS(STAND_IN_IBV)
STAND_IN("_ibv_query_gid_table", query_gid_table)
