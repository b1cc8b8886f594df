/* sources: c/fabric/fabric.c c/fabric/status.c c/fabric/fault/?*.c c/fabric/paths/paths.c c/fabric/paths/rails.c c/fabric/verbs/device.c c/fabric/verbs/verbs.c c/fabric/verbs/qp.c c/fabric/verbs/work.c c/fabric/verbs/source.c c/fabric/verbs/ports.c */
/* verbs_device_test.c: the provider of verbs over a device that is made up here in
 * place of libibverbs: what Soft-RoCE never tells (a device or a queue that
 * fails), each error a completion can have, and several threads at once. */
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "../fabric/paths/rails.h"
#include "verbs_made.h"

/* ---- one side ---- */

struct side {
    struct mt_fabric_context *context;
    struct mt_fabric_pd *pd;
    struct mt_fabric_cq *cq;
    struct mt_fabric_qp *qp;
};

static char said[512];
static int sayings;

static void say(void *user, const char *text)
{
    (void)user;
    snprintf(said, sizeof(said), "%s", text);
    sayings++;
}

static struct mt_fabric_qp *connected(struct side *s,
                                      enum mt_fabric_transport transport)
{
    const struct mt_fabric_qp_options o = {.transport = transport,
                                           .send_cq = s->cq,
                                           .receive_cq = s->cq,
                                           .send_depth = DEPTH,
                                           .receive_depth = DEPTH,
                                           .pieces = 1,
                                           .inline_bytes = 32,
                                           .port = 1};
    struct mt_fabric_address address;
    struct mt_fabric_qp *qp;
    assert(mt_fabric_qp_create(s->pd, &o, &qp) == MT_OK);
    assert(mt_fabric_qp_address(qp, &address) == MT_OK);
    assert(mt_fabric_qp_connect(qp, transport == MT_FABRIC_RC ? &address
                                                              : NULL) == MT_OK);
    return qp;
}

static struct side side_open(bool threads)
{
    const struct mt_fabric_options options = {
        .engine_cpu = -1, .threads = threads, .say = say};
    struct side s;
    made_up = true;
    assert(pipe(made_events) == 0);
    assert(mt_fabric_open("made0", &options, &s.context) == MT_OK);
    assert(mt_fabric_pd_create(s.context, &s.pd) == MT_OK);
    assert(mt_fabric_cq_create(s.context, 4 * DEPTH, NULL, &s.cq) == MT_OK);
    s.qp = connected(&s, MT_FABRIC_RC);
    return s;
}

static void side_close(struct side *s)
{
    assert(mt_fabric_qp_destroy(s->qp) == MT_OK);
    assert(mt_fabric_cq_destroy(s->cq) == MT_OK);
    assert(mt_fabric_pd_destroy(s->pd) == MT_OK);
    assert(mt_fabric_close(s->context) == MT_OK);
    close(made_events[0]);
    close(made_events[1]);
}

static enum mt_status send_as(struct mt_fabric_qp *qp, uint64_t id,
                              uint32_t flags)
{
    uint64_t word = id;
    struct mt_fabric_piece p = {&word, sizeof(word), 0};
    struct mt_fabric_send work = {.id = id,
                                  .opcode = MT_FABRIC_SEND,
                                  .flags = flags | MT_FABRIC_INLINE,
                                  .piece_count = 1,
                                  .pieces = &p};
    return mt_fabric_post_send(qp, &work);
}

static enum mt_status send_word(struct mt_fabric_qp *qp, uint64_t id)
{
    return send_as(qp, id, MT_FABRIC_SIGNALED);
}

/* ---- accounts ---- */

static uint64_t ended(struct side *s)
{
    struct mt_fabric_completion c;
    assert(mt_fabric_poll(s->cq, &c, 1) == 1 && c.status == MT_OK);
    return c.id;
}

/* The numbers of requests wrap after 2^32, which the depth of a queue does not
 * divide: ids stay those of their requests, and no more are taken than there is room
 * for. */
