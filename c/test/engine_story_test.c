/* sources: c/engine/arrive.c c/engine/choice.c c/engine/decisions.c c/engine/eager.c c/engine/hold.c c/engine/keeper.c c/engine/layout.c c/engine/lock.c c/engine/match.c c/engine/progress.c c/engine/receive.c c/engine/reuse.c c/engine/ring.c c/engine/rtr.c c/engine/send.c c/engine/transfer.c c/engine/trial.c c/engine/usage.c c/engine/verify.c c/engine/wire.c c/fabric/crc32c.c c/fabric/paths/credits.c c/fabric/paths/paths.c c/fabric/paths/reads.c c/fabric/paths/ring.c */
/* Receives that ask first (testdata/rtr), short messages straight from the memory of
 * their sender (testdata/reuse), and messages that leave together (testdata/hold),
 * rule by rule: each file is a story of
 * simulated processes with what they say to each other, in an order that the
 * story decides (story.h).
 *
 *   world [processes=2] [eager=64] [window=16] [usage=80] [sample=20] [verify=N]
 *         [straight] [ring=BYTES] [try]    try: asking first, against reading
 *   receive P NAME from=Q|any tag=T|any bytes=N [spread] [in=OTHER]
 *                        in: the buffer of another receive, which is over
 *   send P NAME to=Q tag=T bytes=N [synchronous] [spread]
 *   cancel P NAME
 *   move P>Q [COUNT]     what was posted there first
 *   land P>Q [COUNT]     the same, but nobody looks yet
 *   settle               everything, until nothing is posted any more
 *   refuse P | accept P  registration of memory
 *   look P               the program waits or looks
 *   busy P               the program does something else before its next send
 *   late P               P's thread finds what has been held back for long
 *   full P [but=N]       the queues of P, for all but so many WRITEs
 *   free P
 *   ring P>Q             P has sent much to Q: it gets a ring
 *   die P
 *   lose P               its device
 *   counts P             what became of its RTRs, and what left straight
 *   tried P              receives by what was known, and by what is tried
 *
 * Each line of output begins with a process: what it posts, or what of it ends.
 * When a request has ended its buffer is used for something else at once: nobody
 * may write over that of a receive, and what is sent from that of a send is
 * nobody's message. */
#include "engine_world.h"
#include "story.h"

#include <ctype.h>

enum { NAMES = 64, LATER = 0xaa };

struct named {
    char name[16];
    struct mt_engine_request request;
    struct mt_layout layout;
    uint32_t process;
    uint64_t bytes;
    unsigned char *memory; /* as it is laid out */
    bool receive, over, spread;
    bool borrows; /* the memory is another's */
};

static struct named names[NAMES];
static uint32_t name_count;
static bool open_world;

/* ---- what is said ---- */

/* Whose memory is there. */
static const char *name_at(uint64_t address)
{
    for (uint32_t i = name_count; i > 0; i--) {
        uint64_t at = (uintptr_t)names[i - 1].memory;
        if (address >= at && address < at + 2 * names[i - 1].bytes + 1) {
            return names[i - 1].name;
        }
    }
    return "a copy";
}

/* Whether it lies in the ring from one to the other. */
static bool is_ring(uint32_t from, uint32_t to, uint64_t address)
{
    const struct mt_engine_ring *ring = world.peers[to][from].ring;
    return ring != NULL && ring->in.memory != NULL &&
           address - (uintptr_t)ring->in.ring < ring->in.bytes;
}

