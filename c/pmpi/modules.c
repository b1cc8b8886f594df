/* modules.c: the loaded objects of the process, in address order, and what
 * each is to us: the application, a language binding, an MPI library.
 *
 * The list is rebuilt when an address is not found in it or the loader has
 * loaded or unloaded something since. Readers take no lock: a list is never
 * changed once published, and old ones are kept (a rebuild is rare and a list
 * small). */
#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../include/act.h"
#include "state.h"

struct mt_module {
    uintptr_t base, start, end;
    const ElfW(Dyn) *dynamic;
    const uint8_t *build_id;
    uint32_t build_id_bytes;
    uint32_t flags; /* enum mt_module_flag */
    bool self;      /* this library */
    const char *path;
};

enum { MT_MODULES_MAX = 1024 };

struct mt_module_list {
    unsigned long long added, removed; /* the loader's counters */
    unsigned count, capacity;
    unsigned libraries; /* MPI libraries among them */
    struct mt_module modules[];
};

static struct mt_module_list *mt_modules;

/* ---- symbols of one object, by its hash table ---- */

struct mt_symbols {
    const ElfW(Sym) *table;
    const char *names;
    const uint32_t *gnu_hash;
    const uint32_t *sysv_hash;
    uintptr_t base;
};

static bool mt_symbols_of(const struct mt_module *m, struct mt_symbols *s_p)
{
    *s_p = (struct mt_symbols){.base = m->base};
    if (m->dynamic == NULL) {
        return false;
    }
    for (const ElfW(Dyn) *d = m->dynamic; d->d_tag != DT_NULL; d++) {
        uintptr_t value = d->d_un.d_ptr;
        if (value < m->base) {
            value += m->base; /* the vdso keeps unrelocated values */
        }
        switch (d->d_tag) {
        case DT_SYMTAB: s_p->table = (const void *)value; break;
        case DT_STRTAB: s_p->names = (const void *)value; break;
        case DT_GNU_HASH: s_p->gnu_hash = (const void *)value; break;
        case DT_HASH: s_p->sysv_hash = (const void *)value; break;
        default: break;
        }
    }
    return s_p->table != NULL && s_p->names != NULL;
}

static void *mt_symbol_value(const struct mt_symbols *s, uint32_t index,
                             const char *name)
{
    const ElfW(Sym) *sym = &s->table[index];
    if (sym->st_shndx == SHN_UNDEF || sym->st_value == 0 ||
        strcmp(s->names + sym->st_name, name) != 0) {
        return NULL;
    }
    return (void *)(s->base + sym->st_value);
}

static void *mt_symbol_gnu(const struct mt_symbols *s, const char *name)
{
    uint32_t hash = 5381;
    for (const char *c = name; *c != '\0'; c++) {
        hash = hash * 33 + (unsigned char)*c;
    }
    const uint32_t *t = s->gnu_hash;
    uint32_t buckets = t[0], first = t[1], bloom_words = t[2];
    const uint32_t *bucket = (const uint32_t *)((const ElfW(Addr) *)(t + 4) +
                                                bloom_words);
    const uint32_t *chain = bucket + buckets;
    uint32_t i = buckets != 0 ? bucket[hash % buckets] : 0;
    if (i < first) {
        return NULL;
    }
    for (;; i++) {
        uint32_t h = chain[i - first];
        if ((h | 1) == (hash | 1)) {
            void *value = mt_symbol_value(s, i, name);
            if (value != NULL) {
                return value;
            }
        }
        if ((h & 1) != 0) {
            return NULL;
        }
    }
}

static void *mt_symbol_sysv(const struct mt_symbols *s, const char *name)
{
    uint32_t hash = 0;
    for (const char *c = name; *c != '\0'; c++) {
        hash = (hash << 4) + (unsigned char)*c;
        hash = (hash ^ (hash >> 24 & 0xf0)) & 0x0fffffff;
    }
    const uint32_t *t = s->sysv_hash;
    for (uint32_t i = t[2 + hash % t[0]]; i != 0; i = t[2 + t[0] + i]) {
        void *value = mt_symbol_value(s, i, name);
        if (value != NULL) {
            return value;
        }
    }
    return NULL;
}

