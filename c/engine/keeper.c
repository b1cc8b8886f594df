/* keeper.c: registrations of payload that are somebody else's, who keeps them
 * from message to message (engine.h). */
#include "inside.h"

void mt_engine_keep(struct mt_engine *engine,
                    const struct mt_engine_keeper *keeper)
{
    mt_engine_lock(engine);
    engine->keeper =
        keeper != NULL ? *keeper : (struct mt_engine_keeper){.get = NULL};
    if (engine->eager != NULL) {
        mt_eager_keeper(engine);
    }
    mt_engine_unlock(engine);
}

bool mt_transfer_borrow(struct mt_engine_transfer *t, uint64_t bytes)
{
    const struct mt_engine_keeper *keeper =
        &t->request->context->engine->keeper;
    void *address = t->request->buffer.address;
    struct mt_engine_kept kept;
    if (keeper->get == NULL ||
        !keeper->get(keeper->user, address, bytes, &kept)) {
        return false;
    }
    t->kept = kept.reference;
    t->kept_mr = (struct mt_fabric_mr){.address = address,
                                       .bytes = bytes,
                                       .lkey = kept.lkey,
                                       .rkey = kept.rkey};
    t->mr = &t->kept_mr;
    return true;
}

void mt_transfer_unregister(struct mt_engine_transfer *t)
{
    const struct mt_engine_keeper *keeper =
        &t->request->context->engine->keeper;
    if (t->mr == &t->kept_mr) {
        if (t->kept != NULL) {
            keeper->put(keeper->user, t->kept);
        }
    } else if (t->mr != NULL) {
        mt_fabric_mr_destroy(t->mr);
    }
    t->mr = NULL;
}
