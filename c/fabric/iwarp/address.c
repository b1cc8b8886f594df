/* address.c: addresses of queue pairs as bytes and as socket addresses. */
#include <netinet/in.h>

#include "iwarp.h"

/* "iwp", version, family, transport, port, number, IP, key; big-endian. */
void mt_address_write(const struct mt_iwarp_address *a,
                      struct mt_fabric_address *to)
{
    memset(to, 0, sizeof(*to));
    to->bytes = MT_IWARP_ADDRESS;
    memcpy(to->data, "iwp", 4);
    mt_put32(to->data + 4, a->version);
    to->data[8] = a->family;
    to->data[9] = a->transport;
    mt_put16(to->data + 10, a->port);
    mt_put32(to->data + 12, a->number);
    memcpy(to->data + 16, a->ip, sizeof(a->ip));
    memcpy(to->data + 32, a->key, sizeof(a->key));
}

enum mt_status mt_address_read(const struct mt_fabric_address *from,
                               enum mt_fabric_transport transport,
                               struct mt_iwarp_address *a)
{
    if (from->bytes < 8 || memcmp(from->data, "iwp", 4) != 0) {
        return MT_EINVAL;
    }
    a->version = mt_get32(from->data + 4);
    if (a->version != MT_IWARP_VERSION) {
        return MT_EVERSION;
    }
    if (from->bytes != MT_IWARP_ADDRESS) {
        return MT_EINVAL;
    }
    a->family = from->data[8];
    a->transport = from->data[9];
    a->port = mt_get16(from->data + 10);
    a->number = mt_get32(from->data + 12);
    memcpy(a->ip, from->data + 16, sizeof(a->ip));
    memcpy(a->key, from->data + 32, sizeof(a->key));
    return a->transport == transport && (a->family == 4 || a->family == 6) &&
                   a->port != 0
               ? MT_OK
               : MT_EINVAL;
}

static bool mt_link_local(const uint8_t *ip)
{
    return ip[0] == 0xfe && (ip[1] & 0xc0) == 0x80;
}

socklen_t mt_address_socket(const struct mt_iwarp_address *a, uint32_t scope,
                            struct sockaddr_storage *to)
{
    memset(to, 0, sizeof(*to));
    if (a->family == 4) {
        struct sockaddr_in *in = (struct sockaddr_in *)to;
        in->sin_family = AF_INET;
        in->sin_port = htons(a->port);
        memcpy(&in->sin_addr, a->ip + 12, 4);
        return sizeof(*in);
    }
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)to;
    in6->sin6_family = AF_INET6;
    in6->sin6_port = htons(a->port);
    memcpy(&in6->sin6_addr, a->ip, 16);
    in6->sin6_scope_id = mt_link_local(a->ip) ? scope : 0;
    return sizeof(*in6);
}

bool mt_address_of_socket(const struct sockaddr_storage *from,
                          struct mt_iwarp_address *a)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    if (from->ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)from;
        a->family = 4;
        a->port = ntohs(in->sin_port);
        memcpy(a->ip, mapped, sizeof(mapped));
        memcpy(a->ip + 12, &in->sin_addr, 4);
        return true;
    }
    if (from->ss_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)from;
        a->family = 6;
        a->port = ntohs(in6->sin6_port);
        memcpy(a->ip, &in6->sin6_addr, 16);
        return true;
    }
    return false;
}