/* The address of a symbol that the module itself defines, or NULL. */
static void *mt_module_symbol(const struct mt_module *m, const char *name)
{
    struct mt_symbols s;
    if (!mt_symbols_of(m, &s)) {
        return NULL;
    }
    if (s.gnu_hash != NULL) {
        return mt_symbol_gnu(&s, name);
    }
    return s.sysv_hash != NULL && s.sysv_hash[0] != 0 ? mt_symbol_sysv(&s, name)
                                                      : NULL;
}

/* ---- the list ---- */

/* The build id among the notes, NULL if it is not there. */
static const uint8_t *mt_module_note(const uint8_t *note, size_t size,
                                     uint32_t *bytes_p)
{
    while (size >= 12) {
        const ElfW(Nhdr) *n = (const ElfW(Nhdr) *)(const void *)note;
        size_t name = ((size_t)n->n_namesz + 3) & ~(size_t)3;
        size_t value = ((size_t)n->n_descsz + 3) & ~(size_t)3;
        if (sizeof(*n) + name + value > size) {
            break;
        }
        if (n->n_type == NT_GNU_BUILD_ID && n->n_namesz == 4 &&
            memcmp(note + sizeof(*n), "GNU", 4) == 0 && n->n_descsz <= 32) {
            *bytes_p = n->n_descsz;
            return note + sizeof(*n) + name;
        }
        note += sizeof(*n) + name + value;
        size -= sizeof(*n) + name + value;
    }
    return NULL;
}

static bool mt_starts(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* True if the file name begins with one of the comma-separated names. */
static bool mt_module_skipped(const char *file, const char *list)
{
    while (list != NULL && *list != '\0') {
        size_t n = strcspn(list, ",");
        if (n > 0 && strncmp(file, list, n) == 0) {
            return true;
        }
        list += n + (list[n] == ',');
    }
    return false;
}

/* Functions that every tool has which has any. */
static bool mt_module_defines(const struct mt_module *m)
{
    return mt_module_symbol(m, "MPI_Init") != NULL ||
           mt_module_symbol(m, "MPI_Send") != NULL ||
           mt_module_symbol(m, "MPI_Finalize") != NULL;
}

/* What an object is to us. An object that defines MPI functions is an MPI
 * library or a tool, and the runtime of act mode counts as one; one that defines only the Fortran or C++ names is a
 * binding; Open MPI's plug-ins call MPI functions of their own. The program
 * itself is always the application. */
static uint32_t mt_module_classify(const struct mt_module *m, bool program)
{
    const char *slash = strrchr(m->path, '/');
    const char *file = slash != NULL ? slash + 1 : m->path;
    if (program) {
        return 0;
    }
    if (mt_module_skipped(file, mt_process.knobs.skip)) {
        return MPITRACE_MODULE_FLAG_SKIPPED;
    }
    if (mt_module_symbol(m, "PMPI_Init") != NULL || mt_module_defines(m) ||
        mt_module_symbol(m, MT_ACT_START) != NULL ||
        mt_starts(file, "mca_") || mt_starts(file, "libmca_")) {
        return MPITRACE_MODULE_FLAG_MPI;
    }
    if (mt_module_symbol(m, "mpi_init_") != NULL ||
        mt_module_symbol(m, "mpi_init_f08_") != NULL ||
        mt_starts(file, "libmpi") || mt_starts(file, "libpmpi")) {
        return MPITRACE_MODULE_FLAG_BINDING;
    }
    return 0;
}

struct mt_module_scan {
    struct mt_module_list *list;
    bool first;
};

static int mt_module_add(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct mt_module_scan *scan = arg;
    struct mt_module_list *list = scan->list;
    bool program = scan->first;
    scan->first = false;
    if (size >= offsetof(struct dl_phdr_info, dlpi_subs) + 8) {
        list->added = info->dlpi_adds;
        list->removed = info->dlpi_subs;
    }
    if (list->count >= list->capacity) {
        return 1;
    }
    struct mt_module *m = &list->modules[list->count];
    *m = (struct mt_module){.base = info->dlpi_addr, .start = UINTPTR_MAX};
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t at = info->dlpi_addr + p->p_vaddr;
        if (p->p_type == PT_LOAD) {
            m->start = at < m->start ? at : m->start;
            m->end = at + p->p_memsz > m->end ? at + p->p_memsz : m->end;
        } else if (p->p_type == PT_DYNAMIC) {
            m->dynamic = (const void *)at;
        } else if (p->p_type == PT_NOTE && m->build_id == NULL) {
            m->build_id = mt_module_note((const uint8_t *)at, p->p_memsz,
                                         &m->build_id_bytes);
        }
    }
    m->path = program ? mt_process_executable() : info->dlpi_name;
    if (m->end == 0 || m->path == NULL) {
        return 0;
    }
    uintptr_t self = (uintptr_t)&mt_module_add;
    m->self = self >= m->start && self < m->end;
    /* a tool behind us that ends in a tail call returns into our wrapper */
    m->flags = m->self ? MPITRACE_MODULE_FLAG_MPI
                       : mt_module_classify(m, program);
    list->libraries +=
        !m->self && mt_module_symbol(m, "PMPI_Init") != NULL;
    list->count++;
    return 0;
}

