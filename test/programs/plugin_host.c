/*
 * A program without MPI that loads a plug-in which brings MPI with it
 * (RTLD_LOCAL, as Python modules are), uses it and unloads it; argv[1] is the
 * plug-in.
 *
 * Each rank, from the plug-in: Init, twice Comm_rank and 6 Sendrecv of 4 bytes,
 * Finalize.
 */
#include <dlfcn.h>
#include "program.h"

int main(int argc, char **argv)
{
    void *plugin = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;

    if (plugin == NULL) {
        say("cannot load: %s", dlerror());
        return 1;
    }
    int (*start)(void) = (int (*)(void))dlsym(plugin, "plugin_start");
    int (*exchange)(int) = (int (*)(int))dlsym(plugin, "plugin_exchange");
    int (*finish)(void) = (int (*)(void))dlsym(plugin, "plugin_finish");

    say("init returns %d", start());
    say("sum %d", exchange(6));
    say("sum %d", exchange(6));
    say("finalize returns %d", finish());
    say("closed %d", dlclose(plugin));
    say("gone %d", dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD) == NULL);
    return 0;
}
