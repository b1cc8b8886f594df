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

enum mt_act_reach mt_act_reach(mt_act_devices names_p)
{
    struct mt_fabric_device *devices;
    uint32_t count = list(&devices);
    enum mt_act_reach best = MT_ACT_NOWHERE;
    memset(names_p, 0, sizeof(mt_act_devices));
    for (uint32_t i = 0; i < count; i++) {
        const struct mt_fabric_device *d = &devices[i];
        enum mt_act_reach reach =
            strcmp(d->provider, "verbs") == 0   ? MT_ACT_VERBS
            : strcmp(d->provider, "iwarp") == 0 &&
                    strcmp(d->name, "iwarp:lo") != 0
                ? MT_ACT_IWARP
                : MT_ACT_NOWHERE; /* the loopback ends at this machine */
        if (up(d) && names_p[reach][0] == '\0') {
            best = reach > best ? reach : best;
            memcpy(names_p[reach], d->name, MT_FABRIC_NAME_BYTES);
        }
    }
    free(devices);
    return best;
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
