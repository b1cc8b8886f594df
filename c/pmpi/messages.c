/* messages.c: matched probes. MPI_Mprobe names the communicator, MPI_Mrecv does
 * not, and the program may have freed it in between: a small table carries its record
 * from one to the other; and the number of the receive in a trace, for it is the probe
 * that takes the message out of the order of its stream (MPI 4.1, 3.8.2). */
#include "state.h"

enum { MT_MESSAGE_SLOTS = 1024 };

static uint64_t mt_message_handles[MT_MESSAGE_SLOTS]; /* 0: free */
static struct mt_matched mt_message_found[MT_MESSAGE_SLOTS];

/* Behind the probe, while the communicator is there. */
void mt_message_put(uint64_t message, uint64_t comm, uint32_t serial)
{
    struct mt_comm *record = mt_registry_comm(comm);
    mt_cold_lock();
    for (int i = 0; i < MT_MESSAGE_SLOTS; i++) {
        if (mt_message_handles[i] == 0) {
            mt_message_handles[i] = message;
            mt_message_found[i] = (struct mt_matched){record, serial};
            break;
        }
    }
    mt_cold_unlock();
}

/* Before the receive, behind which the library may give the handle out again. */
struct mt_matched mt_message_take(uint64_t message)
{
    struct mt_matched found = {.comm = NULL};
    mt_cold_lock();
    for (int i = 0; i < MT_MESSAGE_SLOTS && message != 0; i++) {
        if (mt_message_handles[i] == message) {
            found = mt_message_found[i];
            mt_message_handles[i] = 0;
            break;
        }
    }
    mt_cold_unlock();
    if (found.comm == NULL) {
        found.comm = mt_registry_comm(0);
    }
    return found;
}
