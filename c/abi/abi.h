/* abi.h: what differs between the MPI ABIs, for the one that this file is
 * compiled for (MT_ABI_OPENMPI or MT_ABI_MPICH defined as 1). No mpi.h is
 * needed; c/test/mpi_abi.c compares every fact with each installed mpi.h.
 * Holds types, constants and the layout of MPI_Status; no function of MPI. */
#ifndef MPITRACE_ABI_H
#define MPITRACE_ABI_H

#include <stdint.h>

typedef intptr_t MT_Aint;
typedef int64_t MT_Count;
typedef int64_t MT_Offset;
typedef int MT_Fint;
typedef void *MT_File;

#if MT_ABI_OPENMPI
#include "openmpi.h"
#elif MT_ABI_MPICH
#include "mpich.h"
#else
#error "define MT_ABI_OPENMPI or MT_ABI_MPICH as 1"
#endif

#define MT_SUCCESS 0
#define MT_UNDEFINED (-32766)
#define MT_THREAD_MULTIPLE 3
#define MT_ANY_TAG (-1)
#define MT_ERR_BUFFER 1

/* Combiners have the same order in both, from another beginning. */
enum mt_combiner {
    MT_COMBINER_NAMED = MT_COMBINER_FIRST,
    MT_COMBINER_DUP,
    MT_COMBINER_CONTIGUOUS,
    MT_COMBINER_VECTOR,
    MT_COMBINER_HVECTOR_INTEGER,
    MT_COMBINER_HVECTOR,
    MT_COMBINER_INDEXED,
    MT_COMBINER_HINDEXED_INTEGER,
    MT_COMBINER_HINDEXED,
    MT_COMBINER_INDEXED_BLOCK,
    MT_COMBINER_STRUCT_INTEGER,
    MT_COMBINER_STRUCT,
    MT_COMBINER_SUBARRAY,
    MT_COMBINER_DARRAY,
    MT_COMBINER_F90_REAL,
    MT_COMBINER_F90_COMPLEX,
    MT_COMBINER_F90_INTEGER,
    MT_COMBINER_RESIZED,
    MT_COMBINER_HINDEXED_BLOCK,
};

#endif
