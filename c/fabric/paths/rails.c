/* rails.c: see rails.h. Cold. */
#define _GNU_SOURCE 1
#include "rails.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MT_PATTERN_BYTES = 2 * MT_FABRIC_NAME_BYTES };

static void mt_say_ports(const struct mt_fabric_options *options,
                         const char *pattern,
                         const struct mt_fabric_device *devices, uint32_t count)
{
    char names[800] = "";
    size_t used = 0;
    for (uint32_t d = 0; d < count; d++) {
        for (uint32_t p = 0; p < devices[d].port_count; p++) {
            const struct mt_fabric_port *port = &devices[d].ports[p];
            int n = snprintf(names + used, sizeof(names) - used, "%s%s%s",
                             used > 0 ? ", " : "", port->name,
                             port->up ? "" : " (down)");
            used += n > 0 ? (size_t)n : 0;
            used = used < sizeof(names) ? used : sizeof(names) - 1;
        }
    }
    const char *missing = mt_fabric_missing();
    mt_path_say(options->say, options->user,
                "no rail that is up is named %s; there are: %s%s%s", pattern,
                used > 0 ? names : "none", missing != NULL ? "; " : "",
                missing != NULL ? missing : "");
}

/* The device's context, opened when it is first wanted; NULL: status_p says. */
static struct mt_fabric_context *
mt_rails_context(struct mt_rails *rails, const struct mt_rails_options *options,
                 const char *device, struct mt_fabric_pd **pd_p,
                 enum mt_status *status_p)
{
    uint32_t i = 0;
    while (i < rails->context_count &&
           strcmp(mt_fabric_query(rails->contexts[i])->name, device) != 0) {
        i++;
    }
    *status_p = MT_OK;
    if (i == rails->context_count) {
        *status_p =
            mt_fabric_open(device, &options->fabric, &rails->contexts[i]);
        if (*status_p != MT_OK) {
            return NULL;
        }
        rails->context_count++;
        *status_p = mt_fabric_pd_create(rails->contexts[i], &rails->pds[i]);
        if (*status_p != MT_OK) {
            return NULL;
        }
    }
    *pd_p = rails->pds[i];
    return rails->contexts[i];
}

static enum mt_status mt_rail_add(struct mt_rails *rails,
                                  const struct mt_rails_options *options,
                                  const struct mt_fabric_device *device,
                                  const struct mt_fabric_port *port)
{
    enum mt_status status = MT_EINVAL;
    if (rails->count == MT_RAILS) {
        mt_path_say(options->fabric.say, options->fabric.user,
                    "more than %d rails", MT_RAILS);
        return MT_EINVAL;
    }
    struct mt_rail *rail = &rails->rails[rails->count];
    rail->context =
        mt_rails_context(rails, options, device->name, &rail->pd, &status);
    if (rail->context == NULL) {
        return status;
    }
    memcpy(rail->name, port->name, sizeof(rail->name));
    rail->caps = &mt_fabric_query(rail->context)->caps;
    rail->port = port->number;
    rails->count++; /* from here on close takes it down */
    status = mt_fabric_cq_create(rail->context, options->cq_depth, NULL,
                                 &rail->send_cq);
    return status != MT_OK
               ? status
               : mt_fabric_cq_create(rail->context, options->cq_depth, NULL,
                                     &rail->receive_cq);
}

static bool mt_rails_have(const struct mt_rails *rails, const char *name)
{
    for (uint32_t i = 0; i < rails->count; i++) {
        if (strcmp(rails->rails[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

/* The rails of one pattern. */
static enum mt_status mt_rails_match(struct mt_rails *rails,
                                     const struct mt_rails_options *options,
                                     const char *pattern,
                                     const struct mt_fabric_device *devices,
                                     uint32_t count)
{
    uint32_t per_port = options->per_port > 0 ? options->per_port : 1;
    enum mt_status status = MT_OK;
    bool any = false;
    for (uint32_t d = 0; d < count; d++) {
        for (uint32_t p = 0; p < devices[d].port_count; p++) {
            const struct mt_fabric_port *port = &devices[d].ports[p];
            bool named =
                port->up && (fnmatch(pattern, port->name, 0) == 0 ||
                             fnmatch(pattern, devices[d].name, 0) == 0);
            bool known = named && mt_rails_have(rails, port->name);
            any = any || named;
            for (uint32_t n = 0; named && !known && n < per_port; n++) {
                status = mt_rail_add(rails, options, &devices[d], port);
                if (status != MT_OK) {
                    return status;
                }
            }
        }
    }
    if (!any) {
        mt_say_ports(&options->fabric, pattern, devices, count);
        return MT_ENODEVICE;
    }
    return MT_OK;
}

enum mt_status mt_rails_open(const struct mt_rails_options *options,
                             struct mt_rails *rails)
{
    struct mt_fabric_device *devices = NULL;
    uint32_t count = 0;
    const char *at = options->patterns;
    memset(rails, 0, sizeof(*rails));
    enum mt_status status = mt_fabric_devices_all(&devices, &count);
    while (status == MT_OK && at != NULL) {
        char pattern[MT_PATTERN_BYTES];
        size_t n = strcspn(at, ",");
        snprintf(pattern, sizeof(pattern), "%.*s",
                 (int)(n < sizeof(pattern) ? n : sizeof(pattern) - 1), at);
        status = mt_rails_match(rails, options, pattern, devices, count);
        at = at[n] == ',' ? at + n + 1 : NULL;
    }
    free(devices);
    if (status == MT_OK && rails->count == 0) {
        status = MT_EINVAL;
    }
    if (status != MT_OK) {
        mt_rails_close(rails);
    }
    return status;
}

enum mt_status mt_rails_close(struct mt_rails *rails)
{
    enum mt_status status = MT_OK;
    while (rails->count > 0 && status == MT_OK) {
        struct mt_rail *rail = &rails->rails[rails->count - 1];
        if (rail->send_cq != NULL) {
            status = mt_fabric_cq_destroy(rail->send_cq);
            rail->send_cq = status == MT_OK ? NULL : rail->send_cq;
        }
        if (rail->receive_cq != NULL && status == MT_OK) {
            status = mt_fabric_cq_destroy(rail->receive_cq);
            rail->receive_cq = status == MT_OK ? NULL : rail->receive_cq;
        }
        rails->count -= status == MT_OK;
    }
    while (rails->context_count > 0 && status == MT_OK) {
        uint32_t i = rails->context_count - 1;
        if (rails->pds[i] != NULL) {
            status = mt_fabric_pd_destroy(rails->pds[i]);
        }
        if (status == MT_OK) {
            rails->pds[i] = NULL;
            status = mt_fabric_close(rails->contexts[i]);
        }
        rails->context_count -= status == MT_OK;
    }
    return status;
}
