/* archive.h: writes an OTF2 archive through libotf2. */
#ifndef MPITRACE_OTF2_ARCHIVE_H
#define MPITRACE_OTF2_ARCHIVE_H

#include "stream.h"

struct mt_archive;

/* NULL with *why_p set if the archive cannot be made in directory. */
struct mt_archive *mt_archive_open(const char *directory, const char *name,
                                   const char **why_p);
/* A sink: self is the archive. */
const char *mt_archive_record(void *self, const struct mt_otf2_record *r);
/* Frees the archive either way; NULL is success. */
const char *mt_archive_close(struct mt_archive *archive);

#endif
