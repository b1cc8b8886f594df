/* knobs.c: settings from the environment. Reads, checks and names; the list
 * itself is generated from spec/knobs.json. */
#include <stdlib.h>
#include <string.h>

#include "../include/knobs.gen.h"
#include "state.h"

extern char **environ;

static const char *mt_knob_text(const char *variable, const char *otherwise)
{
    const char *text = getenv(variable);
    return text != NULL && text[0] != '\0' ? text : otherwise;
}

static char *mt_knob_keep(char *to, const char **field_p)
{
    size_t n = strlen(*field_p) + 1;
    *field_p = memcpy(to, *field_p, n);
    return to + n;
}

/* Copies: a program may write its title over the environment it was started with. */
void mt_knobs_read(struct mt_knobs *knobs_p)
{
    size_t bytes = 0;
#define MT_READ(field, variable, otherwise)                                  \
    knobs_p->field = mt_knob_text(variable, otherwise);                      \
    bytes += strlen(knobs_p->field) + 1;
    MPITRACE_KNOBS(MT_READ)
#undef MT_READ
    char *to = mt_private_bytes(bytes);
    if (to == NULL) {
        return;
    }
#define MT_KEEP(field, variable, otherwise)                                  \
    to = mt_knob_keep(to, &knobs_p->field);
    MPITRACE_KNOBS(MT_KEEP)
#undef MT_KEEP
}

static bool mt_knob_known(const char *entry)
{
#define MT_NAMED(field, variable, otherwise)                                 \
    if (strncmp(entry, variable "=", sizeof(variable)) == 0) {               \
        return true;                                                         \
    }
    MPITRACE_KNOBS(MT_NAMED)
#undef MT_NAMED
#define MT_NAMED(variable)                                                   \
    if (strncmp(entry, variable "=", sizeof(variable)) == 0) {               \
        return true;                                                         \
    }
    MPITRACE_OTHER_NAMES(MT_NAMED)
#undef MT_NAMED
    return false;
}

void mt_knobs_warn_unknown(void)
{
    for (char **e = environ; e != NULL && *e != NULL; e++) {
        if (strncmp(*e, "MPITRACE_", 9) == 0 && !mt_knob_known(*e)) {
            mt_say_once("unknown setting %.*s is ignored (docs/settings.md "
                        "lists all)",
                        (int)strcspn(*e, "="), *e);
        }
    }
}

uint64_t mt_knob_bytes(const char *name, const char *text, uint64_t lowest,
                       uint64_t highest, uint64_t otherwise)
{
    char *end = NULL;
    uint64_t v = strtoull(text, &end, 10);
    unsigned shift = 0;
    switch (*end) {
    case 'K': case 'k': shift = 10; break;
    case 'M': case 'm': shift = 20; break;
    case 'G': case 'g': shift = 30; break;
    default: break;
    }
    if (end == text || (*end != '\0' && (shift == 0 || end[1] != '\0')) ||
        v > highest >> shift || v << shift < lowest) {
        mt_say_once("%s=%s is not a number from %llu to %llu (suffixes K M G); "
                    "%llu is used",
                    name, text, (unsigned long long)lowest,
                    (unsigned long long)highest, (unsigned long long)otherwise);
        return otherwise;
    }
    return v << shift;
}
