/* reads.c: see reads.h. */
#include "reads.h"

enum mt_status mt_reads_open(struct mt_reads *reads, struct mt_fabric_qp *qp,
                             uint32_t limit)
{
    *reads = (struct mt_reads){.qp = qp, .tokens = limit, .limit = limit};
    reads->last = &reads->first;
    return limit > 0 ? MT_OK : MT_EINVAL;
}

static enum mt_status mt_read_begin(struct mt_reads *reads,
                                    const struct mt_read *read)
{
    struct mt_fabric_send work = {.id =
                                      mt_path_id(MT_PATH_READ, (uintptr_t)read),
                                  .opcode = MT_FABRIC_READ,
                                  .flags = read->flags | MT_FABRIC_SIGNALED,
                                  .piece_count = 1,
                                  .pieces = &read->piece,
                                  .remote_address = read->remote_address,
                                  .rkey = read->rkey};
    enum mt_status status = mt_fabric_post_send(reads->qp, &work);
    reads->tokens -= status == MT_OK;
    return status;
}

struct mt_read *mt_reads_take(struct mt_reads *reads)
{
    struct mt_read *read = reads->first;
    reads->waiting--;
    reads->first = read->next;
    if (reads->first == NULL) {
        reads->last = &reads->first;
    }
    return read;
}

enum mt_status mt_reads_flush(struct mt_reads *reads)
{
    while (reads->first != NULL && reads->tokens > 0) {
        enum mt_status status = mt_read_begin(reads, reads->first);
        if (status != MT_OK) {
            return status;
        }
        mt_reads_take(reads);
    }
    return reads->first == NULL ? MT_OK : MT_EAGAIN;
}

enum mt_status mt_reads_post(struct mt_reads *reads, struct mt_read *read)
{
    enum mt_status status = mt_reads_flush(reads);
    if (status == MT_OK && reads->tokens > 0) {
        status = mt_read_begin(reads, read);
    } else if (status == MT_OK) {
        status = MT_EAGAIN;
    }
    if (status != MT_EAGAIN) {
        return status;
    }
    read->next = NULL;
    *reads->last = read;
    reads->last = &read->next;
    reads->waiting++;
    return MT_OK;
}

struct mt_read *mt_reads_done(struct mt_reads *reads,
                              const struct mt_fabric_completion *c)
{
    reads->tokens++;
    mt_reads_flush(reads); /* what cannot begin now stays where it is */
    return (struct mt_read *)(uintptr_t)mt_path_value(c->id);
}
