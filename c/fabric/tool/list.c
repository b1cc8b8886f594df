/* list.c: devices, ports and what they can do. */
#include "tool.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNTERS = 256 };

struct named {
    uint32_t bit;
    const char *name;
};

static const struct named transports[] = {
    {MT_FABRIC_RC, "RC"}, {MT_FABRIC_UD, "UD"}, {0, NULL}};
static const struct named operations[] = {
    {MT_FABRIC_SEND, "SEND"},
    {MT_FABRIC_WRITE, "WRITE"},
    {MT_FABRIC_WRITE_WITH_IMM, "WRITE_WITH_IMM"},
    {MT_FABRIC_READ, "READ"},
    {0, NULL}};
static const struct named notices[] = {
    {MT_FABRIC_NOTIFY_FLAG_WRITE, "flag-write"},
    {MT_FABRIC_NOTIFY_IMM, "imm"},
    {MT_FABRIC_NOTIFY_SEND, "send"},
    {0, NULL}};

static void print_set(const char *key, const struct named *names, uint32_t set,
                      bool json)
{
    bool any = false;
    printf(json ? ",\"%s\":[" : "    %-22s", key);
    for (; names->name != NULL; names++) {
        if ((set & names->bit) != 0) {
            printf(json ? "%s\"%s\"" : "%s%s", any ? (json ? "," : " ") : "",
                   names->name);
            any = true;
        }
    }
    printf(json ? "]" : "%s\n", any ? "" : "none");
}

static void print_number(const char *key, uint64_t value, bool json)
{
    printf(json ? ",\"%s\":%llu" : "    %-22s%llu\n", key,
           (unsigned long long)value);
}

static void print_flag(const char *key, bool value, bool json)
{
    if (json) {
        printf(",\"%s\":%s", key, value ? "true" : "false");
    } else {
        printf("    %-22s%s\n", key, value ? "yes" : "no");
    }
}

static void print_caps(const struct mt_fabric_caps *c, bool json)
{
    print_set("transports", transports, c->transports, json);
    print_set("rc_operations", operations, c->rc_operations, json);
    print_set("ud_operations", operations, c->ud_operations, json);
    print_set("notify", notices, c->notify, json);
    print_number("max_pieces", c->max_pieces, json);
    print_number("max_inline_bytes", c->max_inline, json);
    print_number("max_reads", c->max_reads, json);
    print_number("max_depth", c->max_depth, json);
    print_number("max_queue_pairs", c->max_qps, json);
    print_number("max_message_bytes", c->max_message, json);
    print_number("ud_payload_bytes", c->ud_payload, json);
    print_number("ud_headroom_bytes", c->ud_headroom, json);
    print_flag("shared_receive_queue", c->srq, json);
    print_flag("completion_channels", c->events, json);
    print_flag("waits_for_receive", c->waits_for_receive, json);
    print_flag("writes_need_polls", c->writes_need_polls, json);
    print_flag("writes_end_early", c->writes_end_early, json);
    print_flag("implicit_region", c->implicit, json);
    print_flag("shares_memory", c->shares_memory, json);
}

/* For programs, which keep them and look at what changes. */
static void print_counters(const struct mt_fabric_device *d, uint32_t port)
{
    static struct mt_fabric_counter counters[COUNTERS];
    uint32_t count = mt_fabric_counters(d, port, counters, COUNTERS);
    printf(",\"counters\":{");
    for (uint32_t i = 0; i < count; i++) {
        printf("%s\"%s\":%llu", i > 0 ? "," : "", counters[i].name,
               (unsigned long long)counters[i].value);
    }
    printf("}");
}

/* "10.1.0.2/16", "": not told. */
static void network_text(const struct mt_fabric_network *n, char *text,
                         size_t size)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    bool v4 = n->bits >= 96 && memcmp(n->address, mapped, sizeof(mapped)) == 0;
    char address[INET6_ADDRSTRLEN] = "";
    text[0] = '\0';
    if (n->bits > 0) {
        inet_ntop(v4 ? AF_INET : AF_INET6, n->address + (v4 ? 12 : 0), address,
                  sizeof(address));
        snprintf(text, size, "%s/%d", address, n->bits - (v4 ? 96 : 0));
    }
}

static void print_port(const struct mt_fabric_device *d,
                       const struct mt_fabric_port *p, bool json)
{
    char network[INET6_ADDRSTRLEN + 4];
    network_text(&p->network, network, sizeof(network));
    if (json) {
        printf("{\"name\":\"%s\",\"number\":%u,\"mtu_bytes\":%u,"
               "\"bits_per_second\":%llu,\"network\":\"%s\",\"up\":%s",
               p->name, p->number, p->mtu,
               (unsigned long long)p->bits_per_second, network,
               p->up ? "true" : "false");
        print_counters(d, p->number);
        printf("}");
        return;
    }
    printf("  port %u: %s, %s, mtu %u", p->number, p->name,
           p->up ? "up" : "down", p->mtu);
    if (p->bits_per_second > 0) {
        printf(", %.3g Gbit/s", (double)p->bits_per_second / 1e9);
    }
    if (network[0] != '\0') {
        printf(", %s", network);
    }
    printf("\n");
}

void tool_list(struct tool *t)
{
    struct mt_fabric_device *devices;
    bool json = t->o.json;
    uint32_t count = 0;
    tool_check(mt_fabric_devices_all(&devices, &count), "listing devices");
    printf(json ? "{\"devices\":[" : "");
    for (uint32_t i = 0; i < count; i++) {
        const struct mt_fabric_device *d = &devices[i];
        printf(json ? "%s{\"name\":\"%s\",\"provider\":\"%s\",\"ports\":["
                    : "%s%s (%s)\n",
               json && i > 0 ? "," : "", d->name, d->provider);
        for (uint32_t p = 0; p < d->port_count; p++) {
            printf("%s", json && p > 0 ? "," : "");
            print_port(d, &d->ports[p], json);
        }
        printf(json ? "]" : "");
        print_caps(&d->caps, json);
        printf(json ? "}" : "");
    }
    free(devices);
    printf(json ? "]}\n" : "");
    if (mt_fabric_missing() != NULL) {
        fprintf(stderr, "mpitrace fabric: %s\n", mt_fabric_missing());
    }
    if (count == 0 && !json) {
        printf("no device: not even shared memory works here\n");
    }
}
