/* act.c: where the shim enters the runtime: chooses the stand-ins for the ABI of
 * the job's MPI library. */
#include "../include/act.h"
#include "../include/segment.gen.h"

enum mt_status mt_openmpi_act_start(const struct mt_act_host *host,
                                    struct mt_act_functions *functions_p);
enum mt_status mt_mpich_act_start(const struct mt_act_host *host,
                                  struct mt_act_functions *functions_p);

__attribute__((visibility("default"))) enum mt_status
mt_act_start(const struct mt_act_host *host,
             struct mt_act_functions *functions_p)
{
    if (host->version != MT_ACT_VERSION ||
        (host->family != MPITRACE_MPI_FAMILY_OPENMPI &&
         host->family != MPITRACE_MPI_FAMILY_MPICH)) {
        return MT_EVERSION;
    }
    return host->family == MPITRACE_MPI_FAMILY_OPENMPI
               ? mt_openmpi_act_start(host, functions_p)
               : mt_mpich_act_start(host, functions_p);
}
