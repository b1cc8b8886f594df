/* ports.c: what is known of a port, and the path between two of them. */
#include "verbs.h"

#if MT_VERBS

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

int mt_verbs_query_port(struct ibv_context *device, uint8_t number,
                        struct ibv_port_attr *attributes)
{
    struct verbs_context *context = verbs_get_ctx_op(device, query_port);
    memset(attributes, 0, sizeof(*attributes));
    return context != NULL
               ? context->query_port(device, number, attributes,
                                     sizeof(*attributes))
               : -1;
}

/* The kind of a GID of an Ethernet port. */
static enum mt_verbs_path mt_path_of(const struct ibv_gid_entry *entry)
{
    static const uint8_t ipv4[12] = {[10] = 0xff, [11] = 0xff};
    const uint8_t *raw = entry->gid.raw;
    if (entry->gid_type == IBV_GID_TYPE_ROCE_V1) {
        return MT_VERBS_ROCE1;
    }
    if (entry->gid_type != IBV_GID_TYPE_ROCE_V2) {
        return MT_VERBS_PATHS;
    }
    if (memcmp(raw, ipv4, sizeof(ipv4)) == 0) {
        return MT_VERBS_ROCE2_IPV4;
    }
    /* fe80::/10 */
    return raw[0] == 0xfe && (raw[1] & 0xc0) == 0x80 ? MT_VERBS_ROCE2_LOCAL
                                                     : MT_VERBS_ROCE2_IPV6;
}

/* The kernel keeps a GID made of the MAC for each RoCE port, also where the interface
 * has no such address, and there nobody answers to it. An interface that this process
 * does not see, or addresses that cannot be read, prove nothing. */
static bool mt_gid_silent(const struct ibv_gid_entry *entry,
                          const struct ifaddrs *addresses)
{
    char name[IF_NAMESIZE];
    bool known = addresses != NULL &&
                 if_indextoname(entry->ndev_ifindex, name) != NULL;
    for (const struct ifaddrs *a = addresses; a != NULL && known;
         a = a->ifa_next) {
        struct sockaddr_in6 in6;
        if (a->ifa_addr == NULL || a->ifa_addr->sa_family != AF_INET6 ||
            strcmp(a->ifa_name, name) != 0) {
            continue;
        }
        memcpy(&in6, a->ifa_addr, sizeof(in6));
        if (memcmp(&in6.sin6_addr, entry->gid.raw, sizeof(entry->gid)) == 0) {
            return false;
        }
    }
    return known;
}

/* The first GID of each kind; of those of the link, the first that is an address. */
static void mt_gids_read(struct ibv_context *device, uint8_t number,
                         bool ethernet, struct mt_verbs_port *port)
{
    struct ibv_device_attr attributes;
    const struct mt_verbs_library *library = mt_verbs_library();
    size_t limit = 0;
    if (library->query_device(device, &attributes) != 0) {
        return;
    }
    for (uint8_t i = 1; i <= attributes.phys_port_cnt; i++) {
        struct ibv_port_attr p;
        limit += mt_verbs_query_port(device, i, &p) == 0
                     ? (size_t)p.gid_tbl_len
                     : 0;
    }
    struct ibv_gid_entry *table = calloc(limit + 1, sizeof(*table));
    ssize_t count = table != NULL
                        ? library->query_gid_table(device, table, limit + 1, 0,
                                                   sizeof(*table))
                        : 0;
    struct ifaddrs *addresses = NULL;
    if (ethernet && getifaddrs(&addresses) != 0) {
        addresses = NULL;
    }
    for (ssize_t i = 0; i < count; i++) {
        enum mt_verbs_path path =
            ethernet ? mt_path_of(&table[i]) : MT_VERBS_LID;
        if (table[i].port_num != number || table[i].gid_index > UINT8_MAX ||
            path == MT_VERBS_PATHS || (port->paths & 1 << path) != 0 ||
            (path == MT_VERBS_ROCE2_LOCAL &&
             mt_gid_silent(&table[i], addresses))) {
            continue;
        }
        port->paths |= (uint8_t)(1 << path);
        port->index[path] = (uint8_t)table[i].gid_index;
        port->gid[path] = table[i].gid;
    }
    freeifaddrs(addresses);
    free(table);
}

void mt_verbs_port_read(struct ibv_context *device, uint8_t number,
                        struct mt_verbs_port *port)
{
    struct ibv_port_attr attributes;
    memset(port, 0, sizeof(*port));
    if (mt_verbs_query_port(device, number, &attributes) != 0) {
        return;
    }
    bool ethernet = attributes.link_layer == IBV_LINK_LAYER_ETHERNET;
    port->up = attributes.state == IBV_PORT_ACTIVE;
    port->mtu = (uint8_t)attributes.active_mtu;
    port->lid = attributes.lid;
    port->route = (attributes.flags & IBV_QPF_GRH_REQUIRED) != 0;
    mt_gids_read(device, number, ethernet, port);
}

enum mt_verbs_path mt_verbs_path_choose(uint8_t mine, uint8_t theirs)
{
    unsigned path = 0;
    while (path < MT_VERBS_PATHS && (mine & theirs & 1 << path) == 0) {
        path++;
    }
    return (enum mt_verbs_path)path;
}

void mt_verbs_path_fill(const struct mt_verbs_port *port, uint8_t number,
                        enum mt_verbs_path path, const struct mt_verbs_end *end,
                        struct ibv_ah_attr *attributes)
{
    uint64_t prefix = end->gid->global.subnet_prefix;
    bool wanted = port->route || end->route ||
                  prefix != port->gid[path].global.subnet_prefix;
    /* no prefix: a datagram that came without a route header */
    bool local = path == MT_VERBS_LID && (prefix == 0 || !wanted);
    *attributes = (struct ibv_ah_attr){.port_num = number, .dlid = end->lid};
    if (!local) {
        attributes->is_global = 1;
        attributes->grh.dgid = *end->gid;
        attributes->grh.sgid_index = port->index[path];
        attributes->grh.hop_limit = 64;
    }
}

#endif
