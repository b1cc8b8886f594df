/* source.c: where a datagram came from, as the four words of struct
 * mt_fabric_source: the GID in the first two, then queue pair and LID, then the
 * path. On InfiniBand without a route header the GID is zero. */
#include "verbs.h"

#if MT_VERBS

#include <string.h>

/* Of IPv4, over its header as it is in memory; 0 if it was right. */
static uint16_t mt_checksum(const uint8_t *header)
{
    uint32_t sum = 0;
    for (int i = 0; i < 20; i += 2) {
        sum += (uint32_t)header[i] << 8 | header[i + 1];
    }
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t)~sum;
}

/* RoCE v2 over IPv4 puts its header into the last 20 bytes, and anything into
 * the others: what looks like IPv6 is IPv4 if the checksum says so (RoCE v2,
 * Annex A17.4.5.2). */
static bool mt_is_ipv4(const uint8_t *grh)
{
    const uint8_t *header = grh + 20;
    return header[0] == 0x45 &&
           (grh[0] >> 4 != 6 || mt_checksum(header) == 0);
}

void mt_verbs_source_read(bool ethernet, const struct ibv_wc *completion,
                          const uint8_t *grh, struct mt_fabric_source *source)
{
    enum { NEXT_HEADER = 6, NEXT_UDP = 17, GID_FROM = 8, IPV4_FROM = 32 };
    uint8_t gid[16] = {0};
    enum mt_verbs_path path = MT_VERBS_LID;
    uint16_t lid = ethernet ? 0 : completion->slid;
    if ((completion->wc_flags & IBV_WC_GRH) != 0 && grh != NULL) {
        if (ethernet && mt_is_ipv4(grh)) {
            path = MT_VERBS_ROCE2_IPV4;
            gid[10] = gid[11] = 0xff;
            memcpy(gid + 12, grh + IPV4_FROM, 4);
        } else {
            memcpy(gid, grh + GID_FROM, sizeof(gid));
            bool link = gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80;
            path = !ethernet                       ? MT_VERBS_LID
                   : grh[NEXT_HEADER] != NEXT_UDP  ? MT_VERBS_ROCE1
                   : link                          ? MT_VERBS_ROCE2_LOCAL
                                                   : MT_VERBS_ROCE2_IPV6;
        }
    }
    memcpy(source->words, gid, sizeof(gid));
    source->words[2] = completion->src_qp | (uint64_t)lid << 32;
    source->words[3] = path;
}

bool mt_verbs_source_parse(const struct mt_fabric_source *source,
                           uint32_t *number, enum mt_verbs_path *path,
                           union ibv_gid *gid, uint16_t *lid)
{
    if (source->words[3] >= MT_VERBS_PATHS || source->words[2] >> 48 != 0) {
        return false;
    }
    memcpy(gid->raw, source->words, sizeof(gid->raw));
    *number = (uint32_t)source->words[2];
    *lid = (uint16_t)(source->words[2] >> 32);
    *path = (enum mt_verbs_path)source->words[3];
    return true;
}

enum mt_status mt_verbs_address_parse(const struct mt_fabric_address *address,
                                      enum mt_fabric_transport transport,
                                      struct mt_verbs_address *a)
{
    memset(a, 0, sizeof(*a));
    if (address->bytes < 8) {
        return MT_EINVAL;
    }
    memcpy(a, address->data,
           address->bytes < sizeof(*a) ? address->bytes : sizeof(*a));
    if (memcmp(a->provider, "ibv", 4) != 0) {
        return MT_EINVAL;
    }
    if (a->version != MT_VERBS_VERSION) {
        return MT_EVERSION;
    }
    bool sound = address->bytes == sizeof(*a) && a->transport == transport &&
                 a->mtu >= IBV_MTU_256 && a->mtu <= IBV_MTU_4096 &&
                 a->number <= 0xffffff && a->packet <= 0xffffff;
    return sound ? MT_OK : MT_EINVAL;
}

#endif