static void world_heard(uint32_t from, uint32_t to,
                        const struct mt_fabric_send *work,
                        const struct mt_wire_message *m)
{
    static const char *const kinds[] = {
        "",    "EAGER", "RTS", "DONE",   "PULL",   "FRAGMENT",
        "CTS", "FIN",   "RTR", "FILLED", "REVOKE", "REVOKED",
        "RING", "WORD", "CHECK", "WRONG"};
    const char *straight = work->piece_count > 1 ? " straight" : "";
    if (m == NULL) {
        bool writes = work->opcode == MT_FABRIC_WRITE;
        say("%u>%u: %s %u bytes %s %s%s\n", from, to, writes ? "WRITE" : "READ",
            world_gather(from, work, NULL), writes ? "to" : "of",
            is_ring(from, to, work->remote_address)
                ? "the ring"
                : name_at(work->remote_address),
            straight);
        return;
    }
    say("%u>%u: %s", from, to, kinds[m->head.kind]);
    if (m->head.kind == MT_WIRE_EAGER || m->head.kind == MT_WIRE_RTS ||
        m->head.kind == MT_WIRE_RTR) {
        say(" tag %d", m->head.tag);
    }
    if (m->rest.bytes > 0) {
        say(" %u bytes", (unsigned)m->rest.bytes);
    }
    if (m->head.kind == MT_WIRE_RTR) {
        say(" to %s, %u ahead", name_at(m->rest.address),
            (unsigned)(uint32_t)m->rest.answer);
    }
    say("%s\n", straight);
}

static void world_came(uint32_t from, uint32_t to,
                       const struct mt_wire_message *m)
{
    (void)from, (void)to, (void)m;
}

/* ---- requests ---- */

/* Two of three bytes. */
static const struct mt_block two_of_three[] = {{0, 2}};

static unsigned char *byte_of(const struct named *n, uint64_t i)
{
    return n->memory + (n->spread ? i / 2 * 3 + i % 2 : i);
}

static uint64_t memory_bytes(const struct named *n)
{
    return n->spread ? (n->bytes + 1) / 2 * 3 : n->bytes;
}

static unsigned char content_of(const struct named *send, uint64_t i)
{
    return (unsigned char)((send - names) * 31 + (int)(i * 7) + 1);
}

static const char *whose(const struct named *receive, uint64_t bytes)
{
    for (uint32_t k = 0; k < name_count; k++) {
        uint64_t i = 0;
        while (!names[k].receive && i < bytes &&
               *byte_of(receive, i) == content_of(&names[k], i)) {
            i++;
        }
        if (!names[k].receive && i == bytes) {
            return names[k].name;
        }
    }
    return "NOBODY";
}

static void look(void)
{
    for (uint32_t k = 0; k < name_count; k++) {
        struct named *n = &names[k];
        const struct mt_engine_request *r = &n->request;
        if (n->over || !mt_engine_done(r) || world.dead[n->process]) {
            continue;
        }
        n->over = true;
        say("%u: %s ", n->process, n->name);
        if (r->cancelled) {
            say("is cancelled\n");
        } else if (r->status == MT_EPEER) {
            say("ends: the peer is gone\n");
        } else if (!n->receive) {
            say("is sent\n");
        } else {
            say("has %s, %u bytes of %d%s\n", whose(n, r->bytes),
                (unsigned)r->bytes, r->source,
                r->status == MT_ETRUNCATED ? ", truncated" : "");
        }
        memset(n->memory, n->receive ? LATER : 0, memory_bytes(n));
    }
}

static struct named *name_new(uint32_t process, const char *name, uint64_t bytes,
                              bool receive, bool spread)
{
    if (name_count == NAMES) {
        printf("too many names\n");
        exit(1);
    }
    struct named *n = &names[name_count++];
    *n = (struct named){.process = process,
                        .bytes = bytes,
                        .receive = receive,
                        .spread = spread};
    n->layout = (struct mt_layout){
        .blocks = two_of_three, .block_count = 1, .extent = 3, .size = 2};
    snprintf(n->name, sizeof(n->name), "%s", name);
    n->memory = calloc(1, 2 * bytes + 1);
    return n;
}

static struct mt_buffer buffer_of(const struct named *n)
{
    return (struct mt_buffer){.address = n->memory,
                              .layout = n->spread ? &n->layout : NULL,
                              .bytes = n->bytes,
                              .site = 1};
}

/* ---- commands ---- */

static void told(void *user, const char *text)
{
    say("%u: %s\n", (unsigned)((struct mt_engine *)user - world.engines), text);
}

static const char *find(const char *line, const char *key)
{
    const char *at = strstr(line, key);
    return at != NULL ? at + strlen(key) : NULL;
}

