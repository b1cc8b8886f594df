/* place.c: see place.h. The dynamic linker knows the module and its exported
 * functions; all other functions are in the symbol table of the module's file,
 * unless it was stripped (System V ABI, 4: .symtab). */
#define _GNU_SOURCE 1
#include "place.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct module {
    uint64_t address; /* that is looked for */
    uint64_t base;    /* what its file calls 0 */
    char path[MT_PLACE_BYTES];
};

static int module_visit(struct dl_phdr_info *info, size_t size, void *user)
{
    struct module *m = user;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uint64_t from = info->dlpi_addr + p->p_vaddr;
        if (p->p_type == PT_LOAD && m->address >= from &&
            m->address - from < p->p_memsz) {
            m->base = info->dlpi_addr;
            snprintf(m->path, sizeof(m->path), "%s", info->dlpi_name);
            return 1;
        }
    }
    return 0;
}

/* The program itself has no name there. */
static bool module_find(struct module *m)
{
    if (dl_iterate_phdr(module_visit, m) == 0) {
        return false;
    }
    if (m->path[0] == '\0') {
        ssize_t n = readlink("/proc/self/exe", m->path, sizeof(m->path) - 1);
        m->path[n > 0 ? n : 0] = '\0';
    }
    return true;
}

/* A file in memory. Its numbers are believed only as far as it is long. */
struct image {
    const unsigned char *bytes;
    uint64_t size;
};

static const void *image_part(const struct image *image, uint64_t at,
                              uint64_t bytes)
{
    return at <= image->size && bytes <= image->size - at ? image->bytes + at
                                                          : NULL;
}

static const Elf64_Shdr *image_section(const struct image *image,
                                       const Elf64_Ehdr *head, uint32_t i)
{
    return i < head->e_shnum && head->e_shentsize == sizeof(Elf64_Shdr)
               ? image_part(image, head->e_shoff + i * sizeof(Elf64_Shdr),
                            sizeof(Elf64_Shdr))
               : NULL;
}

/* The function of a symbol table that an address of the file lies in. */
static bool symbol_find(const struct image *image, const Elf64_Shdr *table,
                        const Elf64_Shdr *names, uint64_t address, char *name)
{
    for (uint64_t at = 0; at + sizeof(Elf64_Sym) <= table->sh_size;
         at += sizeof(Elf64_Sym)) {
        const Elf64_Sym *s =
            image_part(image, table->sh_offset + at, sizeof(*s));
        if (s == NULL) {
            return false;
        }
        const char *text =
            s->st_name < names->sh_size
                ? image_part(image, names->sh_offset + s->st_name, 1)
                : NULL;
        if (ELF64_ST_TYPE(s->st_info) == STT_FUNC && text != NULL &&
            address >= s->st_value && address - s->st_value < s->st_size) {
            uint64_t room = image->size - names->sh_offset - s->st_name;
            uint64_t length = strnlen(text, room < MT_PLACE_BYTES
                                                ? room
                                                : MT_PLACE_BYTES - 1);
            memcpy(name, text, length);
            name[length] = '\0';
            return true;
        }
    }
    return false;
}

static void image_function(const struct image *image, uint64_t address,
                           char *name)
{
    const Elf64_Ehdr *head = image_part(image, 0, sizeof(*head));
    if (head == NULL || memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 ||
        head->e_ident[EI_CLASS] != ELFCLASS64) {
        return;
    }
    for (uint32_t i = 0; i < head->e_shnum; i++) {
        const Elf64_Shdr *table = image_section(image, head, i);
        const Elf64_Shdr *names =
            table != NULL && table->sh_type == SHT_SYMTAB
                ? image_section(image, head, table->sh_link)
                : NULL;
        if (names != NULL &&
            symbol_find(image, table, names, address, name)) {
            return;
        }
    }
}

static void file_function(const char *path, uint64_t address, char *name)
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return;
    }
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
        status.st_size > 0) {
        struct image image = {.size = (uint64_t)status.st_size};
        void *bytes =
            mmap(NULL, image.size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (bytes != MAP_FAILED) {
            image.bytes = bytes;
            image_function(&image, address, name);
            munmap(bytes, image.size);
        }
    }
    close(fd);
}

void mt_place_find(uint64_t address, struct mt_place *place_p)
{
    struct module m = {.address = address};
    Dl_info info;
    memset(place_p, 0, sizeof(*place_p));
    if (address == 0 || !module_find(&m)) {
        return;
    }
    const char *slash = strrchr(m.path, '/');
    snprintf(place_p->offset, sizeof(place_p->offset), "%.480s+0x%llx",
             slash != NULL ? slash + 1 : m.path,
             (unsigned long long)(address - m.base));
    /* a call may be the last thing in its function */
    file_function(m.path, address - m.base - 1, place_p->function);
    if (place_p->function[0] == '\0' &&
        dladdr((void *)(uintptr_t)(address - 1), &info) != 0 &&
        info.dli_sname != NULL) {
        snprintf(place_p->function, sizeof(place_p->function), "%s",
                 info.dli_sname);
    }
}
