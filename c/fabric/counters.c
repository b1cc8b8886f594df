/* counters.c: what the system counts of a port, from the folders that its provider
 * names. Cold. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "provider.h"

/* False: it is no number, cannot be read, or has too long a name. */
static bool mt_counter_read(const char *directory, const char *name,
                            struct mt_fabric_counter *counter)
{
    char path[512], text[32] = "", *end;
    size_t length = strlen(name);
    if (length >= sizeof(counter->name)) {
        return false;
    }
    memcpy(counter->name, name, length + 1);
    snprintf(path, sizeof(path), "%s/%s", directory, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t bytes = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
    if (fd >= 0) {
        close(fd);
    }
    counter->value = strtoull(text, &end, 10);
    return bytes > 0 && end != text;
}

uint32_t mt_fabric_counters(const struct mt_fabric_device *device,
                            uint32_t port, struct mt_fabric_counter *counters,
                            uint32_t limit)
{
    const struct mt_fabric_provider *provider =
        mt_fabric_provider_named(device->provider);
    char directory[256];
    uint32_t found = 0;
    for (uint32_t n = 0; provider != NULL && provider->counters != NULL &&
                         provider->counters(device, port, n, directory,
                                            sizeof(directory));
         n++) {
        struct dirent **names = NULL;
        int count = scandir(directory, &names, NULL, alphasort);
        for (int i = 0; i < count; i++) {
            /* of RDMA devices also how old the others may be */
            if (found < limit && strcmp(names[i]->d_name, "lifespan") != 0 &&
                mt_counter_read(directory, names[i]->d_name,
                                &counters[found])) {
                found++;
            }
            free(names[i]);
        }
        free(names);
    }
    return found;
}
