/* later.c: functions of MPI 4.1 that read or write a field of a status, for libraries
 * that do not have them. A program may look whether there is such a function (mpi4py
 * does, by a weak symbol), and finds the shim's, which all are there. Of others nothing
 * can be done: attach.c ends the program. */
#include <string.h>

#include "../gen/tables.h"
#include "../include/calls.gen.h"
#include "../include/segment.gen.h"
#include "state.h"

enum mt_field { MT_FIELD_SOURCE, MT_FIELD_TAG, MT_FIELD_ERROR };

/* Both families have these three in this order; MPICH's two ints before them. */
static char *mt_field_of(const void *status, enum mt_field field)
{
    bool mpich = mt_process.family == MPITRACE_MPI_FAMILY_MPICH;
    return (char *)(uintptr_t)status +
           ((mpich ? 2u : 0u) + (unsigned)field) * sizeof(int);
}

#define MT_LATER(name, field)                                                \
    static int mt_later_get_##name(const void *status, int *value)           \
    {                                                                        \
        memcpy(value, mt_field_of(status, field), sizeof(*value));           \
        return 0;                                                            \
    }                                                                        \
    static int mt_later_set_##name(void *status, int value)                  \
    {                                                                        \
        memcpy(mt_field_of(status, field), &value, sizeof(value));           \
        return 0;                                                            \
    }
MT_LATER(source, MT_FIELD_SOURCE)
MT_LATER(tag, MT_FIELD_TAG)
MT_LATER(error, MT_FIELD_ERROR)

void *mt_later(uint32_t id)
{
    if (mt_process.family == MPITRACE_MPI_FAMILY_UNKNOWN) {
        return NULL;
    }
    switch (id) {
    case MPITRACE_CALL_Status_get_source:
        return (void *)mt_later_get_source;
    case MPITRACE_CALL_Status_get_tag:
        return (void *)mt_later_get_tag;
    case MPITRACE_CALL_Status_get_error:
        return (void *)mt_later_get_error;
    case MPITRACE_CALL_Status_set_source:
        return (void *)mt_later_set_source;
    case MPITRACE_CALL_Status_set_tag:
        return (void *)mt_later_set_tag;
    case MPITRACE_CALL_Status_set_error:
        return (void *)mt_later_set_error;
    default:
        return NULL;
    }
}
