/* sources: c/otf2/stream.c */
/* The parser of the stream to mpitrace-otf2: a whole stream comes through as it
 * was written; whatever else comes is refused, and never harms. */
#include "../otf2/stream.h"

#include <stdlib.h>
#include <string.h>

#include "check.h"

/* A stream under way. */
static unsigned char stream[1 << 16];
static size_t length;
static uint64_t records;

static void raw(const void *data, size_t n)
{
    memcpy(stream + length, data, n);
    length += n;
}

static void number(uint64_t v, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        stream[length++] = (unsigned char)(v >> (8 * i));
    }
}

static void head(uint32_t type, uint32_t bytes)
{
    number(type, 4);
    number(bytes, 4);
    records++;
}

static void begin(void)
{
    length = 0;
    records = 0;
    raw("MPTOTF2\1", 8);
}

/* An event of location 0 with one number behind. */
static void event(uint32_t type, uint64_t time, uint32_t v)
{
    head(type, 20);
    number(0, 8);
    number(time, 8);
    number(v, 4);
}

static void close_location(void)
{
    head(MT_OTF2_CLOSE, 8);
    number(0, 8);
}

static void message(uint32_t type, uint64_t time)
{
    bool request = type == MT_OTF2_ISEND || type == MT_OTF2_IRECV;
    head(type, request ? 44 : 36);
    number(0, 8);
    number(time, 8);
    number(0, 4); /* comm */
    number(1, 4); /* rank */
    number(7, 4); /* tag */
    number(4096, 8);
    if (request) {
        number(99, 8);
    }
}

static void definitions(void)
{
    head(MT_OTF2_CLOCK, 32);
    number(1000000000, 8);
    number(0, 8);
    number(100, 8);
    number(0, 8);
    head(MT_OTF2_STRING, 4);
    raw("text", 4);
    head(MT_OTF2_NODE, 12);
    number(0, 4);
    number(0, 4);
    number(MT_OTF2_NONE, 4);
    head(MT_OTF2_PROCESS, 8);
    number(0, 8);
    head(MT_OTF2_LOCATION, 8);
    number(0, 8);
    head(MT_OTF2_REGION, 20);
    number(0, 4);
    number(0, 4);
    number(1, 4);
    number(0, 4);
    number(42, 4);
    head(MT_OTF2_GROUP, 24);
    number(0, 4);
    number(4, 4);
    number(5, 8);
    number(6, 8);
    head(MT_OTF2_COMM, 8);
    number(0, 8);
    head(MT_OTF2_PROPERTY, 12);
    number(0, 8);
    number(0, 4);
}

static void end(void)
{
    uint64_t before = records;
    head(MT_OTF2_END, 8);
    number(before, 8);
}

static void whole(void)
{
    begin();
    event(MT_OTF2_ENTER, 10, 0);
    message(MT_OTF2_SEND, 10);
    message(MT_OTF2_ISEND, 11);
    head(MT_OTF2_IRECV_REQUEST, 24);
    number(0, 8);
    number(12, 8);
    number(99, 8);
    message(MT_OTF2_RECV, 12);
    message(MT_OTF2_IRECV, 13);
    head(MT_OTF2_COLLECTIVE_BEGIN, 16);
    number(0, 8);
    number(13, 8);
    head(MT_OTF2_COLLECTIVE_END, 44);
    number(0, 8);
    number(14, 8);
    number(0, 4);
    number(MT_OTF2_NONE, 4);
    number(11, 4);
    number(8, 8);
    number(16, 8);
    event(MT_OTF2_LEAVE, 15, 0);
    close_location();
    definitions();
    end();
}

/* What came through, added up. */
struct seen {
    uint64_t records, bytes, members, text;
    bool stop;
};

static const char *take(void *self, const struct mt_otf2_record *r)
{
    struct seen *s = self;
    s->records++;
    if (r->type <= MT_OTF2_COLLECTIVE_END) {
        s->bytes += r->bytes + r->received;
    }
    for (uint32_t i = 0; i < r->member_count; i++) {
        s->members += r->members[i];
    }
    if (r->text != NULL) {
        s->text += strlen(r->text);
    }
    return s->stop ? "stopped" : NULL;
}

