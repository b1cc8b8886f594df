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

/* The same with an IPv4 address and how many bits of it are the network's, and Gbit/s;
 * up. */
static void add_interface(const char *name, uint32_t address, uint8_t bits,
                          uint64_t rate)
{
    add("iwarp", name, "u");
    struct mt_fabric_port *port = &there[there_count - 1].ports[0];
    port->bits_per_second = rate * 1000000000;
    port->network.bits = (uint8_t)(bits > 0 ? 96 + bits : 0);
    port->network.address[10] = port->network.address[11] = 0xff;
    for (int i = 0; i < 4; i++) {
        port->network.address[12 + i] = (uint8_t)(address >> (24 - 8 * i));
    }
}

static void found(uint32_t reach, const char *iwarp)
{
    struct mt_act_devices devices;
    mt_act_devices_find(&devices);
    CHECK(devices.reach == reach);
    const char *best = mt_act_devices_best(&devices, MT_ACT_IWARP);
    CHECK(iwarp == NULL ? best == NULL : strcmp(best, iwarp) == 0);
}

#define IP(a, b, c, d) \
    ((uint32_t)(a) << 24 | (uint32_t)(b) << 16 | (uint32_t)(c) << 8 | (d))

static void interface_a(void)
{
    there_count = 0;
    add("iwarp", "iwarp:lo", "u");
    add_interface("iwarp:docker0", IP(172, 17, 0, 1), 16, 0);
    add_interface("iwarp:eno1", IP(192, 168, 0, 1), 24, 1);
    add_interface("iwarp:ib0", IP(10, 0, 129, 1), 17, 100);
    add_interface("iwarp:ib1", IP(10, 1, 0, 1), 16, 100);
}

/* Which interface the node of interface_a takes when it has met those of others. */
static void chosen(const struct mt_act_networks *others, int count,
                   const char *expected)
{
    struct mt_act_devices devices;
    interface_a();
    mt_act_devices_find(&devices);
    for (int i = 0; i < count; i++) {
        mt_act_devices_meet(&devices, &others[i]);
    }
    const char *best = mt_act_devices_best(&devices, MT_ACT_IWARP);
    if (best == NULL || strcmp(best, expected) != 0) {
        printf("%d others: %s, not %s\n", count, best, expected);
        CHECK(false);
    }
    there_count = 0;
}

/* The networks of a node, of what was added. */
static struct mt_act_networks networks(void)
{
    struct mt_act_devices devices;
    mt_act_devices_find(&devices);
    there_count = 0;
    return devices.networks;
}

enum { MACHINES = 6, RANKS = 12, NETWORKS = 5 };

static uint32_t draw(uint32_t below)
{
    static uint64_t state = 1;
    state = state * 6364136223846793005 + 1442695040888963407;
    return (uint32_t)(state >> 33) % below;
}

static void add_random(uint32_t network, uint32_t machine)
{
    char name[24];
    snprintf(name, sizeof(name), "iwarp:n%um%u", network, machine);
    add_interface(name, IP(10, network, 0, machine + 1), 16, draw(3));
}

/* Machines that have a network in common, and others and bridges of containers in any
 * order, take the same one. The speed of an interface may differ from machine to
 * machine. */
static void test_alike(void)
{
    struct mt_act_devices devices[MACHINES];
    bool has[NETWORKS];
    uint32_t machines = 2 + draw(MACHINES - 1), common = draw(NETWORKS);
    for (uint32_t n = 0; n < NETWORKS; n++) {
        has[n] = n == common || draw(2) == 0;
    }
    for (uint32_t m = 0; m < machines; m++) {
        uint32_t first = draw(NETWORKS);
        there_count = 0;
        for (uint32_t i = 0; i < NETWORKS; i++) {
            uint32_t n = (first + i) % NETWORKS;
            if (draw(3) == 0) {
                add_interface("iwarp:docker0", IP(172, 17, 0, 1), 16, 100);
            }
            if (has[n] || draw(3) == 0) {
                add_random(n, m);
            }
        }
        mt_act_devices_find(&devices[m]);
    }
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        for (uint32_t m = 0; m < machines; m++) {
            if (m != rank % machines) {
                mt_act_devices_meet(&devices[m],
                                    &devices[rank % machines].networks);
            }
        }
    }
    for (uint32_t m = 0; m < machines; m++) {
        char first[24];
        const char *best = mt_act_devices_best(&devices[0], MT_ACT_IWARP);
        const char *its = mt_act_devices_best(&devices[m], MT_ACT_IWARP);
        snprintf(first, sizeof(first), "%.8s", best); /* "iwarp:n3" */
        if (strncmp(its, first, strlen(first)) != 0) {
            printf("of %u machines one takes %s, another one %s\n", machines,
                   best, its);
            CHECK(false);
        }
    }
}

