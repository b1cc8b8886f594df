/* messages.c: matched probes. MPI_Mprobe names the communicator, MPI_Mrecv does
 * not: a small table carries it from one to the other. */
#include "state.h"

enum { MT_MESSAGE_SLOTS = 1024 };

static uint64_t mt_message_handles[MT_MESSAGE_SLOTS];
static uint64_t mt_message_comms[MT_MESSAGE_SLOTS];

void mt_message_put(uint64_t message, uint64_t comm)
{
    mt_cold_lock();
    for (int i = 0; i < MT_MESSAGE_SLOTS; i++) {
        if (mt_message_handles[i] == 0) {
            mt_message_handles[i] = message;
            mt_message_comms[i] = comm;
            break;
        }
    }
    mt_cold_unlock();
}

/* The communicator of a message, 0 if it was not kept. */
uint64_t mt_message_take(uint64_t message)
{
    uint64_t comm = 0;
    mt_cold_lock();
    for (int i = 0; i < MT_MESSAGE_SLOTS && message != 0; i++) {
        if (mt_message_handles[i] == message) {
            comm = mt_message_comms[i];
            mt_message_handles[i] = 0;
            break;
        }
    }
    mt_cold_unlock();
    return comm;
}