static void wraps(uint64_t every)
{
    enum { ALL = 3200 };
    struct side s = side_open(false);
    struct mt_verbs_queue *sends = &((struct mt_verbs_qp *)s.qp)->sends;
    sends->head = sends->tail = (uint32_t)-1003;
    for (uint64_t id = 0; id < ALL; id++) {
        bool last = id % every == every - 1;
        assert(send_as(s.qp, id, last ? MT_FABRIC_SIGNALED : 0) == MT_OK);
        assert(!last || ended(&s) == id);
    }
    for (uint64_t id = 0; id < DEPTH - 1; id++) {
        assert(send_as(s.qp, id, 0) == MT_OK);
    }
    assert(send_word(s.qp, DEPTH) == MT_OK);
    assert(send_word(s.qp, DEPTH + 1) == MT_EAGAIN);
    assert(ended(&s) == DEPTH);
    assert(send_word(s.qp, DEPTH + 1) == MT_OK);
    assert(ended(&s) == DEPTH + 1);
    side_close(&s);
}

/* ---- the end of a queue pair ---- */

static struct mt_fabric_cq *polled;

static void poll_beside(void)
{
    struct mt_fabric_completion c;
    assert(mt_fabric_poll(polled, &c, 1) == 0);
}

/* Another thread polls what failed of it: a queue pair of datagrams would be
 * stopped then, with what is being freed. */
static void destroyed_beside_a_poll(void)
{
    char word[64];
    struct side s = side_open(true);
    struct mt_fabric_qp *qp = connected(&s, MT_FABRIC_UD);
    struct mt_fabric_piece p = {word, sizeof(word), 0};
    const struct mt_fabric_receive work = {.piece_count = 1, .pieces = &p};
    made_status = IBV_WC_WR_FLUSH_ERR;
    assert(mt_fabric_post_receive(qp, &work) == MT_OK);
    made_status = IBV_WC_SUCCESS;
    polled = s.cq;
    made_destroying = poll_beside;
    assert(mt_fabric_qp_destroy(qp) == MT_OK);
    made_destroying = NULL;
    side_close(&s);
}

/* ---- events ---- */

static void happen(struct ibv_async_event event)
{
    assert(write(made_events[1], &event, sizeof(event)) == sizeof(event));
}

static bool readable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 0) == 1;
}

/* The one event that waits; then there is none. */
static struct mt_fabric_event told(struct side *s)
{
    struct mt_fabric_event event, none;
    assert(readable(mt_fabric_event_fd(s->context)));
    assert(mt_fabric_event_take(s->context, &event) == MT_OK);
    assert(mt_fabric_event_take(s->context, &none) == MT_EAGAIN);
    assert(!readable(mt_fabric_event_fd(s->context)));
    return event;
}

