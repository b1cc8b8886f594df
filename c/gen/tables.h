/* tables.h: what the generated files define (entries.gen.S, names.gen.c). */
#ifndef MPITRACE_GEN_TABLES_H
#define MPITRACE_GEN_TABLES_H

#include "../include/calls.gen.h"

#include <stdint.h>

/* Where the exported MPI_x and PMPI_x jump to; 0: attach first. */
extern void *mt_slots_mpi[MPITRACE_CALL_LIMIT];
extern void *mt_slots_pmpi[MPITRACE_CALL_LIMIT];

/* Wrappers by id as offsets from mt_table_origin, 0 where an id is not in
 * use; offsets, so that loading the library needs no relocation for them. */
extern const char mt_table_origin[];
extern const int32_t mt_table_openmpi[MPITRACE_CALL_LIMIT];
extern const int32_t mt_table_mpich[MPITRACE_CALL_LIMIT];
/* Notes that a call came by its PMPI_ name, then goes to mt_slots_mpi. */
extern const int32_t mt_table_pmpi_mark[MPITRACE_CALL_LIMIT];

/* "MPI_Send" of an id, "" if it is not in use. */
const char *mt_call_name(uint32_t id);
/* True if the name is in spec/mpi.json, intercepted or knowingly not. */
int mt_call_known(const char *name);

#endif
