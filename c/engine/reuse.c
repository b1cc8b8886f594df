/* reuse.c: see reuse.h. */
#include "reuse.h"

#include <stdlib.h>
#include <string.h>

/* ---- samples ---- */

static bool mt_known(const struct mt_reuse_samples *s)
{
    return s->n >= MT_REUSE_LOOK;
}

static double mt_median(const struct mt_reuse_samples *s)
{
    const uint32_t n = MT_REUSE_LOOK;
    uint64_t v[MT_REUSE_LOOK];
    if (!mt_known(s)) {
        return 0;
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = i;
        for (; at > 0 && v[at - 1] > s->ns[i]; at--) {
            v[at] = v[at - 1];
        }
        v[at] = s->ns[i];
    }
    return (double)(v[(n - 1) / 2] + v[n / 2]) / 2;
}

static double mt_mean(const struct mt_reuse_samples *s)
{
    uint64_t sum = 0, largest = 0;
    if (!mt_known(s)) {
        return 0;
    }
    for (uint32_t i = 0; i < MT_REUSE_LOOK; i++) {
        sum += s->ns[i];
        largest = s->ns[i] > largest ? s->ns[i] : largest;
    }
    return (double)(sum - largest) / (MT_REUSE_LOOK - 1);
}

void mt_reuse_sample(struct mt_reuse_samples *s, uint64_t ns)
{
    s->ns[s->n++ % MT_REUSE_LOOK] = ns;
    s->median = mt_median(s);
    s->mean = mt_mean(s);
}

/* ---- buffers ---- */

static uint32_t mt_slots(const struct mt_reuse *r)
{
    return 2 * r->room;
}

static uint32_t *mt_slot(const struct mt_reuse *r, uint64_t address)
{
    uint32_t mask = mt_slots(r) - 1;
    uint32_t at = (uint32_t)(mt_hash(address) >> 32);
    for (;; at++) {
        uint32_t *slot = &r->index[at & mask];
        if (*slot == 0 || r->rows[*slot - 1].address == address) {
            return slot;
        }
    }
}

/* Makes room for more buffers, or stops adding them for good (thesis, 5.3.4): a
 * full table stands for its growing chains. */
static bool mt_grow(struct mt_reuse *r)
{
    bool worth = r->frequent * MT_REUSE_SHARE >= r->count;
    r->stopped = r->stopped || !worth || 2 * r->room > r->most;
    if (r->stopped) {
        return false;
    }
    r->room *= 2;
    memset(r->index, 0, mt_slots(r) * sizeof(*r->index));
    for (uint32_t i = 0; i < r->count; i++) {
        *mt_slot(r, r->rows[i].address) = i + 1;
    }
    return true;
}

/* Counts a use; NULL: it has no place. */
static struct mt_reuse_row *mt_use(struct mt_reuse *r, uint64_t address)
{
    uint32_t *slot = mt_slot(r, address);
    if (mt_unlikely(*slot == 0)) {
        if (address == 0 || (r->count == r->room && !mt_grow(r))) {
            r->untracked++;
            return NULL;
        }
        slot = mt_slot(r, address);
        r->rows[r->count] = (struct mt_reuse_row){.address = address};
        *slot = ++r->count;
    }
    struct mt_reuse_row *row = &r->rows[*slot - 1];
    row->uses++;
    return row;
}

/* ---- places ---- */

static struct mt_reuse_site *mt_site(struct mt_reuse *r, uint64_t site,
                                     uint64_t bytes)
{
    uint32_t size = mt_reuse_size(bytes);
    uint64_t at = mt_hash(site << 6 ^ size) >> 32;
    struct mt_reuse_site *s;
    for (;; at++) {
        s = &r->sites[at % (2 * MT_REUSE_SITES)];
        if (!s->taken || (s->site == site && s->size == size)) {
            break;
        }
    }
    if (mt_unlikely(!s->taken)) {
        if (r->site_count == MT_REUSE_SITES) {
            return &r->others;
        }
        r->site_count++;
        *s = (struct mt_reuse_site){.site = site,
                                    .size = size,
                                    .taken = true,
                                    .hold = MT_REUSE_HOLD};
    }
    return s;
}

/* ---- the model ---- */

/* The use at which a buffer is registered, Lm being exposed. Eq 5.3. False: none
 * pays. */
static bool mt_threshold(const struct mt_reuse *r, uint32_t size,
                         double exposed, double *uses_p)
{
    const double most = (double)(UINT64_C(1) << 40);
    double v = r->usage.median + r->cache.median;
    double gain = r->copies[size].median - v - exposed;
    if (!(gain > 0)) {
        return false;
    }
    double n = r->registering[size] / gain;
    if (n >= most) {
        return false;
    }
    n = (double)(uint64_t)n + 1;
    double part = n * r->speculation;
    double whole = (double)(uint64_t)part;
    *uses_p = whole < part ? whole + 1 : whole;
    return true;
}

