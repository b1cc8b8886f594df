/* device.c: see device.h. Cold. */
#include "device.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Without memory there are none. */
static uint32_t list(struct mt_fabric_device **devices_p)
{
    uint32_t count = 0;
    *devices_p = NULL;
    return mt_fabric_devices_all(devices_p, &count) == MT_OK ? count : 0;
}

static bool up(const struct mt_fabric_device *device)
{
    bool any = false;
    for (uint32_t p = 0; p < device->port_count; p++) {
        any = any || device->ports[p].up;
    }
    return any;
}

/* 0: it reaches nobody. The loopback ends at this machine. */
static uint32_t reach_of(const struct mt_fabric_device *d)
{
    if (!up(d) || strcmp(d->name, "iwarp:lo") == 0) {
        return 0;
    }
    return strcmp(d->provider, "verbs") == 0   ? MT_ACT_VERBS
           : strcmp(d->provider, "iwarp") == 0 ? MT_ACT_IWARP
                                               : 0;
}

static void add_interface(struct mt_act_devices *devices,
                          const struct mt_fabric_device *d)
{
    if (devices->interfaces < MT_ACT_INTERFACES) {
        uint32_t at = devices->interfaces++;
        struct mt_act_interface *i = &devices->interface[at];
        memcpy(i->device, d->name, sizeof(i->device));
        i->bits_per_second = d->ports[0].bits_per_second;
        devices->networks.of[at].bits_per_second = i->bits_per_second;
        devices->networks.of[at].network = d->ports[0].network;
    }
}

void mt_act_devices_find(struct mt_act_devices *devices_p)
{
    struct mt_fabric_device *all;
    uint32_t count = list(&all);
    memset(devices_p, 0, sizeof(*devices_p));
    for (uint32_t i = 0; i < count; i++) {
        uint32_t reach = reach_of(&all[i]);
        devices_p->reach |= reach;
        if (reach == MT_ACT_IWARP) {
            add_interface(devices_p, &all[i]);
        } else if (reach == MT_ACT_VERBS && devices_p->verbs[0] == '\0') {
            memcpy(devices_p->verbs, all[i].name, sizeof(devices_p->verbs));
        }
    }
    free(all);
}

/* Order of two addresses by their first bits; 0: these are the same. */
static int compare(const struct mt_fabric_network *a,
                   const struct mt_fabric_network *b, uint32_t bits)
{
    uint32_t whole = bits / 8, rest = bits % 8;
    int order = memcmp(a->address, b->address, whole);
    return order != 0 || rest == 0
               ? order
               : (a->address[whole] >> (8 - rest)) -
                     (b->address[whole] >> (8 - rest));
}

void mt_act_devices_meet(struct mt_act_devices *devices,
                         const struct mt_act_networks *other)
{
    for (uint32_t n = 0; n < devices->interfaces; n++) {
        struct mt_act_interface *i = &devices->interface[n];
        const struct mt_fabric_network *mine = &devices->networks.of[n].network;
        bool common = false;
        for (uint32_t k = 0; k < MT_ACT_INTERFACES && mine->bits != 0; k++) {
            const struct mt_fabric_network *its = &other->of[k].network;
            if (its->bits == mine->bits && compare(its, mine, mine->bits) == 0) {
                uint64_t speed = other->of[k].bits_per_second;
                i->bits_per_second =
                    speed < i->bits_per_second ? speed : i->bits_per_second;
                i->elsewhere |= compare(its, mine, 128) == 0;
                common = true;
            }
        }
        i->ranks += common;
    }
}

/* How good an address is, whoever it leads to. */
static int standing(const struct mt_act_devices *devices, uint32_t n)
{
    return devices->networks.of[n].network.bits == 0 ? 0
           : devices->interface[n].elsewhere         ? 1
                                                     : 2;
}

static bool better(const struct mt_act_devices *devices, uint32_t n, uint32_t best)
{
    const struct mt_act_interface *a = &devices->interface[n];
    const struct mt_act_interface *b = &devices->interface[best];
    const struct mt_fabric_network *net = &devices->networks.of[n].network;
    const struct mt_fabric_network *of = &devices->networks.of[best].network;
    int by = standing(devices, n) - standing(devices, best);
    if (by != 0 || a->ranks != b->ranks) {
        return by != 0 ? by > 0 : a->ranks > b->ranks;
    }
    if (a->ranks == 0 || a->bits_per_second != b->bits_per_second) {
        return a->ranks > 0 && a->bits_per_second > b->bits_per_second;
    }
    by = compare(net, of, net->bits < of->bits ? net->bits : of->bits);
    return by != 0 ? by < 0 : net->bits < of->bits;
}

const char *mt_act_devices_best(const struct mt_act_devices *devices,
                                uint32_t reach)
{
    uint32_t best = 0;
    if ((reach & devices->reach & MT_ACT_VERBS) != 0) {
        return devices->verbs;
    }
    for (uint32_t n = 1; n < devices->interfaces; n++) {
        best = better(devices, n, best) ? n : best;
    }
    return (reach & devices->reach & MT_ACT_IWARP) != 0
               ? devices->interface[best].device
               : NULL;
}

static bool fits(const char *pattern, const struct mt_fabric_device *device)
{
    bool named = fnmatch(pattern, device->name, 0) == 0;
    for (uint32_t p = 0; p < device->port_count; p++) {
        named = named || fnmatch(pattern, device->ports[p].name, 0) == 0;
    }
    return named && up(device);
}

void mt_act_device_named(const char *names, size_t bytes,
                         char device_p[MT_FABRIC_NAME_BYTES])
{
    struct mt_fabric_device *devices;
    uint32_t count = list(&devices);
    const char *end = names + bytes;
    device_p[0] = '\0';
    while (names < end) {
        const char *plus = memchr(names, '+', (size_t)(end - names));
        const char *stop = plus != NULL ? plus : end;
        char *pattern = strndup(names, (size_t)(stop - names));
        uint32_t i = pattern != NULL ? 0 : count;
        while (i < count && !fits(pattern, &devices[i])) {
            i++;
        }
        if (device_p[0] == '\0') { /* what was asked for, if there is none */
            snprintf(device_p, MT_FABRIC_NAME_BYTES, "%s",
                     pattern != NULL ? pattern : "");
        }
        free(pattern);
        if (i < count) {
            memcpy(device_p, devices[i].name, MT_FABRIC_NAME_BYTES);
            break;
        }
        names = stop + 1;
    }
    free(devices);
}
