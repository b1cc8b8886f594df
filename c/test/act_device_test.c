/* sources: c/act/device.c */
/* Which device of a node a rank takes, by the policy's names or without any. */
#include "../act/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

enum { INTERFACES = 100 };

static struct mt_fabric_device there[INTERFACES + 8];
static uint32_t there_count;

enum mt_status mt_fabric_devices_all(struct mt_fabric_device **devices_p,
                                     uint32_t *count_p)
{
    *devices_p = malloc(sizeof(there));
    CHECK(*devices_p != NULL);
    memcpy(*devices_p, there, sizeof(there));
    *count_p = there_count;
    return MT_OK;
}

/* A device with one port for each character of ports: u up, d down. */
static void add(const char *provider, const char *name, const char *ports)
{
    struct mt_fabric_device *d = &there[there_count++];
    memset(d, 0, sizeof(*d));
    snprintf(d->provider, sizeof(d->provider), "%s", provider);
    snprintf(d->name, sizeof(d->name), "%s", name);
    for (; ports[d->port_count] != '\0'; d->port_count++) {
        struct mt_fabric_port *port = &d->ports[d->port_count];
        port->up = ports[d->port_count] == 'u';
        snprintf(port->name, sizeof(port->name), "%s:%u", name,
                 d->port_count + 1);
    }
}

static void named(const char *names, const char *expected)
{
    char device[MT_FABRIC_NAME_BYTES], text[256];
    /* as in the lines of a policy: something follows */
    snprintf(text, sizeof(text), "%s+shm\n", names);
    mt_act_device_named(text, strlen(names), device);
    if (strcmp(device, expected) != 0) {
        printf("%s: %s, not %s\n", names, device, expected);
        CHECK(false);
    }
}

int main(void)
{
    mt_act_devices names;
    CHECK(mt_act_reach(names) == MT_ACT_NOWHERE);
    named("mlx5_*", "mlx5_*"); /* there is nothing at all */
    add("shm", "shm", "u");
    add("iwarp", "iwarp:lo", "u");
    CHECK(mt_act_reach(names) == MT_ACT_NOWHERE); /* the loopback reaches nobody */
    add("iwarp", "iwarp:eth0", "d");
    add("iwarp", "iwarp:eth1", "u");
    CHECK(mt_act_reach(names) == MT_ACT_IWARP);
    CHECK(strcmp(names[MT_ACT_IWARP], "iwarp:eth1") == 0);
    add("verbs", "mlx4_0", "dd");
    add("verbs", "mlx4_1", "");
    CHECK(mt_act_reach(names) == MT_ACT_IWARP);
    add("verbs", "mlx5_0", "du"); /* any port will do */
    CHECK(mt_act_reach(names) == MT_ACT_VERBS);
    CHECK(strcmp(names[MT_ACT_VERBS], "mlx5_0") == 0);
    add("verbs", "mlx5_1", "u");
    CHECK(mt_act_reach(names) == MT_ACT_VERBS);
    CHECK(strcmp(names[MT_ACT_VERBS], "mlx5_0") == 0);

    named("shm", "shm");
    named("iwarp:eth0", "iwarp:eth0"); /* down: whoever opens it says so */
    named("iwarp:eth*", "iwarp:eth1");
    named("mlx5_*", "mlx5_0"); /* one port is up */
    named("mlx5_1:1", "mlx5_1");
    named("mlx4_*+iwarp:eth?+shm", "iwarp:eth1");
    named("mlx[45]_*+shm", "mlx5_0");
    named("nosuch+none", "nosuch");
    named("a+", "a");
    named("+shm", "shm");
    named("", "");

    /* a host of containers: many interfaces, and more behind them */
    there_count = 0;
    for (int i = 0; i < INTERFACES; i++) {
        char interface[32];
        snprintf(interface, sizeof(interface), "iwarp:veth%d", i);
        add("iwarp", interface, "d");
    }
    add("iwarp", "iwarp:eth0", "u");
    add("shm", "shm", "u");
    CHECK(mt_act_reach(names) == MT_ACT_IWARP);
    CHECK(strcmp(names[MT_ACT_IWARP], "iwarp:eth0") == 0);
    named("mlx5_*+shm", "shm");
    return check_failures != 0;
}
