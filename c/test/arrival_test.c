/* sources: c/probe/enter.c c/probe/site.c c/probe/request.c c/probe/arrival.c c/probe/reuse.c c/probe/event.c */
/* Sampling of collective operations: ranks that see different numbers of them
 * keep the same ones, rare operations survive frequent ones, and what is kept is
 * what the rule says and no less. */
#include "check.h"
#include "fixture.h"

static void arrive(struct fixture *f, struct mt_comm *comm, uint32_t call,
                   uint32_t sequence)
{
    struct mt_instance seen = {.call = call, .sequence = sequence, .root = -1,
                               .enter = sequence, .wait = sequence,
                               .exit = sequence + 1};
    mt_arrival(&f->shard, comm, &seen);
}

static const struct mt_seg_arrival_class *class_of(const struct fixture *f,
                                                   uint64_t kin, uint32_t call)
{
    for (unsigned i = 0; i < MT_ARRIVAL_CLASSES; i++) {
        const struct mt_seg_arrival_class *c = &f->class_rows[i];
        if (c->kin == kin && c->call == call) {
            return c;
        }
    }
    return NULL;
}

/* The dumb twin: every instance of a class that reaches its level is there,
 * once, and no other. */
static void check_class(const struct fixture *f, const struct mt_comm *comm,
                        uint32_t call, uint32_t first, uint32_t step,
                        uint32_t end)
{
    const struct mt_seg_arrival_class *c = class_of(f, comm->kin, call);
    uint32_t want = 0, got = 0;
    CHECK(c != NULL);
    CHECK_EQ(c->instances, (end - first + step - 1) / step);
    for (uint32_t s = first; s < end; s += step) {
        want += mt_arrival_reaches(mt_arrival_hash(comm->id, s, 0), c->level);
    }
    for (uint32_t i = 0; i < f->arrivals.used; i++) {
        const struct mt_seg_arrival *r = &f->arrival_rows[i];
        if (r->kin == comm->kin && r->call == call) {
            got++;
            CHECK(mt_arrival_reaches(mt_arrival_hash(comm->id, r->sequence, 0),
                                     c->level));
            CHECK_EQ(r->enter_ticks, r->sequence);
        }
    }
    CHECK_EQ(got, want);
    CHECK_EQ(c->kept, want);
    CHECK_EQ(c->dropped, 0);
}

/* A million of one operation, a hundred of another. */
static void test_rare(void)
{
    struct fixture *f = fixture_make(FIXTURE_SITES);
    struct mt_comm comm = fixture_comm;
    fixture_extras(f);
    fixture_pairs = 0;
    uint32_t paired = 0; /* instances before the latest pair of clocks */
    for (uint32_t s = 0; s < 1000000; s++) {
        unsigned pairs = fixture_pairs;
        arrive(f, &comm, s % 10000 == 7 ? 5 : 3, s);
        paired = fixture_pairs > pairs ? s : paired;
        CHECK(s - paired <= s / 2 + 1000);
    }
    CHECK(fixture_pairs < 64);
    CHECK_EQ(class_of(f, comm.kin, 5)->kept, 100);
    CHECK_EQ(class_of(f, comm.kin, 5)->level, 0);
    check_class(f, &comm, 5, 7, 10000, 1000000);
    const struct mt_seg_arrival_class *often = class_of(f, comm.kin, 3);
    CHECK_EQ(often->instances, 999900);
    CHECK(often->kept > MT_ARRIVAL_ROWS / 8);
    CHECK_EQ(f->arrivals.reserved0 % 2, 0);
    free(f);
}

/* Two ranks, one of which saw more: of what reaches the higher level, both have
 * kept all. */
static void test_common(void)
{
    struct fixture *a = fixture_make(FIXTURE_SITES);
    struct fixture *b = fixture_make(FIXTURE_SITES);
    struct mt_comm comm = fixture_comm, other = fixture_comm;
    other.id = 0x1234;
    other.kin = 0x4321;
    fixture_extras(a);
    fixture_extras(b);
    for (uint32_t s = 0; s < 20000; s++) {
        arrive(a, &comm, 3, s);
        arrive(b, &comm, 3, s);
        for (uint32_t k = 0; k < 5; k++) {
            arrive(b, &other, 3, 5 * s + k);
        }
    }
    check_class(a, &comm, 3, 0, 1, 20000);
    check_class(b, &comm, 3, 0, 1, 20000);
    check_class(b, &other, 3, 0, 1, 100000);
    uint32_t low = class_of(a, comm.kin, 3)->level;
    uint32_t high = class_of(b, comm.kin, 3)->level;
    CHECK(high > low);
    free(a);
    free(b);
}

