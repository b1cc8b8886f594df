/* messages.c: matched probes. MPI_Mprobe names the communicator, MPI_Mrecv does
 * not, and the program may have freed it in between: a small table carries its record
 * from one to the other. */
#include "state.h"

enum { MT_MESSAGE_SLOTS = 1024 };

static uint64_t mt_message_handles[MT_MESSAGE_SLOTS]; /* 0: free */
static struct mt_comm *mt_message_comms[MT_MESSAGE_SLOTS];

/* Behind the probe, while the communicator is there. */
void mt_message_put(uint64_t message, uint64_t comm)
{
    struct mt_comm *record = mt_registry_comm(comm);
    mt_cold_lock();
    for (int i = 0; i < MT_MESSAGE_SLOTS; i++) {
        if (mt_message_handles[i] == 0) {
            mt_message_handles[i] = message;
            mt_message_comms[i] = record;
            break;
        }
    }
    mt_cold_unlock();
}

/* Before the receive, behind which the library may give the handle out again. */
struct mt_comm *mt_message_take(uint64_t message)
{
    struct mt_comm *record = NULL;
    mt_cold_lock();
    for (int i = 0; i < MT_MESSAGE_SLOTS && message != 0; i++) {
        if (mt_message_handles[i] == message) {
            record = mt_message_comms[i];
            mt_message_handles[i] = 0;
            break;
        }
    }
    mt_cold_unlock();
    return record != NULL ? record : mt_registry_comm(0);
}
