/* attach.c: finds the MPI library behind us, tells which ABI it has, and sets
 * the slots that the exported entries jump through.
 *
 * Happens at the first call of any MPI function, not when the library is
 * loaded: a process that never calls MPI pays nothing, and an MPI that comes
 * with dlopen (mpi4py) is there by then. Before MPI_Init the gate is closed
 * and every wrapper forwards. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../abi/openmpi.h"
#include "../gen/tables.h"
#include "../probe/call.h"
#include "compat.h"
#include "state.h"

void *mt_real_pmpi[MPITRACE_CALL_LIMIT];
static void *mt_library; /* handle of an MPI that RTLD_NEXT does not see */
static bool mt_attached;
static uint64_t mt_searched; /* mt_module_changes of a search that found no MPI */

struct mt_openmpi_handles mt_openmpi_handles;

/* The next definition of a symbol behind us, or that of a dlopened MPI. */
void *mt_attach_symbol(const char *name)
{
    void *p = dlsym(RTLD_NEXT, name);
    if (p == NULL && mt_library != NULL) {
        p = dlsym(mt_library, name);
    }
    return p;
}

int mt_attach_initialized(void)
{
    void *value = NULL;
    int flag = 0;
    if (mt_attached ||
        mt_module_provider("PMPI_Initialized", &value) == NULL) {
        return 0;
    }
    ((int (*)(int *))value)(&flag);
    return flag;
}

uint32_t mt_attach_count(void)
{
    uint32_t n = 0;
    for (uint32_t id = 0; id < MPITRACE_CALL_LIMIT; id++) {
        n += mt_real_mpi[id] != NULL;
    }
    return n;
}

/* What a thread finds. The loader's lock is taken for that, which may be held by a
 * thread that loads a library whose constructor calls MPI and comes here, too: so none of
 * ours is held meanwhile. */
struct mt_found {
    void *mpi[MPITRACE_CALL_LIMIT], *pmpi[MPITRACE_CALL_LIMIT];
    void *library; /* see mt_library */
    bool chained;
    bool nowhere; /* no object has an MPI library's functions */
    uint32_t family;
    char version[sizeof(mt_process.mpi_version)];
    char text[8192]; /* the library's: MPI_MAX_LIBRARY_VERSION_STRING of MPICH */
    struct mt_openmpi_handles openmpi;
};

/* The two names of a function are in different objects. (In one they may be two
 * functions: MPI_Status_c2f08 in the Fortran library of MPICH.) */
static bool mt_attach_is_chained(void *mpi, void *pmpi, const char *pmpi_name)
{
    return mpi != pmpi &&
           mt_module_own_symbol((uintptr_t)mpi, pmpi_name) != pmpi;
}

static void *mt_found_symbol(const struct mt_found *f, const char *name)
{
    void *p = dlsym(RTLD_NEXT, name);
    return p == NULL && f->library != NULL ? dlsym(f->library, name) : p;
}

/* The object that holds an address. The list of modules is not asked: what it says of
 * each depends on settings that are not read yet. */
struct mt_object {
    uintptr_t address, start, end; /* of the part that holds it */
    const char *path;
};

static int mt_object_holds(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct mt_object *o = arg;
    (void)size;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + p->p_vaddr;
        if (p->p_type == PT_LOAD && o->address >= start &&
            o->address < start + p->p_memsz) {
            o->start = start;
            o->end = start + p->p_memsz;
            o->path = info->dlpi_name;
            return 1;
        }
    }
    return 0;
}

/* A reference that keeps the object of a function mapped, which may have come with
 * dlopen: our tables point into it. *last: the object that has one. */
static void mt_find_pin(const void *function, struct mt_object *last)
{
    uintptr_t address = (uintptr_t)function;
    if (address == 0 || (address >= last->start && address < last->end)) {
        return;
    }
    *last = (struct mt_object){.address = address};
    if (dl_iterate_phdr(mt_object_holds, last) != 0 && last->path[0] != '\0') {
        dlopen(last->path, RTLD_LAZY | RTLD_NOLOAD);
    }
}