/* KEY=NUMBER; any is MT_ENGINE_ANY. */
static int value(const char *line, const char *key, int otherwise)
{
    const char *at = find(line, key);
    return at == NULL         ? otherwise
           : strncmp(at, "any", 3) == 0 ? MT_ENGINE_ANY
                                        : atoi(at);
}

static void close_world(void)
{
    if (!open_world) {
        return;
    }
    for (uint32_t k = 0; k < name_count; k++) {
        if (!names[k].over && !world.dead[names[k].process]) {
            say("%u: %s is not done\n", names[k].process, names[k].name);
            check_failures++;
        }
        for (uint64_t i = 0; names[k].over && names[k].receive &&
                             i < memory_bytes(&names[k]);
             i++) {
            if (names[k].memory[i] != LATER) {
                say("%u: %s was written when it was over\n", names[k].process,
                    names[k].name);
                check_failures++;
                break;
            }
        }
    }
    world_end();
    for (uint32_t k = 0; k < name_count; k++) {
        if (!names[k].borrows) {
            free(names[k].memory);
        }
    }
    name_count = 0;
    open_world = false;
}

static void counts(uint32_t process)
{
    const struct mt_engine_counts *c = &world.engines[process].counts;
    const struct {
        const char *name;
        uint64_t value;
    } all[] = {{"sent", c->rtr_sent},
               {"used", c->rtr_used},
               {"crossed", c->rtr_crossed},
               {"mispredicted", c->rtr_mispredicted},
               {"revoked", c->rtr_revoked},
               {"suspended", c->rtr_suspended},
               {"resumed", c->rtr_resumed},
               {"extra bytes", c->rtr_extra_bytes},
               {"held", c->coalesced_messages},
               {"straight", c->zero_copy_messages},
               {"bytes straight", c->zero_copy_bytes},
               {"bytes copied", world.engines[process].eager != NULL
                                    ? c->copied_bytes
                                    : 0}};
    say("%u:", process);
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        if (all[i].value > 0) {
            say(" %s %u", all[i].name, (unsigned)all[i].value);
        }
    }
    say("\n");
}

static void tried(const struct mt_engine *engine)
{
    struct mt_engine_decision all[4];
    uint32_t n = mt_engine_decisions(engine, all, 4);
    for (uint32_t i = 0; i < n && i < 4; i++) {
        say("%u: %s of %u to %u bytes, %s: %u known, %u tried\n",
            engine->process, all[i].tried == MT_ENGINE_TRIED_ASKING ? "receives" : "sends",
            (unsigned)all[i].from, (unsigned)all[i].to, all[i].state,
            (unsigned)all[i].messages[0], (unsigned)all[i].messages[1]);
    }
}

static struct named *named(const char *name)
{
    for (uint32_t k = 0; k < name_count; k++) {
        if (strcmp(names[k].name, name) == 0) {
            return &names[k];
        }
    }
    return NULL;
}

