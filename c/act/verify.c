/* verify.c: what is said and done when a message is not what was sent. */
#include <stdio.h>
#include <time.h>

#include "act.h"

static const char *way_name(enum mt_engine_way way)
{
    static const char *const names[MT_ENGINE_WAYS] = {
        "", "eager", "read", "write", "fragments"};
    return names[way];
}

void mt_act_wrong(const struct mt_act_operation *operation)
{
    const struct mt_engine_request *e = &operation->engine;
    const struct mt_act_comm *comm = operation->comm;
    char name[256] = "a communicator that was freed", text[640];
    int length = 0;
    if (__atomic_exchange_n(&mt_act.wrong_said, 1, __ATOMIC_RELAXED) != 0) {
        return;
    }
    if (!comm->freed) {
        snprintf(name, sizeof(name), "a communicator of %d", (int)comm->size);
        char given[256]; /* MPI_MAX_OBJECT_NAME is 64 or 128 */
        if (MT_PMPI(Comm_get_name)(comm->handle, given, &length) ==
                MT_SUCCESS &&
            length > 0) {
            snprintf(name, sizeof(name), "%s", given);
        }
    }
    snprintf(text, sizeof(text),
             "rank %u: a message arrived in %s that is not what was sent: from "
             "rank %d of %s, tag %d, %llu bytes, by %s: %s",
             mt_act.host->world_rank, mt_act.host->call(), (int)e->source, name,
             (int)e->tag, (unsigned long long)e->bytes, way_name(e->wrong),
             mt_act.verify_stops
                 ? "the job is ended (verify_action=stop)"
             : e->wrong == MT_ENGINE_FRAGMENTS
                 ? "its sender has no other way to this rank, and goes on "
                   "(verify_action=quarantine)"
                 : "its sender takes that way to this rank no more "
                   "(verify_action=quarantine)");
    mt_act.host->say(mt_act.verify_stops ? MT_ACT_LAST : MT_ACT_ANY_RANK, text);
    if (mt_act.verify_stops) {
        /* Hydra drops what it has not read by the abort */
        nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
        MT_PMPI(Abort)(MT_COMM_WORLD, 1);
    }
}
