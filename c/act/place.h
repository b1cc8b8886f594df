/* place.h: the names that a place in the program goes by. It knows no MPI. */
#ifndef MPITRACE_ACT_PLACE_H
#define MPITRACE_ACT_PLACE_H

#include <stdint.h>

enum { MT_PLACE_BYTES = 512 }; /* longer names are cut */

struct mt_place {
    char offset[MT_PLACE_BYTES];   /* libsolver.so+0x4a10 */
    char function[MT_PLACE_BYTES]; /* as the symbol table of its file has it */
};

/* Names of the call that returns to an address. What is not known is "". Opens
 * files and takes memory: once for each place. */
void mt_place_find(uint64_t address, struct mt_place *place_p);

#endif
