/* bare_device.h: what a device of a test's own has not, for tests of the engine over
 * one: datagrams (in place of c/engine/connect.c), for peers are connected from the
 * beginning, and memory that peers map, so that all is posted. */
#ifndef MPITRACE_TEST_BARE_DEVICE_H
#define MPITRACE_TEST_BARE_DEVICE_H

#include <stdio.h>
#include <stdlib.h>

#include "../engine/inside.h"

void *mt_fabric_remote_pointer(const struct mt_fabric_qp *qp, uint64_t address,
                               uint32_t rkey, uint64_t bytes)
{
    (void)qp, (void)address, (void)rkey, (void)bytes;
    return NULL;
}

static void no_datagrams(void)
{
    printf("datagrams where there are none\n");
    exit(1);
}

enum mt_status mt_connect_reserve(struct mt_engine_peer *peer, void **place_p)
{
    (void)peer, (void)place_p;
    no_datagrams();
    return MT_ENOTSUP;
}

enum mt_status mt_connect_commit(struct mt_engine_peer *peer, uint32_t count,
                                 uint32_t flags)
{
    (void)peer, (void)count, (void)flags;
    no_datagrams();
    return MT_ENOTSUP;
}

enum mt_status mt_connect_heard(struct mt_engine_peer *peer,
                                const struct mt_wire_message *message)
{
    (void)peer, (void)message;
    no_datagrams();
    return MT_ENOTSUP;
}

void mt_connect_completion(struct mt_engine *engine,
                           const struct mt_fabric_completion *c)
{
    (void)engine, (void)c;
    no_datagrams();
}

bool mt_connect_serve(struct mt_engine_peer *peer)
{
    (void)peer;
    no_datagrams();
    return false;
}

void mt_connect_end(struct mt_engine_peer *peer)
{
    (void)peer;
    no_datagrams();
}

#endif