static bool command(const char *line)
{
    char verb[16] = "", name[16] = "";
    unsigned p = 0, q = 0, count = 1;
    sscanf(line, "%15s %u %15s", verb, &p, name);
    if (strcmp(verb, "world") == 0) {
        close_world();
        struct world_options o = {
            .processes = (uint32_t)value(line, "processes=", 2),
            .window = (uint32_t)value(line, "window=", 16),
            .eager_limit = (uint32_t)value(line, "eager=", 64),
            .usage = (uint32_t)value(line, "usage=", 80),
            .sample = (uint32_t)value(line, "sample=", 20),
            .ring_bytes = (uint32_t)value(line, "ring=", 0),
            .verify_every = (uint32_t)value(line, "verify=", 0),
            .straight = find(line, " straight") != NULL,
            .max_work = 4096,
            .rendezvous = find(line, " try") != NULL ? MT_ENGINE_RGET
                                                     : MT_ENGINE_RTR,
            .try_asking = find(line, " try") != NULL};
        world_begin(&o);
        for (uint32_t i = 0; i < world.size; i++) {
            world.engines[i].o.say = told;
            world.engines[i].hold_gap_ns = UINT64_MAX;
            world.engines[i].o.user = &world.engines[i];
        }
        open_world = true;
    } else if (!open_world || p >= world.size) {
        return false;
    } else if (strcmp(verb, "receive") == 0) {
        struct named *n =
            name_new(p, name, (uint64_t)value(line, "bytes=", 0), true,
                     find(line, " spread") != NULL);
        if (find(line, " in=") != NULL) {
            char other[sizeof(n->name)];
            sscanf(find(line, " in="), "%15s", other);
            free(n->memory);
            n->memory = named(other)->memory;
            n->borrows = true;
        }
        struct mt_buffer b = buffer_of(n);
        CHECK_EQ(mt_engine_receive(world.contexts[p], &n->request,
                                   value(line, "from=", 0),
                                   value(line, "tag=", 0), &b),
                 MT_OK);
    } else if (strcmp(verb, "send") == 0) {
        struct named *n = name_new(
            p, name, (uint64_t)value(line, "bytes=", 0), false,
            find(line, " spread") != NULL);
        for (uint64_t i = 0; i < n->bytes; i++) {
            *byte_of(n, i) = content_of(n, i);
        }
        struct mt_buffer b = buffer_of(n);
        CHECK_EQ(mt_engine_send(world.contexts[p], &n->request,
                                value(line, "to=", 0), value(line, "tag=", 0),
                                find(line, "synchronous") != NULL
                                    ? MT_ENGINE_SYNCHRONOUS
                                    : MT_ENGINE_STANDARD,
                                &b),
                 MT_OK);
        world.engines[p].hold_gap_ns = UINT64_MAX;
    } else if (strcmp(verb, "cancel") == 0 && named(name) != NULL) {
        mt_engine_cancel(&named(name)->request);
    } else if (sscanf(line, "move %u>%u %u", &p, &q, &count) >= 2) {
        while (count-- > 0) {
            if (!world_move(p, q)) {
                say("nothing\n");
            }
        }
    } else if (sscanf(line, "land %u>%u %u", &p, &q, &count) >= 2) {
        while (count-- > 0 && world_land(p, q)) {
        }
    } else if (sscanf(line, "ring %u>%u", &p, &q) == 2) {
        world.peers[p][q].sent = world.peers[q][p].arrived = 100;
        mt_ring_offer(&world.peers[q][p]);
        world_progress(q);
    } else if (strcmp(verb, "settle") == 0) {
        world_settle();
    } else if (strcmp(verb, "look") == 0) {
        mt_engine_look(&world.engines[p]);
    } else if (strcmp(verb, "busy") == 0) {
        world.engines[p].hold_gap_ns = 1;
    } else if (strcmp(verb, "late") == 0) {
        mt_engine_lock(&world.engines[p]);
        mt_hold_late(&world.engines[p], UINT64_MAX);
        mt_engine_unlock(&world.engines[p]);
    } else if (strcmp(verb, "refuse") == 0) {
        world.pds[p].refuses = true;
    } else if (strcmp(verb, "accept") == 0) {
        world.pds[p].refuses = false;
    } else if (strcmp(verb, "full") == 0) {
        world.pds[p].full = true;
        world.pds[p].but = (uint32_t)value(line, "but=", 0);
    } else if (strcmp(verb, "free") == 0) {
        world.pds[p].full = false;
        mt_engine_progress(&world.engines[p]);
    } else if (strcmp(verb, "die") == 0) {
        world_die(p);
    } else if (strcmp(verb, "lose") == 0) {
        world_lose(p);
    } else if (strcmp(verb, "counts") == 0) {
        counts(p);
    } else if (strcmp(verb, "tried") == 0) {
        tried(&world.engines[p]);
    } else {
        return false;
    }
    look();
    return true;
}

int main(int argc, char **argv)
{
    int rtr = story_main("c/test/testdata/rtr", command, close_world, argc,
                         argv);
    int reuse = story_main("c/test/testdata/reuse", command, close_world, argc,
                           argv);
    int hold = story_main("c/test/testdata/hold", command, close_world, argc,
                          argv);
    return rtr != 0 || reuse != 0 || hold != 0;
}
