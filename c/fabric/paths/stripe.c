/* stripe.c: see stripe.h. */
#include "stripe.h"

uint32_t mt_stripe_plan(uint64_t bytes, uint32_t rails, uint64_t threshold,
                        uint64_t number, struct mt_stripe_part parts[MT_RAILS])
{
    uint32_t count = 0;
    if (bytes <= threshold || rails == 1) {
        parts[0] = (struct mt_stripe_part){.rail = (uint32_t)(number % rails),
                                           .bytes = bytes};
        return 1;
    }
    uint64_t chunk = (bytes + rails - 1) / rails;
    chunk = (chunk + MT_STRIPE_ALIGN - 1) / MT_STRIPE_ALIGN * MT_STRIPE_ALIGN;
    for (uint64_t at = 0; at < bytes; at += chunk) {
        uint64_t left = bytes - at;
        parts[count] = (struct mt_stripe_part){
            .rail = count, .offset = at, .bytes = left < chunk ? left : chunk};
        count++;
    }
    return count;
}

enum mt_status mt_stripe_continue(struct mt_stripe *stripe,
                                  struct mt_stripe_message *m,
                                  const struct mt_stripe_memory *from,
                                  const struct mt_stripe_remote *to)
{
    while (m->posted < m->part_count) {
        const struct mt_stripe_part *part = &m->parts[m->posted];
        struct mt_fabric_piece piece = {.address = from->address + part->offset,
                                        .bytes = (uint32_t)part->bytes,
                                        .lkey = from->lkeys[part->rail]};
        struct mt_put_work work = {.value = (uintptr_t)m,
                                   .flags = MT_FABRIC_SIGNALED,
                                   .piece_count = 1,
                                   .pieces = &piece,
                                   .remote_address = to->address + part->offset,
                                   .rkey = to->rkeys[part->rail]};
        m->pending++; /* before it can complete */
        enum mt_status status = mt_put_post(&stripe->puts[part->rail], &work);
        if (status != MT_OK) {
            m->pending--;
            return status;
        }
        m->posted++;
    }
    return MT_OK;
}

enum mt_status mt_stripe_put(struct mt_stripe *stripe,
                             struct mt_stripe_message *m,
                             const struct mt_stripe_memory *from,
                             const struct mt_stripe_remote *to, uint64_t bytes)
{
    if (bytes > UINT32_MAX) {
        return MT_EINVAL;
    }
    *m = (struct mt_stripe_message){0};
    m->part_count = mt_stripe_plan(bytes, stripe->rails, stripe->threshold,
                                   stripe->messages++, m->parts);
    return mt_stripe_continue(stripe, m, from, to);
}

enum mt_status mt_stripe_flush(struct mt_stripe *stripe)
{
    enum mt_status first = MT_OK;
    for (uint32_t i = 0; i < stripe->rails; i++) {
        enum mt_status status = mt_put_flush(&stripe->puts[i]);
        first = first == MT_OK ? status : first;
    }
    return first;
}

void mt_stripe_done(const struct mt_fabric_completion *c)
{
    struct mt_stripe_message *m =
        (struct mt_stripe_message *)(uintptr_t)mt_path_value(c->id);
    m->status = m->status == MT_OK ? c->status : m->status;
    m->pending -= mt_path_kind(c->id) == MT_PATH_PUT;
}

void mt_stripe_expect(struct mt_stripe_target *target, uint64_t bytes,
                      struct mt_stripe_arrival *arrival)
{
    struct mt_stripe_part parts[MT_RAILS];
    arrival->count = mt_stripe_plan(bytes, target->rails, target->threshold,
                                    target->messages++, parts);
    for (uint32_t i = 0; i < arrival->count; i++) {
        uint32_t rail = parts[i].rail;
        arrival->notices[i].rail = rail;
        arrival->notices[i].sequence = ++target->expected[rail];
    }
}

bool mt_stripe_test(const struct mt_stripe_target *target,
                    const struct mt_stripe_arrival *arrival)
{
    for (uint32_t i = 0; i < arrival->count; i++) {
        if (!mt_put_target_test(&target->targets[arrival->notices[i].rail],
                                arrival->notices[i].sequence)) {
            return false;
        }
    }
    return true;
}
