/* sources: c/engine/reuse.c */
/* Short messages whose copy takes less than the two look-ups that it replaces: these
 * are measured anew less and less often, from however many places they are sent. */
#include "../engine/reuse.h"
#include "check.h"

enum { MESSAGES = 4000000, COPY = 60, LOOK_UP = 40, REGISTRATION = 60 };

/* How many of the messages of the second half left straight. */
static uint64_t straight(uint64_t places)
{
    static struct mt_reuse r;
    uint64_t n = 0;
    CHECK(mt_reuse_open(&r, 128, 25, 512, 8192));
    for (uint64_t i = 0; i < MESSAGES; i++) {
        uint64_t site = 100 + i % places, address = 4096 * (1 + i % places);
        struct mt_reuse_sent sent = mt_reuse_send(&r, address, 200, site);
        mt_reuse_sample(&r.usage, LOOK_UP);
        if (sent.straight) {
            n += i >= MESSAGES / 2;
            if (sent.looks || r.cache.n < MT_REUSE_LOOK) {
                mt_reuse_sample(&r.cache, REGISTRATION);
            }
            if (sent.timed) {
                mt_reuse_exposed(&r, 200, site, 0);
            }
        } else if (sent.timed) {
            mt_reuse_copied(&r, 200, COPY);
        }
    }
    mt_reuse_close(&r);
    return n;
}

int main(void)
{
    for (uint64_t places = 1; places <= 64; places *= 4) {
        /* between two looks of a place by then, at least */
        uint64_t rests = MESSAGES / 2 / places < MT_REUSE_HOLD_MOST
                             ? MESSAGES / 2 / places / 2
                             : MT_REUSE_HOLD_MOST;
        uint64_t looks = MESSAGES / 2 / places / rests + 1;
        CHECK(straight(places) <= places * looks * MT_REUSE_LOOK);
    }
    return check_failures != 0;
}