/* Both tables of real functions. */
static void mt_find_functions(struct mt_found *f)
{
    struct mt_object mpi = {.address = 0}, pmpi = {.address = 0};
    if (dlsym(RTLD_NEXT, "PMPI_Init") == NULL) {
        void *value = NULL;
        const char *path = mt_module_provider("PMPI_Init", &value);
        f->nowhere = path == NULL;
        f->library =
            path != NULL ? dlopen(path, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    }
    for (uint32_t id = 1; id < MPITRACE_CALL_LIMIT; id++) {
        char name[64] = "P";
        strncat(name, mt_call_name(id), sizeof(name) - 2);
        if (name[1] == '\0') {
            continue;
        }
        f->mpi[id] = mt_found_symbol(f, name + 1);
        f->pmpi[id] = mt_found_symbol(f, name);
        if (f->pmpi[id] == NULL) {
            f->pmpi[id] = f->mpi[id];
        }
        mt_find_pin(f->mpi[id], &mpi);
        mt_find_pin(f->pmpi[id], &pmpi);
        f->chained |= mt_attach_is_chained(f->mpi[id], f->pmpi[id], name);
    }
}

/* The family by the library's own words; MPI_Get_library_version may be called
 * before MPI_Init (MPI 4.1, 9.1.1). */
static uint32_t mt_find_family(struct mt_found *f)
{
    char *text = f->text;
    int length = 0;
    int (*version)(char *, int *) =
        (int (*)(char *, int *))f->pmpi[MPITRACE_CALL_Get_library_version];
    int major = -1, minor = -1; /* MPI 5.0, 20.2.1: -1 if not that ABI */
    int (*abi)(int *, int *) =
        (int (*)(int *, int *))mt_found_symbol(f, "MPI_Abi_get_version");
    if (abi != NULL) {
        abi(&major, &minor);
    }
    if (version == NULL || major > 0) {
        return MPITRACE_MPI_FAMILY_UNKNOWN;
    }
    version(text, &length);
    text[sizeof(f->text) - 1] = '\0';
    size_t line = strcspn(text, "\n");
    snprintf(f->version, sizeof(f->version), "%.*s", (int)line, text);
    if (strncmp(text, "Open MPI", 8) == 0 &&
        mt_found_symbol(f, "ompi_mpi_comm_world") != NULL) {
        return MPITRACE_MPI_FAMILY_OPENMPI;
    }
    /* One with types of its own over another library tells that one's name, too: it
     * is not of its family. Who stands in front is in the first line. */
    static const char *const others[] = {"MPIwrapper", "MPItrampoline",
                                         "MUKAUTUVA"};
    static const char *const mpich[] = {"MPICH", "Intel(R) MPI", "MVAPICH",
                                        "ParaStation MPI"};
    text[line] = '\0';
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        if (strstr(text, others[i]) != NULL) {
            return MPITRACE_MPI_FAMILY_UNKNOWN;
        }
    }
    for (size_t i = 0; i < sizeof(mpich) / sizeof(mpich[0]); i++) {
        if (strstr(text, mpich[i]) != NULL) {
            return MPITRACE_MPI_FAMILY_MPICH;
        }
    }
    return MPITRACE_MPI_FAMILY_UNKNOWN;
}

/* A data symbol: the program's own copy where the linker made one (copy
 * relocation), which is what the library itself then uses. */
static void *mt_found_data(const struct mt_found *f, const char *name)
{
    void *p = dlsym(RTLD_DEFAULT, name);
    return p != NULL ? p : mt_found_symbol(f, name);
}

static void mt_find(struct mt_found *f)
{
    mt_find_functions(f);
    if (f->mpi[MPITRACE_CALL_Init] == NULL) {
        return;
    }
    f->family = mt_find_family(f);
    if (f->family == MPITRACE_MPI_FAMILY_OPENMPI) {
#define MT_FIND(name, symbol) f->openmpi.name = mt_found_data(f, symbol);
        MT_OPENMPI_HANDLES(MT_FIND)
#undef MT_FIND
    }
}

/* Points every slot whose function the library has at its wrapper, or straight
 * at the library when nothing is to be measured. */
static void mt_attach_slots(const int32_t *table)
{
    for (uint32_t id = 1; id < MPITRACE_CALL_LIMIT; id++) {
        if (mt_real_mpi[id] == NULL) {
            continue;
        }
        void *mpi = mt_real_mpi[id], *pmpi = mt_real_pmpi[id];
        if (table != NULL) {
            mpi = (void *)(mt_table_origin + table[id]);
            pmpi = mt_process.chained
                       ? (void *)(mt_table_origin + mt_table_pmpi_mark[id])
                       : mpi;
        }
        __atomic_store_n(&mt_slots_pmpi[id], pmpi, __ATOMIC_RELEASE);
        __atomic_store_n(&mt_slots_mpi[id], mpi, __ATOMIC_RELEASE);
    }
}

