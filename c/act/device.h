/* device.h: which device of its node a rank takes: the one that the policy names,
 * or what reaches furthest.
 *
 * Must not: open it, or ask other ranks. */
#ifndef MPITRACE_ACT_DEVICE_H
#define MPITRACE_ACT_DEVICE_H

#include "../include/fabric.h"

/* How ranks reach each other: by what all of them have. */
enum mt_act_reach { MT_ACT_NOWHERE, MT_ACT_IWARP, MT_ACT_VERBS };

/* Names of devices, the first of each kind; "": there is none. */
typedef char mt_act_devices[MT_ACT_VERBS + 1][MT_FABRIC_NAME_BYTES];

/* The best kind that this node has between machines, of devices with a port that
 * is up. */
enum mt_act_reach mt_act_reach(mt_act_devices names_p);

/* The first device with a port that is up and a name that fits the first of the
 * names, or else the second, and so on: devices or ports, perhaps with * ? [ ],
 * with '+' between them. None fits: the first of the names, which whoever opens
 * it will miss. */
void mt_act_device_named(const char *names, size_t bytes,
                         char device_p[MT_FABRIC_NAME_BYTES]);

#endif