static void events(void)
{
    struct side s = side_open(false);
    struct ibv_qp *qp = ((struct mt_verbs_qp *)s.qp)->qp;
    struct ibv_cq *cq = ((struct mt_verbs_cq *)s.cq)->cq;
    const struct mt_fabric_port *port = &mt_fabric_query(s.context)->ports[0];
    struct mt_fabric_event event;
    made_acknowledged = 0;
    assert(!readable(mt_fabric_event_fd(s.context)));

    happen((struct ibv_async_event){.event_type = IBV_EVENT_DEVICE_FATAL});
    assert(told(&s).kind == MT_FABRIC_EVENT_DEVICE_FATAL);
    happen((struct ibv_async_event){.event_type = IBV_EVENT_SRQ_ERR});
    assert(told(&s).kind == MT_FABRIC_EVENT_DEVICE_FATAL);

    assert(port->up);
    made_up = false;
    happen((struct ibv_async_event){.event_type = IBV_EVENT_PORT_ERR,
                                    .element.port_num = 1});
    event = told(&s);
    assert(event.kind == MT_FABRIC_EVENT_PORT_DOWN && event.port == 1);
    assert(!port->up);
    made_up = true;
    happen((struct ibv_async_event){.event_type = IBV_EVENT_PORT_ACTIVE,
                                    .element.port_num = 1});
    event = told(&s);
    assert(event.kind == MT_FABRIC_EVENT_PORT_UP && event.port == 1);
    assert(port->up);
    /* a port that the device does not have changes none that it has */
    made_up = false;
    happen((struct ibv_async_event){.event_type = IBV_EVENT_PORT_ERR,
                                    .element.port_num = 9});
    assert(told(&s).port == 9 && port->up);

    happen((struct ibv_async_event){.event_type = IBV_EVENT_CQ_ERR,
                                    .element.cq = cq});
    event = told(&s);
    assert(event.kind == MT_FABRIC_EVENT_CQ_OVERRUN && event.cq == s.cq);

    /* what is nobody's concern is passed over; a queue pair fails once */
    happen((struct ibv_async_event){.event_type = IBV_EVENT_SM_CHANGE});
    happen((struct ibv_async_event){.event_type = IBV_EVENT_QP_ACCESS_ERR,
                                    .element.qp = qp});
    happen((struct ibv_async_event){.event_type = IBV_EVENT_QP_FATAL,
                                    .element.qp = qp});
    event = told(&s);
    assert(event.kind == MT_FABRIC_EVENT_QP_FATAL &&
           event.qp == mt_fabric_qp_number(s.qp));
    assert(mt_fabric_qp_state(s.qp) == MT_FABRIC_QP_ERROR);
    assert(made_acknowledged == 9);
    side_close(&s);
}

/* ---- errors ---- */

/* Posting to a device that is gone, and every status of a completion. */
static void errors(void)
{
    struct side s = side_open(false);
    struct mt_fabric_completion c;
    made_error = EIO;
    assert(send_word(s.qp, 1) == MT_EIO);
    made_error = ENOMEM;
    assert(send_word(s.qp, 1) == MT_EAGAIN);
    made_error = 0;
    for (int status = IBV_WC_LOC_LEN_ERR; status <= IBV_WC_TM_RNDV_INCOMPLETE;
         status++) {
        made_status = (enum ibv_wc_status)status;
        assert(send_word(s.qp, (uint64_t)status) == MT_OK);
        made_status = IBV_WC_SUCCESS;
        assert(mt_fabric_poll(s.cq, &c, 1) == 1);
        assert(c.id == (uint64_t)status && c.status != MT_OK &&
               c.status < MT_STATUSES);
        assert(mt_fabric_qp_state(s.qp) == MT_FABRIC_QP_ERROR);
        assert(status != IBV_WC_RETRY_EXC_ERR || c.status == MT_EPEER);
        /* Soft-RoCE: its link is down */
        assert(status != IBV_WC_LOC_QP_OP_ERR || c.status == MT_EPEER);
        assert(status != IBV_WC_WR_FLUSH_ERR || c.status == MT_EFLUSHED);
    }
    assert(told(&s).kind == MT_FABRIC_EVENT_QP_FATAL);
    side_close(&s);
}

/* ---- datagrams ---- */