/* In act mode the wrappers stay: they alone tell whose call it is. */
void mt_attach_detach_all(void)
{
    if (mt_acting == 0) {
        mt_attach_slots(NULL);
    }
}

/* From now on the application's calls go to these functions. There is no tool
 * behind us (mt_act_begin sees to that), so the library's own functions are
 * those of mt_real_pmpi. */
void mt_attach_stand_ins(void *const *functions)
{
    for (uint32_t id = 1; id < MPITRACE_CALL_LIMIT; id++) {
        if (functions[id] != NULL && mt_real_pmpi[id] != NULL) {
            __atomic_store_n(&mt_real_mpi[id], functions[id], __ATOMIC_RELEASE);
        }
    }
    __atomic_store_n(&mt_acting, 1, __ATOMIC_RELEASE);
}

/* Every call goes to the library again; for a forked child, where nothing but
 * this memory may be touched. */
void mt_attach_retreat(void)
{
    if (mt_acting != 0) {
        mt_acting = 0;
        memcpy(mt_real_mpi, mt_real_pmpi, sizeof(mt_real_mpi));
    }
}

/* Where a call goes: where it would have gone without us. That is the next
 * definition in the global scope; where there is none (the MPI libraries came
 * with dlopen), a library that calls itself by public names finds its own. In
 * act mode the application's calls, by either name, go to what stands in for
 * the function, also while nothing is measured. */
static void *mt_attach_forward(uint32_t id, uintptr_t address,
                               bool by_pmpi_name)
{
    if (mt_library != NULL && mt_library_count() > 1 &&
        mt_module_own_symbol(address, "PMPI_Init") != NULL) {
        void *own = mt_module_own_symbol(address, mt_call_name(id));
        if (own != NULL) {
            return own;
        }
    }
    if (__atomic_load_n(&mt_acting, __ATOMIC_ACQUIRE) != 0) {
        by_pmpi_name = mt_module_caller(address) == MT_CALLER_LIBRARY;
    }
    return by_pmpi_name ? mt_real_pmpi[id] : mt_real_mpi[id];
}

static void mt_attach_take(const struct mt_found *f)
{
    memcpy(mt_real_mpi, f->mpi, sizeof(mt_real_mpi));
    memcpy(mt_real_pmpi, f->pmpi, sizeof(mt_real_pmpi));
    mt_library = f->library;
    mt_openmpi_handles = f->openmpi;
    mt_process.chained = f->chained;
    mt_process.family = f->family;
    memcpy(mt_process.mpi_version, f->version, sizeof(f->version));
    mt_ops.forward = mt_attach_forward;
    mt_ops.caller = mt_module_caller;
    const char *mode = getenv("MPITRACE_MODE");
    bool off = mode != NULL && strcmp(mode, "off") == 0;
    const int32_t *table = NULL;
    if (mt_process.family == MPITRACE_MPI_FAMILY_OPENMPI) {
        table = mt_table_openmpi;
    } else if (mt_process.family == MPITRACE_MPI_FAMILY_MPICH) {
        table = mt_table_mpich;
    } else if (!off) {
        mt_say_once("this MPI library is not known (%s): nothing is measured; "
                    "known are Open MPI 4 and 5 and the MPICH ABI family",
                    mt_process.mpi_version[0] != '\0'
                        ? mt_process.mpi_version
                        : "it gives no version");
    }
    mt_attach_slots(off ? NULL : table);
    __atomic_store_n(&mt_attached, true, __ATOMIC_RELEASE);
}

/* If no MPI is here yet it is looked for again at the next call that finds something
 * loaded since: programs ask often whether there is one. */
