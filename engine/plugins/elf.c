/* elf.c: checks a library before the dynamic loader gets it. The loader trusts a library's own data: a
 * truncated library, or a copy that ends in zeros, would end the process instead of failing in dlopen. So the
 * program headers and the dynamic section are checked against the file. Files that aren't ELF, or are for
 * other machines, are left to dlopen and its messages; contents (relocations, code) can't be checked from
 * outside. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/error.h"
#include "plugins/host.h"

#define MAX_SEGMENTS 256
#define MAX_DYNAMIC  4096 /* entries of the dynamic section */

/* Of the machine's word size, 32 or 64 bits. */
typedef ElfW(Ehdr) elf_header;
typedef ElfW(Phdr) elf_segment;
typedef ElfW(Shdr) elf_section;
typedef ElfW(Dyn) elf_dynamic;
typedef ElfW(Sxword) elf_tag;
typedef ElfW(Addr) elf_address;

struct library {
    int file;
    uint64_t size;
    elf_segment segments[MAX_SEGMENTS]; /* [n_segments] */
    unsigned n_segments;
    elf_dynamic dynamic[MAX_DYNAMIC]; /* [n_dynamic] */
    unsigned n_dynamic;
};

static int fail_damaged(const char *what)
{
    return error_raise(ENGINE_ERROR_DATA, "the file is damaged or truncated (%s)", what);
}

static bool read_at(const struct library *library, uint64_t offset, void *data, size_t size)
{
    uint64_t end;
    if (checked_add(offset, size, &end) || end > library->size) return false;
    return pread(library->file, data, size, (off_t)offset) == (ssize_t)size;
}

/* Linkers write the section headers last, and the loader doesn't need them: if they are complete, so is the
 * file. Libraries without section headers are accepted. */
static int check_end(const struct library *library, const elf_header *header)
{
    elf_section section;
    uint64_t names = (uint64_t)header->e_shstrndx * sizeof section, at;
    if (header->e_shoff == 0 || header->e_shnum == 0 || header->e_shentsize != sizeof section)
        return ENGINE_OK;
    if (checked_add(header->e_shoff, names, &at) || !read_at(library, at, &section, sizeof section) ||
        section.sh_type != SHT_STRTAB) {
        return fail_damaged("section headers");
    }
    return ENGINE_OK;
}

/* The segment that will hold `size` bytes from `address` on in memory, or NULL. */
static const elf_segment *segment_of(const struct library *library, uint64_t address, uint64_t size)
{
    uint64_t end;
    if (checked_add(address, size, &end)) return NULL;
    for (unsigned i = 0; i < library->n_segments; i++) {
        const elf_segment *segment = &library->segments[i];
        if (segment->p_type == PT_LOAD && address >= segment->p_vaddr &&
            end <= segment->p_vaddr + segment->p_memsz) {
            return segment;
        }
    }
    return NULL;
}

/* Mapped segments: within the file, accessible, in ascending order. */
static int check_loads(const struct library *library)
{
    uint64_t last_end = 0;
    for (unsigned i = 0; i < library->n_segments; i++) {
        const elf_segment *segment = &library->segments[i];
        uint64_t file_end, end;
        if (segment->p_type != PT_LOAD) continue;
        if (checked_add(segment->p_offset, segment->p_filesz, &file_end) || file_end > library->size ||
            segment->p_filesz > segment->p_memsz || checked_add(segment->p_vaddr, segment->p_memsz, &end) ||
            end > INT64_MAX || segment->p_vaddr < last_end || !(segment->p_flags & (PF_R | PF_X))) {
            return fail_damaged("segments");
        }
        last_end = end;
    }
    return ENGINE_OK;
}

/* Segments that the loader reads, or makes read-only after writing to them, are inside mapped ones. */
static int check_others(const struct library *library)
{
    for (unsigned i = 0; i < library->n_segments; i++) {
        const elf_segment *segment = &library->segments[i];
        bool read = segment->p_type == PT_DYNAMIC || segment->p_type == PT_NOTE || segment->p_type == PT_TLS;
        bool written = segment->p_type == PT_GNU_RELRO;
        if ((!read && !written) || segment->p_memsz == 0) continue;
        /* p_memsz may be larger: zeroed thread-local data, padding to a page. */
        const elf_segment *load = segment_of(library, segment->p_vaddr, segment->p_filesz);
        if (!load || (written && !(load->p_flags & PF_W))) return fail_damaged("segments");
    }
    return ENGINE_OK;
}