static void test_networks(void)
{
    struct mt_act_networks other[4];
    chosen(NULL, 0, "iwarp:docker0"); /* nothing is known: the first */

    /* the bridge of containers is the same on each machine */
    add_interface("iwarp:docker0", IP(172, 17, 0, 1), 16, 0);
    other[0] = networks();
    chosen(other, 1, "iwarp:eno1");

    add_interface("iwarp:docker0", IP(172, 17, 0, 1), 16, 0);
    add_interface("iwarp:eno1", IP(192, 168, 0, 2), 24, 1);
    other[1] = networks();
    chosen(other + 1, 1, "iwarp:eno1");

    add_interface("iwarp:eno1", IP(192, 168, 0, 3), 24, 1);
    add_interface("iwarp:ib0", IP(10, 0, 128, 3), 17, 100); /* the other order */
    other[2] = networks();
    chosen(other + 2, 1, "iwarp:ib0"); /* both lead there: the faster one */
    chosen(other + 1, 2, "iwarp:eno1"); /* all have only this one */

    add_interface("iwarp:ib0", IP(10, 0, 127, 4), 17, 100); /* one bit too far */
    add_interface("iwarp:ib1", IP(10, 1, 0, 4), 24, 100); /* another prefix */
    other[3] = networks();
    chosen(other + 3, 1, "iwarp:docker0");
    chosen(other + 2, 2, "iwarp:ib0");

    /* as fast, and in the other order: that of the networks decides */
    add_interface("iwarp:ib0", IP(10, 1, 0, 5), 16, 100);
    add_interface("iwarp:ib1", IP(10, 0, 128, 5), 17, 100);
    other[0] = networks();
    chosen(other, 1, "iwarp:ib0");

    /* all addresses are elsewhere, too: machines in one network namespace, of which
     * one has an address that is good on its link only */
    interface_a();
    add_interface("iwarp:veth7", 0, 0, 100);
    other[0] = networks();
    chosen(other, 1, "iwarp:ib0");
    interface_a();
    add_interface("iwarp:veth7", 0, 0, 100);
    struct mt_act_devices devices;
    mt_act_devices_find(&devices);
    mt_act_devices_meet(&devices, other);
    CHECK(strcmp(mt_act_devices_best(&devices, MT_ACT_IWARP), "iwarp:ib0") == 0);
    there_count = 0;

    for (int i = 0; i < 20000; i++) {
        test_alike();
    }
}

int main(void)
{
    found(0, NULL);
    named("mlx5_*", "mlx5_*"); /* there is nothing at all */
    add("shm", "shm", "u");
    add("iwarp", "iwarp:lo", "u");
    found(0, NULL); /* the loopback reaches nobody */
    add("iwarp", "iwarp:eth0", "d");
    add("iwarp", "iwarp:eth1", "u");
    found(MT_ACT_IWARP, "iwarp:eth1");
    add("verbs", "mlx4_0", "dd");
    add("verbs", "mlx4_1", "");
    found(MT_ACT_IWARP, "iwarp:eth1");
    add("verbs", "mlx5_0", "du"); /* any port will do */
    found(MT_ACT_IWARP | MT_ACT_VERBS, "iwarp:eth1");
    add("verbs", "mlx5_1", "u");
    found(MT_ACT_IWARP | MT_ACT_VERBS, "iwarp:eth1");
    struct mt_act_devices devices;
    mt_act_devices_find(&devices);
    CHECK(strcmp(mt_act_devices_best(&devices, MT_ACT_VERBS), "mlx5_0") == 0);
    CHECK(strcmp(mt_act_devices_best(&devices, MT_ACT_VERBS | MT_ACT_IWARP),
                 "mlx5_0") == 0);
    CHECK(mt_act_devices_best(&devices, 0) == NULL);

    named("shm", "shm");
    named("iwarp:eth0", "iwarp:eth0"); /* down: whoever opens it says so */
    named("iwarp:eth*", "iwarp:eth1");
    named("mlx5_*", "mlx5_0"); /* one port is up */
    named("mlx5_1:1", "mlx5_1");
    named("mlx4_*+iwarp:eth?+shm", "iwarp:eth1");
    named("mlx[45]_*+shm", "mlx5_0");
    /* longer than any name is */
    named("[abcdefghijklmABCDEFGHIJKLM][abcdefghijklABCDEFGHIJKL][xX][1-5]_0",
          "mlx5_0");
    named("**********************************************************************!+shm",
          "shm");
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
    found(MT_ACT_IWARP, "iwarp:eth0");
    named("mlx5_*+shm", "shm");

    test_networks();
    return check_failures != 0;
}