static struct seen got;
static struct mt_otf2_outcome outcome;

static const char *feed(size_t n)
{
    struct mt_otf2_sink sink = {take, &got};
    bool stop = got.stop;
    memset(&got, 0, sizeof(got));
    got.stop = stop;
    /* fmemopen does not take an empty buffer */
    FILE *in = n > 0 ? fmemopen(stream, n, "r") : fopen("/dev/null", "r");
    CHECK(in != NULL);
    mt_otf2_read(in, &sink, &outcome);
    fclose(in);
    return outcome.why;
}

static void test_whole(void)
{
    whole();
    CHECK(feed(length) == NULL);
    CHECK(got.records == records - 1 && outcome.records == got.records);
    CHECK(outcome.events == 9 && outcome.locations == 1);
    CHECK(got.bytes == 4 * 4096 + 24 && got.members == 11 && got.text == 4);
}

/* Every prefix, and whatever follows the end, is refused. */
static void test_cut(void)
{
    whole();
    for (size_t n = 0; n < length; n++) {
        CHECK(feed(n) != NULL);
    }
    stream[length++] = 0;
    CHECK(feed(length) != NULL);
}

static void refused(const char *part)
{
    const char *why = feed(length);
    CHECK(why != NULL && strstr(why, part) != NULL);
}

static void test_refused(void)
{
    begin();
    event(MT_OTF2_ENTER, 10, 0);
    event(MT_OTF2_LEAVE, 9, 0);
    refused("backward");
    begin();
    event(MT_OTF2_LEAVE, 9, 0);
    refused("not entered last");
    begin();
    event(MT_OTF2_ENTER, 9, 0);
    event(MT_OTF2_LEAVE, 9, 1);
    refused("not entered last");
    begin();
    event(MT_OTF2_ENTER, 10, 0);
    close_location();
    refused("within a region");
    begin();
    event(MT_OTF2_ENTER, 10, 0);
    definitions();
    refused("not closed");
    begin();
    event(MT_OTF2_ENTER, 10, 3);
    event(MT_OTF2_LEAVE, 10, 3);
    close_location();
    definitions();
    end();
    refused("region is referred to");
    begin();
    close_location();
    definitions();
    event(MT_OTF2_ENTER, 10, 0);
    refused("after the definitions");
    begin();
    definitions();
    records++;
    end();
    refused("records are missing");
    begin();
    head(MT_OTF2_STRING, 3);
    raw("a\0b", 3);
    refused("NUL");
    begin();
    head(MT_OTF2_STRING, UINT32_MAX);
    refused("too large");
    begin();
    head(77, 0);
    refused("unknown type");
    begin();
    head(MT_OTF2_ENTER, 8);
    number(0, 8);
    refused("wrong size");
    begin();
    head(MT_OTF2_COLLECTIVE_BEGIN, 16);
    number(UINT64_MAX, 8);
    number(0, 8);
    refused("too large");
    whole();
    got.stop = true;
    refused("stopped");
    got.stop = false;
    raw("x", 1);
    stream[7] = 2;
    refused("another version");
}

/* Any bytes at all: a whole stream with a few of them changed. */
static void test_fuzz(void)
{
    unsigned long long state = 88172645463325252u;
    int accepted = 0;
    const int rounds = 1000;
    for (int round = 0; round < rounds; round++) {
        whole();
        size_t n = length;
        for (unsigned long long i = check_random(&state) % 4 + 1; i > 0; i--) {
            size_t place = 8 + check_random(&state) % (n - 8);
            stream[place] = (unsigned char)(check_random(&state) >> 40);
        }
        if (check_random(&state) % 16 == 0) {
            n = check_random(&state) % (n + 1);
        }
        accepted += feed(n) == NULL;
    }
    /* a change of a number that refers to nothing does no harm */
    CHECK(accepted > rounds / 100 && accepted < rounds * 3 / 4);
}

int main(void)
{
    test_whole();
    test_cut();
    test_refused();
    test_fuzz();
    return check_failures != 0;
}
