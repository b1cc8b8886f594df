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

/* The loopback ends at this machine. */
static enum mt_act_reach reach_of(const struct mt_fabric_device *d)
{
    return strcmp(d->provider, "verbs") == 0 ? MT_ACT_VERBS
           : strcmp(d->provider, "iwarp") == 0 &&
                   strcmp(d->name, "iwarp:lo") != 0
               ? MT_ACT_IWARP
               : MT_ACT_NOWHERE;
}

static void add_interface(struct mt_act_devices *devices,
                          const struct mt_fabric_device *d)
{
    if (devices->interfaces < MT_ACT_INTERFACES) {
        uint32_t at = devices->interfaces++;
        struct mt_act_interface *i = &devices->interface[at];
        memcpy(i->device, d->name, sizeof(i->device));
        i->bits_per_second = d->ports[0].bits_per_second;
        devices->networks.of[at] = d->ports[0].network;
    }
}

void mt_act_devices_find(struct mt_act_devices *devices_p)
{
    struct mt_fabric_device *all;
    uint32_t count = list(&all);
    memset(devices_p, 0, sizeof(*devices_p));
    for (uint32_t i = 0; i < count; i++) {
        enum mt_act_reach reach = up(&all[i]) ? reach_of(&all[i]) : MT_ACT_NOWHERE;
        devices_p->reach = reach > devices_p->reach ? reach : devices_p->reach;
        if (reach == MT_ACT_IWARP) {
            add_interface(devices_p, &all[i]);
        } else if (reach == MT_ACT_VERBS && devices_p->verbs[0] == '\0') {
            memcpy(devices_p->verbs, all[i].name, sizeof(devices_p->verbs));
        }
    }
    free(all);
}

/* Whether the first bits of two addresses are the same. */
static bool alike(const uint8_t a[16], const uint8_t b[16], uint32_t bits)
{
    uint32_t whole = bits / 8, rest = bits % 8;
    return memcmp(a, b, whole) == 0 &&
           (rest == 0 || (a[whole] ^ b[whole]) >> (8 - rest) == 0);
}

void mt_act_devices_meet(struct mt_act_devices *devices,
                         const struct mt_act_networks *other)
{
    for (uint32_t i = 0; i < devices->interfaces; i++) {
        const struct mt_fabric_network *mine = &devices->networks.of[i];
        bool common = false;
        for (uint32_t k = 0; k < MT_ACT_INTERFACES && mine->bits != 0; k++) {
            const struct mt_fabric_network *its = &other->of[k];
            bool network = its->bits == mine->bits &&
                           alike(its->address, mine->address, mine->bits);
            bool address = network && alike(its->address, mine->address, 128);
            common = common || network;
            devices->interface[i].elsewhere |= address;
        }
        devices->interface[i].ranks += common;
    }
}

const char *mt_act_devices_best(const struct mt_act_devices *devices,
                                enum mt_act_reach reach)
{
    const struct mt_act_interface *best = NULL;
    if (reach == MT_ACT_VERBS) {
        return devices->verbs[0] != '\0' ? devices->verbs : NULL;
    }
    for (uint32_t n = 0; n < devices->interfaces; n++) {
        const struct mt_act_interface *i = &devices->interface[n];
        if (best == NULL ||
            (best->elsewhere != i->elsewhere ? best->elsewhere
             : best->ranks != i->ranks
                 ? i->ranks > best->ranks
                 : i->bits_per_second > best->bits_per_second && i->ranks > 0)) {
            best = i;
        }
    }
    return best != NULL ? best->device : NULL;
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
        char pattern[MT_FABRIC_NAME_BYTES]; /* no name that fits is longer */
        const char *plus = memchr(names, '+', (size_t)(end - names));
        const char *stop = plus != NULL ? plus : end;
        snprintf(pattern, sizeof(pattern), "%.*s", (int)(stop - names), names);
        uint32_t i = 0;
        while (i < count && !fits(pattern, &devices[i])) {
            i++;
        }
        if (i < count) {
            memcpy(device_p, devices[i].name, MT_FABRIC_NAME_BYTES);
            break;
        }
        if (device_p[0] == '\0') {
            memcpy(device_p, pattern, sizeof(pattern));
        }
        names = stop + 1;
    }
    free(devices);
}
