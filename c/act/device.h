/* device.h: which device of its node a rank takes: the one that the policy names,
 * or what reaches furthest.
 *
 * Must not: open it, or ask other ranks. */
#ifndef MPITRACE_ACT_DEVICE_H
#define MPITRACE_ACT_DEVICE_H

#include "../include/fabric.h"

/* How ranks reach each other, as bits: by what all of them have, best the higher one. */
enum mt_act_reach { MT_ACT_IWARP = 1, MT_ACT_VERBS = 2 };

enum { MT_ACT_INTERFACES = 16 };

/* The networks of a node's interfaces, for iWARP; those behind are without bits. */
struct mt_act_networks {
    struct {
        uint64_t bits_per_second; /* 0: not known */
        struct mt_fabric_network network;
    } of[MT_ACT_INTERFACES];
};

/* What this node has between machines, of devices with a port that is up. */
struct mt_act_devices {
    uint32_t reach; /* the kinds that it has, of enum mt_act_reach */
    char verbs[MT_FABRIC_NAME_BYTES]; /* the first; "": there is none */
    uint32_t interfaces; /* the first few */
    struct mt_act_interface {
        char device[MT_FABRIC_NAME_BYTES];
        uint64_t bits_per_second; /* of the slowest in its network, 0: one's is not known */
        uint32_t ranks; /* of other machines that have an interface in its network */
        bool elsewhere; /* another machine has its address: a bridge of containers, say */
    } interface[MT_ACT_INTERFACES];
    struct mt_act_networks networks;
};

void mt_act_devices_find(struct mt_act_devices *devices_p);
/* Counts a rank of another machine in. */
void mt_act_devices_meet(struct mt_act_devices *devices,
                         const struct mt_act_networks *other);
/* The device of the best of these kinds; NULL: there is none. Of interfaces the one by
 * which most ranks of other machines are reached, of several the one in the fastest
 * network, else in that of the lowest number, so that all take the same; where no
 * network is common to them, the first whose address nobody else has, for there may be
 * routes. */
const char *mt_act_devices_best(const struct mt_act_devices *devices,
                                uint32_t reach);

/* The first device with a port that is up and a name that fits the first of the
 * names, or else the second, and so on: devices or ports, perhaps with * ? [ ],
 * with '+' between them. None fits: the first of the names, which whoever opens
 * it will miss. */
void mt_act_device_named(const char *names, size_t bytes,
                         char device_p[MT_FABRIC_NAME_BYTES]);

#endif