/* Whether a buffer has been used often enough, at this place. */
static bool mt_pays(struct mt_reuse *r, struct mt_reuse_site *at, uint32_t size,
                    uint64_t uses)
{
    double n;
    bool ever = mt_threshold(r, size, 0, &n);
    if (ever && (double)uses < n) {
        return false; /* whatever the place waits */
    }
    at->looks = at->looks && at->asked < MT_REUSE_LOOK;
    if (at->looks && !ever) {
        return true;
    }
    bool ok = mt_threshold(r, size, at->exposed.mean, &n);
    bool known = mt_known(&at->exposed);
    if (ok && (known || at->asked < MT_REUSE_LOOK)) {
        at->rests = false;
        at->rested = 0;
        at->hold = known ? MT_REUSE_HOLD : at->hold;
        return (double)uses >= n;
    }
    if (!ok && !at->rests) {
        at->rests = true;
        r->retreats += ever;
    }
    if (++at->rested < at->hold) {
        return false;
    }
    uint64_t hold = 2 * at->hold; /* a new look */
    at->hold = hold < MT_REUSE_HOLD_MOST ? hold : MT_REUSE_HOLD_MOST;
    at->rests = false;
    at->rested = at->asked = 0;
    at->exposed = (struct mt_reuse_samples){.n = 0};
    at->looks = !ever;
    return true;
}

struct mt_reuse_sent mt_reuse_send(struct mt_reuse *r, uint64_t address,
                                   uint64_t bytes, uint64_t site)
{
    struct mt_reuse_sent sent = {.straight = false};
    if (bytes < r->from) {
        return sent;
    }
    uint32_t size = mt_reuse_size(bytes);
    bool known = mt_known(&r->copies[size]);
    sent.timed = !known || r->seen[size] % MT_REUSE_COPIES == 0;
    r->seen[size]++;
    struct mt_reuse_row *row = mt_use(r, address);
    if (row == NULL || !known || row->uses < row->retry) {
        return sent;
    }
    struct mt_reuse_site *at = mt_site(r, site, bytes);
    uint64_t rested = at->rested;
    if (!mt_pays(r, at, size, row->uses)) {
        sent.halts = rested == 0 && at->rested == 1;
        return sent;
    }
    r->frequent += !row->frequent;
    row->frequent = true;
    at->asked++;
    if (at->asked % MT_REUSE_AGAIN == 0) {
        sent.timed = true;
        return sent;
    }
    sent.straight = true;
    sent.looks = at->looks;
    sent.timed = !mt_known(&at->exposed) || at->asked % MT_REUSE_SENDS == 0;
    return sent;
}

void mt_reuse_declined(struct mt_reuse *r, uint64_t bytes, uint64_t site)
{
    mt_site(r, site, bytes)->asked--;
}

void mt_reuse_refused(struct mt_reuse *r, uint64_t address, uint64_t bytes,
                      uint64_t site)
{
    struct mt_reuse_row *row = &r->rows[*mt_slot(r, address) - 1];
    mt_reuse_declined(r, bytes, site);
    row->refusals += row->refusals < MT_REUSE_REFUSALS;
    row->retry = row->uses + (UINT64_C(1) << row->refusals);
}

void mt_reuse_copied(struct mt_reuse *r, uint64_t bytes, uint64_t ns)
{
    mt_reuse_sample(&r->copies[mt_reuse_size(bytes)], ns);
}

void mt_reuse_exposed(struct mt_reuse *r, uint64_t bytes, uint64_t site,
                      uint64_t ns)
{
    mt_reuse_sample(&mt_site(r, site, bytes)->exposed, ns);
}

/* ---- beginning and end ---- */

bool mt_reuse_open(struct mt_reuse *r, uint64_t from, uint32_t speculation,
                   uint32_t room, uint32_t most)
{
    memset(r, 0, sizeof(*r));
    r->from = from > MT_REUSE_LEAST ? from : MT_REUSE_LEAST;
    r->speculation = (double)speculation / 100;
    r->room = room;
    r->most = most;
    r->others.hold = MT_REUSE_HOLD;
    r->rows = calloc(most, sizeof(*r->rows));
    r->index = calloc(2 * (size_t)most, sizeof(*r->index));
    if (r->rows == NULL || r->index == NULL) {
        mt_reuse_close(r);
        return false;
    }
    return true;
}

void mt_reuse_close(struct mt_reuse *r)
{
    free(r->rows);
    free(r->index);
    r->rows = NULL;
    r->index = NULL;
}