static int mt_module_order(const void *a, const void *b)
{
    const struct mt_module *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

static int mt_module_count(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)info;
    (void)size;
    return ++*(unsigned *)arg >= MT_MODULES_MAX;
}

static struct mt_module_list *mt_module_build(void)
{
    unsigned n = 0;
    dl_iterate_phdr(mt_module_count, &n);
    /* one that is loaded in between waits for the next time */
    struct mt_module_list *list =
        mt_private_bytes(sizeof(*list) + n * sizeof(struct mt_module));
    if (list == NULL) {
        return NULL;
    }
    list->capacity = n;
    struct mt_module_scan scan = {list, true};
    dl_iterate_phdr(mt_module_add, &scan);
    qsort(list->modules, list->count, sizeof(struct mt_module),
          mt_module_order);
    return list;
}

static int mt_module_counters(struct dl_phdr_info *info, size_t size, void *arg)
{
    unsigned long long *now = arg;
    if (size >= offsetof(struct dl_phdr_info, dlpi_subs) + 8) {
        now[0] = info->dlpi_adds;
        now[1] = info->dlpi_subs;
    }
    return 1;
}

uint64_t mt_module_changes(void)
{
    unsigned long long now[2] = {0, 0};
    dl_iterate_phdr(mt_module_counters, now);
    return now[0] + now[1];
}

bool mt_module_changed(void)
{
    unsigned long long now[2] = {0, 0};
    const struct mt_module_list *list =
        __atomic_load_n(&mt_modules, __ATOMIC_ACQUIRE);
    dl_iterate_phdr(mt_module_counters, now);
    return list == NULL || list->added != now[0] || list->removed != now[1];
}