static void mt_attach_once(void)
{
    if (__atomic_load_n(&mt_attached, __ATOMIC_ACQUIRE)) {
        return;
    }
    uint64_t now = mt_module_changes();
    if (now == __atomic_load_n(&mt_searched, __ATOMIC_RELAXED)) {
        return;
    }
    struct mt_found *f = mmap(NULL, sizeof(*f), PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (f == MAP_FAILED) {
        fprintf(stderr, "mpitrace: no memory (%zu bytes) to look for the MPI "
                "library: raise ulimit -v\n", sizeof(*f));
        _exit(127);
    }
    mt_find(f);
    mt_cold_lock();
    if (!mt_attached && f->mpi[MPITRACE_CALL_Init] != NULL) {
        mt_attach_take(f);
    }
    mt_cold_unlock();
    if (f->mpi[MPITRACE_CALL_Init] == NULL && f->nowhere) {
        __atomic_store_n(&mt_searched, now, __ATOMIC_RELAXED);
    }
    munmap(f, sizeof(*f));
}

/* MPI_Initialized and MPI_Finalized where there is no MPI: programs that look
 * whether these symbols exist find ours. */
static int mt_attach_absent(int *flag)
{
    *flag = 0;
    return 0;
}

/* Called by an entry whose slot is empty; returns where to jump. A function
 * that the MPI library lacks, and later.c has not, ends the program as the dynamic
 * linker would have ended it without us. */
void *mt_attach(uint32_t id, bool by_pmpi_name)
{
    mt_attach_once();
    /* before the slot: another thread may attach in between */
    bool attached = __atomic_load_n(&mt_attached, __ATOMIC_ACQUIRE);
    void *target = __atomic_load_n(
        by_pmpi_name ? &mt_slots_pmpi[id] : &mt_slots_mpi[id], __ATOMIC_ACQUIRE);
    if (target == NULL && !attached &&
        (id == MPITRACE_CALL_Initialized || id == MPITRACE_CALL_Finalized)) {
        target = (void *)mt_attach_absent;
    }
    if (target == NULL && attached && (target = mt_later(id)) != NULL) {
        __atomic_store_n(&mt_slots_pmpi[id], target, __ATOMIC_RELEASE);
        __atomic_store_n(&mt_slots_mpi[id], target, __ATOMIC_RELEASE);
    }
    if (target == NULL) {
        fprintf(stderr, "%s: symbol lookup error: undefined symbol: %s%s\n",
                program_invocation_name, by_pmpi_name ? "P" : "",
                mt_call_name(id));
        _exit(127);
    }
    return target;
}

/* ---- functions of the library that do not come through us ---- */

struct mt_uncounted {
    uint32_t count;
    char first[64];
};

static void mt_attach_uncounted(struct mt_uncounted *u, const char *name)
{
    if (u->count++ == 0) {
        snprintf(u->first, sizeof(u->first), "%s", name);
    }
}

/* Those that the spec does not have. */
static void mt_attach_unknown(const char *name, void *unknown)
{
    bool mpi = strncmp(name, "MPI_", 4) == 0 && name[4] >= 'A' &&
               name[4] <= 'Z' && strpbrk(name, "abcdefghijklmnopqrstuvwxyz");
    if (mpi && !mt_call_known(name)) {
        mt_attach_uncounted(unknown, name);
    }
}

/* Those that this variant of the shim leaves out. */
static struct mt_uncounted mt_omitted;

uint32_t mt_attach_omitted(void)
{
    uintptr_t library = (uintptr_t)mt_real_pmpi[MPITRACE_CALL_Init];
    mt_omitted = (struct mt_uncounted){0};
    for (uint32_t id = 1; id < MPITRACE_CALL_LIMIT; id++) {
        const char *name = mt_call_name(id);
        if (mt_real_mpi[id] != NULL &&
            mt_module_own_symbol((uintptr_t)&mt_attach_omitted, name) == NULL &&
            mt_module_own_symbol(library, name) != NULL) {
            mt_attach_uncounted(&mt_omitted, name);
        }
    }
    return mt_omitted.count;
}

const char *mt_attach_omits(void)
{
    return mt_omitted.count > 0 ? mt_omitted.first : NULL;
}

void mt_attach_report_uncounted(void)
{
    struct mt_uncounted unknown = {0};
    mt_module_each_symbol((uintptr_t)mt_real_pmpi[MPITRACE_CALL_Init],
                          mt_attach_unknown, &unknown);
    if (unknown.count > 0) {
        mt_say_once("the MPI library exports %u functions that this version "
                    "does not know (%s%s): they are not counted",
                    unknown.count, unknown.first,
                    unknown.count > 1 ? ", ..." : "");
    }
    if (mt_omitted.count > 0) {
        mt_say_once("the MPI library has %u functions that this variant of the "
                    "shim leaves out (%s%s): they are not counted; "
                    "libmpishim.so has all (--shim)",
                    mt_omitted.count, mt_omitted.first,
                    mt_omitted.count > 1 ? ", ..." : "");
    }
}