/* The port here takes 2,048 bytes; a peer says that its own takes fewer, or more. */
static void path_mtu(void)
{
    struct side s = side_open(false);
    struct mt_fabric_qp *ud = connected(&s, MT_FABRIC_UD);
    const struct mt_fabric_caps *caps = &mt_fabric_query(s.context)->caps;
    struct mt_fabric_address address;
    static char bytes[8192];
    struct mt_fabric_mr *mr;
    assert(caps->ud_payload == 2048);
    assert(mt_fabric_mr_register(s.pd, bytes, sizeof(bytes), 0, &mr) == MT_OK);
    assert(mt_fabric_qp_address(ud, &address) == MT_OK);
    for (uint8_t mtu = IBV_MTU_256; mtu <= IBV_MTU_4096; mtu++) {
        uint32_t theirs = mt_verbs_mtu_bytes(mtu);
        uint32_t most = theirs < 2048 ? theirs : 2048;
        struct mt_fabric_piece p = {bytes, most, mr->lkey};
        struct mt_fabric_send work = {.opcode = MT_FABRIC_SEND,
                                      .flags = MT_FABRIC_SIGNALED,
                                      .piece_count = 1,
                                      .pieces = &p};
        struct mt_fabric_completion c;
        address.data[offsetof(struct mt_verbs_address, mtu)] = mtu;
        assert(mt_fabric_ah_create(s.pd, &address, &work.ah) == MT_OK);
        assert(mt_fabric_post_send(ud, &work) == MT_OK);
        assert(mt_fabric_poll(s.cq, &c, 1) == 1 && c.status == MT_OK);
        p.bytes = most + 1;
        assert(mt_fabric_post_send(ud, &work) == MT_EINVAL);
        assert(mt_fabric_poll(s.cq, &c, 1) == 0);
        assert(mt_fabric_ah_destroy(work.ah) == MT_OK);
    }
    assert(sayings == 1 && strstr(said, "256 bytes") != NULL);
    assert(mt_fabric_mr_destroy(mr) == MT_OK);
    assert(mt_fabric_qp_destroy(ud) == MT_OK);
    side_close(&s);
}

/* An address leads out of each port that it can; it must out of the one that
 * datagrams leave by. */
static void handles(void)
{
    struct mt_fabric_address address;
    struct mt_fabric_ah *ah;
    made_ports = 2;
    struct side s = side_open(false);
    struct mt_fabric_qp *ud = connected(&s, MT_FABRIC_UD); /* of port 1 */
    assert(mt_fabric_qp_address(ud, &address) == MT_OK);
    assert(mt_fabric_ah_create(s.pd, &address, &ah) == MT_OK);
    assert(((struct mt_verbs_ah *)ah)->handles[1] != NULL &&
           ((struct mt_verbs_ah *)ah)->handles[2] != NULL);
    assert(mt_fabric_ah_destroy(ah) == MT_OK);
    sayings = 0;
    made_handle_errors[2] = EINVAL;
    assert(mt_fabric_ah_create(s.pd, &address, &ah) == MT_OK);
    assert(mt_fabric_ah_destroy(ah) == MT_OK && sayings == 0);
    made_handle_errors[1] = EINVAL;
    made_handle_errors[2] = 0;
    assert(mt_fabric_ah_create(s.pd, &address, &ah) == MT_EINVAL);
    assert(sayings == 1 && strstr(said, strerror(EINVAL)) != NULL);
    made_handle_errors[1] = 0;
    address.data[offsetof(struct mt_verbs_address, paths)] =
        1 << MT_VERBS_ROCE1;
    assert(mt_fabric_ah_create(s.pd, &address, &ah) == MT_EINVAL);
    assert(sayings == 2 && strstr(said, "in common") != NULL);
    assert(mt_fabric_qp_destroy(ud) == MT_OK);
    side_close(&s);
    made_ports = 1;
}

/* ---- connections ---- */

/* A port that wants route headers gets them, and tells its peers so. */
static void route_headers(void)
{
    struct mt_fabric_address address;
    struct side s = side_open(false);
    assert(made_global == 0);
    assert(made_timeout == 18); /* seven of 1.07 s: the provider's default */
    side_close(&s);
    made_route = true;
    s = side_open(false);
    assert(made_global == 1);
    assert(mt_fabric_qp_address(s.qp, &address) == MT_OK);
    side_close(&s);
    made_route = false;
    s = side_open(false);
    assert(made_global == 0);
    assert(mt_fabric_qp_reset(s.qp) == MT_OK);
    assert(mt_fabric_qp_connect(s.qp, &address) == MT_OK && made_global == 1);
    side_close(&s);
}

/* ---- lists of devices ---- */

