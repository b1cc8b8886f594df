/* sources: c/fabric/verbs/source.c c/fabric/verbs/ports.c c/fabric/verbs/library.c */
/* verbs_test.c: what Soft-RoCE on IPv4 does not show: the paths between ports of
 * every kind, and where datagrams of InfiniBand, RoCE v1 and IPv6 came from. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../fabric/verbs/verbs.h"

#if !MT_VERBS
#error "infiniband/verbs.h is missing: apt-get install libibverbs-dev"
#endif

/* ---- paths ---- */

/* Both ends come to the same, whoever asks, and it is the best of what both have. */
static void paths_agree(void)
{
    for (unsigned mine = 0; mine < 1 << MT_VERBS_PATHS; mine++) {
        for (unsigned theirs = 0; theirs < 1 << MT_VERBS_PATHS; theirs++) {
            enum mt_verbs_path path =
                mt_verbs_path_choose((uint8_t)mine, (uint8_t)theirs);
            assert(path ==
                   mt_verbs_path_choose((uint8_t)theirs, (uint8_t)mine));
            unsigned best = 0;
            while (best < MT_VERBS_PATHS &&
                   ((mine >> best & 1) == 0 || (theirs >> best & 1) == 0)) {
                best++;
            }
            assert(path == best);
        }
    }
}

static void route_headers_where_needed(void)
{
    struct mt_verbs_port port = {.index = {0, 3, 5, 1, 7}};
    union ibv_gid near = {.raw = {0xfe, 0x80, [15] = 1}}, far = {.raw = {1}};
    union ibv_gid none = {.raw = {0}};
    struct mt_verbs_end end = {&near, 17, false};
    struct ibv_ah_attr a;
    port.gid[MT_VERBS_LID] = near;
    mt_verbs_path_fill(&port, 2, MT_VERBS_LID, &end, &a);
    assert(a.is_global == 0 && a.dlid == 17 && a.port_num == 2);
    /* either port may want one */
    end.route = true;
    mt_verbs_path_fill(&port, 2, MT_VERBS_LID, &end, &a);
    assert(a.is_global == 1 && a.dlid == 17 && a.grh.sgid_index == 0);
    assert(memcmp(&a.grh.dgid, &near, sizeof(near)) == 0);
    end.route = false;
    port.route = true;
    mt_verbs_path_fill(&port, 2, MT_VERBS_LID, &end, &a);
    assert(a.is_global == 1 && a.dlid == 17);
    end.gid = &none; /* where to is not known */
    mt_verbs_path_fill(&port, 2, MT_VERBS_LID, &end, &a);
    assert(a.is_global == 0);
    port.route = false;
    mt_verbs_path_fill(&port, 2, MT_VERBS_LID, &end, &a);
    assert(a.is_global == 0);
    end.gid = &far;
    mt_verbs_path_fill(&port, 2, MT_VERBS_LID, &end, &a);
    assert(a.is_global == 1 && a.dlid == 17);
    end.lid = 0;
    for (int path = MT_VERBS_ROCE2_IPV4; path < MT_VERBS_PATHS; path++) {
        mt_verbs_path_fill(&port, 1, (enum mt_verbs_path)path, &end, &a);
        assert(a.is_global == 1 && a.grh.sgid_index == port.index[path]);
        assert(memcmp(&a.grh.dgid, &far, sizeof(far)) == 0);
        assert(a.grh.hop_limit > 1);
    }
}

/* ---- sources ---- */

static void expect(bool ethernet, const struct ibv_wc *wc, const uint8_t *grh,
                   enum mt_verbs_path path, const uint8_t *gid, uint16_t lid)
{
    struct mt_fabric_source source;
    uint32_t number;
    enum mt_verbs_path got_path;
    union ibv_gid got_gid;
    uint16_t got_lid;
    memset(&source, 0xee, sizeof(source));
    mt_verbs_source_read(ethernet, wc, grh, &source);
    assert(mt_verbs_source_parse(&source, &number, &got_path, &got_gid,
                                 &got_lid));
    assert(number == wc->src_qp);
    assert(got_path == path);
    assert(got_lid == lid);
    assert(memcmp(got_gid.raw, gid, 16) == 0);
}

static void sources(void)
{
    static const uint8_t none[16] = {0};
    static const uint8_t mapped[16] = {[10] = 0xff, 0xff, 10, 77, 0, 1};
    static const uint8_t local[16] = {0xfe, 0x80, [15] = 9};
    static const uint8_t global[16] = {0x20, 0x01, 0x0d, 0xb8, [15] = 9};
    /* 10.77.0.1 to 10.77.0.2, its checksum right: RFC 791, 3.1 */
    static const uint8_t ipv4[20] = {0x45, 0,    0,  92, 0, 1, 0x40, 0,  64, 17,
                                     0x25, 0xf4, 10, 77, 0, 1, 10,   77, 0,  2};
    uint8_t grh[40] = {0};
    struct ibv_wc wc = {.src_qp = 0xabcdef, .slid = 17, .wc_flags = IBV_WC_GRH};

    memcpy(grh + 20, ipv4, sizeof(ipv4));
    expect(true, &wc, grh, MT_VERBS_ROCE2_IPV4, mapped, 0);
    grh[0] = 0x60; /* what lies before may be anything */
    expect(true, &wc, grh, MT_VERBS_ROCE2_IPV4, mapped, 0);

    /* an IPv6 header with the first byte of IPv4 where that would begin */
    memset(grh, 0, sizeof(grh));
    grh[0] = 0x60;
    grh[6] = 17;
    memcpy(grh + 8, global, 16);
    grh[20] = 0x45;
    memcpy(grh + 24, local, 16);
    expect(true, &wc, grh, MT_VERBS_ROCE2_IPV6,
           (const uint8_t[16]){0x20, 0x01, 0x0d, 0xb8, [12] = 0x45, [15] = 9}, 0);
    memcpy(grh + 8, local, 16);
    expect(true, &wc, grh, MT_VERBS_ROCE2_LOCAL, local, 0);
    grh[6] = 0x1b; /* of InfiniBand: RoCE v1 has its headers */
    expect(true, &wc, grh, MT_VERBS_ROCE1, local, 0);
    expect(false, &wc, grh, MT_VERBS_LID, local, 17);

    wc.wc_flags = 0;
    expect(false, &wc, grh, MT_VERBS_LID, none, 17);
    wc.wc_flags = IBV_WC_GRH;
    expect(false, &wc, NULL, MT_VERBS_LID, none, 17);
}

/* Any bytes: refused, or a path that exists. */
static void hostile_sources(void)
{
    unsigned parsed = 0;
    srand(7);
    for (int i = 0; i < 200000; i++) {
        struct mt_fabric_source source;
        uint32_t number;
        enum mt_verbs_path path;
        union ibv_gid gid;
        uint16_t lid;
        for (size_t b = 0; b < sizeof(source); b++) {
            ((uint8_t *)&source)[b] = (uint8_t)rand();
        }
        source.words[3] = i % 2 == 0 ? (uint64_t)(i % 16) : source.words[3];
        source.words[2] &= i % 4 < 2 ? UINT64_C(0xffffffffffff) : UINT64_MAX;
        if (mt_verbs_source_parse(&source, &number, &path, &gid, &lid)) {
            assert(path < MT_VERBS_PATHS);
            parsed++;
        }
    }
    assert(parsed > 1000);
}

int main(void)
{
    paths_agree();
    route_headers_where_needed();
    sources();
    hostile_sources();
    puts("No Errors");
    return 0;
}