static uint64_t dynamic_value(const struct library *library, elf_tag tag)
{
    for (unsigned i = 0; i < library->n_dynamic; i++) {
        if (library->dynamic[i].d_tag == tag) return library->dynamic[i].d_un.d_val;
    }
    return 0;
}

/* The tables that the loader will read are inside the library, and the required ones exist. */
static int check_dynamic(const struct library *library)
{
    static const struct {
        elf_tag table, size; /* size: the entry that gives its size, or 0 */
        bool needed;
    } tables[] = {
        {DT_STRTAB, DT_STRSZ, true},
        {DT_SYMTAB, 0, true},
        {DT_RELA, DT_RELASZ, false},
        {DT_REL, DT_RELSZ, false},
        {DT_JMPREL, DT_PLTRELSZ, false},
        {DT_INIT_ARRAY, DT_INIT_ARRAYSZ, false},
        {DT_FINI_ARRAY, DT_FINI_ARRAYSZ, false},
        {DT_INIT, 0, false},
        {DT_FINI, 0, false},
        {DT_HASH, 0, false},
        {DT_GNU_HASH, 0, false},
        {DT_PLTGOT, 0, false},
        {DT_VERSYM, 0, false},
        {DT_VERNEED, 0, false},
        {DT_VERDEF, 0, false},
    };
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        uint64_t address = dynamic_value(library, tables[i].table);
        uint64_t size = tables[i].size ? dynamic_value(library, tables[i].size) : 1;
        if (address == 0 && !tables[i].needed) continue;
        if (address == 0 || !segment_of(library, address, size)) {
            return fail_damaged("dynamic section");
        }
    }
    return ENGINE_OK;
}

/* Reads the dynamic section up to its end mark, and checks it. dlopen refuses a library without one. */
static int take_dynamic(struct library *library)
{
    const elf_segment *segment = NULL;
    for (unsigned i = 0; i < library->n_segments; i++) {
        if (library->segments[i].p_type == PT_DYNAMIC) segment = &library->segments[i];
    }
    if (!segment) return ENGINE_OK;
    const elf_segment *load = segment_of(library, segment->p_vaddr, segment->p_memsz);
    if (!load || segment->p_vaddr - load->p_vaddr != segment->p_offset - load->p_offset ||
        segment->p_vaddr % sizeof(elf_address) != 0) {
        return fail_damaged("dynamic section");
    }
    uint64_t count = segment->p_filesz / sizeof library->dynamic[0];
    if (count > MAX_DYNAMIC) count = MAX_DYNAMIC;
    if (!read_at(library, segment->p_offset, library->dynamic, count * sizeof library->dynamic[0])) {
        return fail_damaged("dynamic section");
    }
    for (library->n_dynamic = 0; library->n_dynamic < count; library->n_dynamic++) {
        if (library->dynamic[library->n_dynamic].d_tag == DT_NULL) return check_dynamic(library);
    }
    return fail_damaged("dynamic section");
}

/* Whether dlopen would accept the file as a library for this machine. */
static bool is_ours(const elf_header *header)
{
    static const uint16_t one = 1;
    unsigned char class = sizeof(elf_address) == 8 ? ELFCLASS64 : ELFCLASS32;
    unsigned char order = *(const unsigned char *)&one ? ELFDATA2LSB : ELFDATA2MSB;
    return memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 && header->e_ident[EI_CLASS] == class &&
           header->e_ident[EI_DATA] == order && header->e_phentsize == sizeof(elf_segment);
}

static int elf_check(struct library *library)
{
    elf_header header;
    if (!read_at(library, 0, &header, sizeof header) || !is_ours(&header)) return ENGINE_OK;
    library->n_segments = header.e_phnum;
    if (header.e_phnum > MAX_SEGMENTS ||
        !read_at(library, header.e_phoff, library->segments, header.e_phnum * sizeof library->segments[0])) {
        return fail_damaged("program headers");
    }
    int status = check_end(library, &header);
    if (status == ENGINE_OK) status = check_loads(library);
    if (status == ENGINE_OK) status = check_others(library);
    if (status == ENGINE_OK) status = take_dynamic(library);
    return status;
}

int elf_check_library(const char *path)
{
    struct stat info;
    int status = ENGINE_OK;
    struct library *library = calloc(1, sizeof *library);
    if (!library) return error_memory("plugin");
    library->file = open(path, O_RDONLY | O_CLOEXEC);
    if (library->file < 0 || fstat(library->file, &info) != 0) {
        status = error_raise(ENGINE_ERROR_DATA, "%s", strerror(errno));
    } else {
        library->size = (uint64_t)info.st_size;
        status = elf_check(library);
    }
    if (library->file >= 0) close(library->file);
    free(library);
    return status;
}