/* However many come before it, a device is there. */
static void many_devices(void)
{
    const struct mt_fabric_options options = {.engine_cpu = -1, .say = say};
    const struct mt_rails_options by_name = {
        .patterns = "shm*", .cq_depth = 1, .fabric = options};
    struct mt_fabric_context *context;
    struct mt_fabric_device *devices;
    struct mt_rails rails;
    uint32_t count;
    made_others = 1000;
    assert(mt_fabric_devices_all(&devices, &count) == MT_OK && count == 1002);
    assert(strcmp(devices[0].name, "made0") == 0 &&
           strcmp(devices[1000].name, "iwarp999") == 0 &&
           strcmp(devices[1001].name, "shm0") == 0);
    free(devices);
    /* it is found, and may not be opened */
    assert(mt_fabric_open("shm0", &options, &context) == MT_EPERM);
    assert(mt_rails_open(&by_name, &rails) == MT_EPERM);
    made_others = 0;
}

/* ---- children ---- */

/* Memory that the device knows is not in a child, which could have its pages for
 * itself. */
static void children(void)
{
    struct side s = side_open(false);
    struct mt_fabric_mr *mr;
    int status;
    assert(mt_fabric_mr_allocate(s.pd, 10000, MT_FABRIC_LOCAL_WRITE, &mr) ==
           MT_OK);
    memset(mr->address, 1, mr->bytes);
    pid_t child = fork();
    if (child == 0) {
        unsigned char there;
        bool gone = mincore(mr->address, 1, &there) != 0 && errno == ENOMEM;
        _exit(gone && mt_fabric_mr_destroy(mr) == MT_ESTATE ? 0 : 1);
    }
    assert(waitpid(child, &status, 0) == child && status == 0);
    assert(*(char *)mr->address == 1);
    assert(mt_fabric_mr_destroy(mr) == MT_OK);
    side_close(&s);
}

/* ---- threads ---- */

enum { THREADS = 3, WORDS = 2000 };

static struct side shared;
static uint64_t completed, stopped;

/* Posts to the queue pair of all, and to one that it makes and takes back. */
static void *post_all(void *argument)
{
    (void)argument;
    for (uint64_t i = 0; i < WORDS; i++) {
        struct mt_fabric_completion c[4];
        while (send_word(shared.qp, i) != MT_OK) {
        }
        uint32_t n = mt_fabric_poll(shared.cq, c, 4);
        __atomic_add_fetch(&completed, n, __ATOMIC_RELAXED);
        if (i % 100 == 0) {
            assert(mt_fabric_qp_destroy(connected(&shared, MT_FABRIC_RC)) ==
                   MT_OK);
        }
    }
    return NULL;
}

static void *take_events(void *argument)
{
    uint64_t *ports = argument;
    struct mt_fabric_event event;
    while (!__atomic_load_n(&stopped, __ATOMIC_ACQUIRE) || *ports < WORDS) {
        if (mt_fabric_event_take(shared.context, &event) == MT_OK) {
            assert(event.kind == MT_FABRIC_EVENT_PORT_UP);
            ++*ports;
        }
    }
    return NULL;
}

static void threads(void)
{
    pthread_t posters[THREADS], taker;
    uint64_t ports = 0;
    struct mt_fabric_completion c;
    shared = side_open(true);
    assert(pthread_create(&taker, NULL, take_events, &ports) == 0);
    for (int i = 0; i < THREADS; i++) {
        assert(pthread_create(&posters[i], NULL, post_all, NULL) == 0);
    }
    for (uint64_t i = 0; i < WORDS; i++) {
        happen((struct ibv_async_event){.event_type = IBV_EVENT_PORT_ACTIVE,
                                        .element.port_num = 1});
    }
    for (int i = 0; i < THREADS; i++) {
        assert(pthread_join(posters[i], NULL) == 0);
    }
    __atomic_store_n(&stopped, 1, __ATOMIC_RELEASE);
    assert(pthread_join(taker, NULL) == 0);
    while (mt_fabric_poll(shared.cq, &c, 1) == 1) {
        completed++;
    }
    assert(completed == THREADS * WORDS);
    side_close(&shared);
}

int main(void)
{
    wraps(8);
    wraps(32);
    destroyed_beside_a_poll();
    events();
    errors();
    path_mtu();
    handles();
    route_headers();
    many_devices();
    children();
    threads();
    puts("No Errors");
    return 0;
}