static const struct mt_module *mt_module_search(
    const struct mt_module_list *list, uintptr_t address)
{
    unsigned low = 0, high = list->count;
    while (low < high) {
        unsigned middle = (low + high) / 2;
        if (list->modules[middle].end <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < list->count && list->modules[low].start <= address
               ? &list->modules[low]
               : NULL;
}

/* The list as the loader has it now. */
static struct mt_module_list *mt_module_fresh(void)
{
    struct mt_module_list *list = mt_module_changed() ? mt_module_build() : NULL;
    if (list != NULL) {
        __atomic_store_n(&mt_modules, list, __ATOMIC_RELEASE);
    }
    return __atomic_load_n(&mt_modules, __ATOMIC_ACQUIRE);
}

static const struct mt_module *mt_module_find(uintptr_t address)
{
    struct mt_module_list *list =
        __atomic_load_n(&mt_modules, __ATOMIC_ACQUIRE);
    const struct mt_module *m =
        list != NULL ? mt_module_search(list, address) : NULL;
    if (m == NULL && (list = mt_module_fresh()) != NULL) {
        m = mt_module_search(list, address);
    }
    return m;
}

enum mt_caller mt_module_caller(uintptr_t address)
{
    const struct mt_module *m = mt_module_find(address);
    if (m == NULL) {
        return MT_CALLER_APPLICATION; /* generated code, say */
    }
    if ((m->flags & MPITRACE_MODULE_FLAG_MPI) != 0) {
        return MT_CALLER_LIBRARY;
    }
    return m->flags != 0 ? MT_CALLER_BINDING : MT_CALLER_APPLICATION;
}

/* ---- what attach.c needs ---- */

unsigned mt_library_count(void)
{
    const struct mt_module_list *list =
        __atomic_load_n(&mt_modules, __ATOMIC_ACQUIRE);
    return list != NULL ? list->libraries : 0;
}

const char *mt_module_provider(const char *symbol, void **value_p)
{
    const struct mt_module_list *list = mt_module_fresh();
    for (unsigned i = 0; list != NULL && i < list->count; i++) {
        const struct mt_module *m = &list->modules[i];
        void *value = m->self ? NULL : mt_module_symbol(m, symbol);
        if (value != NULL && m->path[0] != '\0') {
            *value_p = value;
            return m->path;
        }
    }
    return NULL;
}

void *mt_module_own_symbol(uintptr_t address, const char *symbol)
{
    const struct mt_module *m = mt_module_find(address);
    return m != NULL ? mt_module_symbol(m, symbol) : NULL;
}

const char *mt_module_path(uintptr_t address)
{
    const struct mt_module *m = mt_module_find(address);
    return m != NULL ? m->path : "";
}

static void mt_hexadecimal(const uint8_t *bytes, uint32_t n, char *text,
                           size_t size)
{
    text[0] = '\0';
    for (uint32_t i = 0; i < n && 2 * (size_t)i + 2 < size; i++) {
        snprintf(text + 2 * (size_t)i, 3, "%02x", bytes[i]);
    }
}

void mt_module_build_id(uintptr_t address, char *text, size_t size)
{
    const struct mt_module *m = mt_module_find(address);
    bool known = m != NULL && m->build_id != NULL;
    mt_hexadecimal(known ? m->build_id : NULL, known ? m->build_id_bytes : 0,
                   text, size);
}

bool mt_module_file_build_id(const char *path, char *text, size_t size)
{
    ElfW(Ehdr) header;
    ElfW(Phdr) p;
    uint8_t notes[4096];
    uint32_t bytes = 0;
    const uint8_t *id = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool elf = fd >= 0 &&
               pread(fd, &header, sizeof(header), 0) == sizeof(header) &&
               memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 &&
               header.e_phentsize == sizeof(p);
    for (unsigned i = 0; elf && id == NULL && i < header.e_phnum; i++) {
        off_t at = (off_t)(header.e_phoff + (uint64_t)i * sizeof(p));
        if (pread(fd, &p, sizeof(p), at) != sizeof(p)) {
            break;
        }
        if (p.p_type == PT_NOTE && p.p_filesz <= sizeof(notes) &&
            pread(fd, notes, p.p_filesz, (off_t)p.p_offset) ==
                (ssize_t)p.p_filesz) {
            id = mt_module_note(notes, p.p_filesz, &bytes);
        }
    }
    mt_hexadecimal(id, bytes, text, size);
    if (fd >= 0) {
        close(fd);
    }
    return elf;
}

const char *mt_module_tool(uintptr_t library)
{
    const struct mt_module_list *list = mt_module_fresh();
    for (unsigned i = 0; list != NULL && i < list->count; i++) {
        const struct mt_module *m = &list->modules[i];
        if (!m->self && m->flags == MPITRACE_MODULE_FLAG_MPI &&
            (library < m->start || library >= m->end) && mt_module_defines(m)) {
            return m->path;
        }
    }
    return NULL;
}

const char *mt_module_gpu(void)
{
    /* without its device a driver has no memory to hand out: Debian 13 links
     * MPICH with ROCm, wherever it runs */
    static const struct {
        const char *driver, *device; /* NULL: not known */
    } gpus[] = {{"libcuda.so", NULL},
                {"libcudart.so", NULL},
                {"libamdhip64.so", "/dev/kfd"},
                {"libhsa-runtime64.so", "/dev/kfd"},
                {"libze_intel_gpu.so", NULL}};
    const struct mt_module_list *list = mt_module_fresh();
    for (unsigned i = 0; list != NULL && i < list->count; i++) {
        const char *path = list->modules[i].path;
        const char *slash = strrchr(path, '/');
        const char *name = slash != NULL ? slash + 1 : path;
        for (size_t k = 0; k < sizeof(gpus) / sizeof(gpus[0]); k++) {
            if (strncmp(name, gpus[k].driver, strlen(gpus[k].driver)) == 0 &&
                (gpus[k].device == NULL || access(gpus[k].device, F_OK) == 0)) {
                return path;
            }
        }
    }
    return NULL;
}

void mt_module_each_symbol(uintptr_t address,
                           void (*visit)(const char *name, void *arg),
                           void *arg)
{
    const struct mt_module *m = mt_module_find(address);
    struct mt_symbols s;
    if (m == NULL || !mt_symbols_of(m, &s) || s.gnu_hash == NULL) {
        return;
    }
    const uint32_t *t = s.gnu_hash;
    uint32_t buckets = t[0], first = t[1];
    const uint32_t *bucket =
        (const uint32_t *)((const ElfW(Addr) *)(t + 4) + t[2]);
    const uint32_t *chain = bucket + buckets;
    for (uint32_t b = 0; b < buckets; b++) {
        uint32_t i = bucket[b];
        if (i < first) {
            continue;
        }
        do {
            const ElfW(Sym) *sym = &s.table[i];
            if (sym->st_shndx != SHN_UNDEF &&
                ELF64_ST_TYPE(sym->st_info) == STT_FUNC) {
                visit(s.names + sym->st_name, arg);
            }
        } while ((chain[i++ - first] & 1) == 0);
    }
}

/* ---- the MODULES section ---- */

static struct mt_seg_section *mt_module_section;
static struct mt_seg_module *mt_module_rows;

static bool mt_module_same(const struct mt_seg_module *row,
                           const struct mt_module *m)
{
    return row->start == m->start && row->base == m->base &&
           row->build_id_bytes == m->build_id_bytes &&
           memcmp(row->build_id, m->build_id != NULL ? m->build_id : (const uint8_t *)"",
                  m->build_id_bytes) == 0 &&
           strncmp(row->path, m->path, sizeof(row->path) - 1) == 0;
}

static uint32_t mt_module_row(const struct mt_module *m)
{
    struct mt_seg_section *s = mt_module_section;
    for (uint32_t i = 0; s != NULL && i < s->used; i++) {
        if (mt_module_same(&mt_module_rows[i], m)) {
            return i + 1;
        }
    }
    if (s == NULL) {
        s = mt_segment_section(MPITRACE_SECTION_KIND_MODULES, 0,
                               sizeof(struct mt_seg_module), 64,
                               (void **)&mt_module_rows);
        mt_module_section = s;
    }
    if (s == NULL || s->used >= s->capacity) {
        if (s != NULL) {
            s->dropped++;
        }
        return 0;
    }
    struct mt_seg_module *row = &mt_module_rows[s->used];
    row->base = m->base;
    row->start = m->start;
    row->end = m->end;
    row->flags = m->flags;
    row->build_id_bytes = m->build_id_bytes;
    memcpy(row->build_id, m->build_id != NULL ? m->build_id : (const uint8_t *)"", m->build_id_bytes);
    strncpy(row->path, m->path, sizeof(row->path) - 1);
    __atomic_store_n(&s->used, s->used + 1, __ATOMIC_RELEASE);
    return s->used;
}

uint32_t mt_module_index(uintptr_t address)
{
    uint32_t index = 0;
    mt_cold_lock();
    /* another object may have come to the place of one that is gone */
    const struct mt_module_list *list = mt_module_fresh();
    const struct mt_module *m =
        list != NULL ? mt_module_search(list, address) : NULL;
    if (m != NULL) {
        index = mt_module_row(m);
    }
    mt_cold_unlock();
    return index;
}
