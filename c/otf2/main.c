/* main.c: mpitrace-otf2 DIRECTORY NAME: writes the OTF2 archive NAME.otf2 into
 * DIRECTORY from the stream on standard input (stream.h). mpitrace export
 * starts it: that program is built without C. It prints what it wrote; status 1
 * and a line on standard error say what went wrong. */
#include "archive.h"

#include <inttypes.h>

static int fail(const char *what, const char *why)
{
    fprintf(stderr, "mpitrace-otf2: %s: %s\n", what, why);
    return 1;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fputs("usage: mpitrace-otf2 DIRECTORY NAME < STREAM\n", stderr);
        return 2;
    }
    const char *why = NULL;
    struct mt_archive *archive = mt_archive_open(argv[1], argv[2], &why);
    if (archive == NULL) {
        return fail(argv[1], why);
    }
    struct mt_otf2_sink sink = {mt_archive_record, archive};
    struct mt_otf2_outcome outcome;
    mt_otf2_read(stdin, &sink, &outcome);
    if (outcome.why != NULL) {
        char what[64];
        snprintf(what, sizeof(what), "record %" PRIu64 " at byte %" PRIu64,
                 outcome.records, outcome.byte);
        mt_archive_close(archive);
        return fail(what, outcome.why);
    }
    why = mt_archive_close(archive);
    if (why != NULL) {
        return fail(argv[1], why);
    }
    printf("%" PRIu64 " events\n", outcome.events);
    return fflush(stdout) == 0 ? 0 : fail("standard output", "cannot be written");
}