/* More classes than there are places: counted in the rest, none is lost. */
static void test_classes(void)
{
    struct fixture *f = fixture_make(FIXTURE_SITES);
    struct mt_comm comm = fixture_comm;
    uint64_t instances = 0, classes = 0;
    fixture_extras(f);
    for (uint32_t n = 0; n < 100; n++) {
        comm.id = 0x1000 + n;
        comm.kin = 0x2000 + n;
        arrive(f, &comm, 3, 0);
        arrive(f, &comm, 3, 1);
    }
    for (unsigned i = 0; i <= MT_ARRIVAL_CLASSES; i++) {
        instances += f->class_rows[i].instances;
        classes += f->class_rows[i].call != 0;
    }
    CHECK_EQ(instances, 200);
    CHECK(classes > MT_ARRIVAL_CLASSES * 7 / 8);
    CHECK_EQ(f->class_rows[MT_ARRIVAL_CLASSES].instances, 200 - 2 * classes);
    CHECK_EQ(f->arrivals.used, 2 * classes);
    free(f);
}

/* A communicator made anew in every iteration: one class, sampled by the same
 * rule, and none of it in the rest. */
static void test_made_anew(void)
{
    struct fixture *f = fixture_make(FIXTURE_SITES);
    struct mt_comm comm = fixture_comm;
    uint32_t want = 0;
    fixture_extras(f);
    for (uint32_t n = 0; n < 20000; n++) {
        comm.id = 0x1000 + n;
        arrive(f, &comm, 3, 0);
        arrive(f, &comm, 3, 1);
    }
    const struct mt_seg_arrival_class *c = class_of(f, comm.kin, 3);
    CHECK(c != NULL);
    CHECK_EQ(c->instances, 40000);
    CHECK_EQ(f->class_rows[MT_ARRIVAL_CLASSES].instances, 0);
    for (uint32_t n = 0; n < 20000; n++) {
        for (uint32_t s = 0; s < 2; s++) {
            want += mt_arrival_reaches(mt_arrival_hash(0x1000 + n, s, 0),
                                       c->level);
        }
    }
    CHECK(want > MT_ARRIVAL_ROWS / 8);
    CHECK_EQ(c->kept, want);
    CHECK_EQ(f->arrivals.used, want);
    free(f);
}

/* What may not be compared between ranks is not kept. */
static void test_left_out(void)
{
    struct fixture *f = fixture_make(FIXTURE_SITES);
    struct mt_comm comm = fixture_comm;
    fixture_extras(f);
    comm.comparable = 0;
    arrive(f, &comm, 3, 0);
    comm = fixture_comm;
    comm.inter = 1;
    arrive(f, &comm, 3, 1);
    comm = fixture_comm;
    comm.size = 1;
    arrive(f, &comm, 3, 2);
    CHECK_EQ(f->arrivals.used, 0);
    free(f);
}

/* The values that arrival/golden_test.go pins too: readers decide by the same
 * hash which instances all ranks have kept. */
static void test_hash(void)
{
    CHECK_EQ(mt_arrival_hash(0, 0, 0), UINT64_C(0xe220a8397b1dcdaf));
    CHECK_EQ(mt_arrival_hash(UINT64_C(0x0123456789abcdef), 42, 0),
             UINT64_C(0x95f2f51fe5430ce8));
    CHECK_EQ(mt_arrival_hash(7, 5, 9), UINT64_C(0xc4ad56176f971919));
    CHECK_EQ(mt_arrival_hash(UINT64_MAX, UINT32_MAX, UINT32_MAX),
             UINT64_C(0xb4d055fcf2cbbd7b));
}

int main(void)
{
    test_hash();
    test_rare();
    test_common();
    test_classes();
    test_made_anew();
    test_left_out();
    return check_failures != 0;
}
