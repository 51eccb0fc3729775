/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/nccl/seam/elf.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int map_file(struct nh_elf *elf, const char *path, char *error, size_t error_bytes)
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0 || fstat(fd, &status)) {
        snprintf(error, error_bytes, "%s: %s", path, strerror(errno));
        if (fd >= 0)
            close(fd);
        return -1;
    }
    elf->file_bytes = (size_t)status.st_size;
    elf->file = mmap(NULL, elf->file_bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (elf->file == MAP_FAILED) {
        elf->file = NULL;
        snprintf(error, error_bytes, "%s: not mapped: %s", path, strerror(errno));
        return -1;
    }
    return 0;
}

static const Elf64_Shdr *find_symtab(const struct nh_elf *elf)
{
    const Elf64_Ehdr *header = elf->file;
    const Elf64_Shdr *sections;

    if (elf->file_bytes < sizeof *header || memcmp(header->e_ident, ELFMAG, SELFMAG) ||
        header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_shentsize != sizeof *sections ||
        header->e_shoff > elf->file_bytes ||
        header->e_shnum > (elf->file_bytes - header->e_shoff) / sizeof *sections)
        return NULL;
    sections = (const Elf64_Shdr *)((const char *)elf->file + header->e_shoff);
    for (int i = 0; i < header->e_shnum; i++)
        if (sections[i].sh_type == SHT_SYMTAB && sections[i].sh_link < header->e_shnum &&
            sections[i].sh_offset + sections[i].sh_size <= elf->file_bytes)
            return &sections[i];
    return NULL;
}

static int by_address(const void *left, const void *right)
{
    const struct nh_symbol *a = left, *b = right;

    return (a->address > b->address) - (a->address < b->address);
}

static int collect(struct nh_elf *elf, const Elf64_Shdr *table, uintptr_t base)
{
    const Elf64_Ehdr *header = elf->file;
    const Elf64_Shdr *sections = (const Elf64_Shdr *)((const char *)elf->file + header->e_shoff);
    const Elf64_Sym *entries = (const Elf64_Sym *)((const char *)elf->file + table->sh_offset);
    const char *names = (const char *)elf->file + sections[table->sh_link].sh_offset;
    size_t count = table->sh_size / sizeof *entries;

    elf->symbols = calloc(count ? count : 1, sizeof *elf->symbols);
    if (!elf->symbols)
        return -1;
    for (size_t i = 0; i < count; i++) {
        int type = ELF64_ST_TYPE(entries[i].st_info);

        if (entries[i].st_shndx == SHN_UNDEF || (type != STT_FUNC && type != STT_OBJECT))
            continue;
        elf->symbols[elf->count++] = (struct nh_symbol){
            .name = names + entries[i].st_name,
            .address = base + entries[i].st_value,
            .bytes = entries[i].st_size,
            .is_function = type == STT_FUNC,
        };
    }
    qsort(elf->symbols, elf->count, sizeof *elf->symbols, by_address);
    return 0;
}

int nh_elf_read(struct nh_elf *elf, const char *path, uintptr_t base, char *error, size_t error_bytes)
{
    const Elf64_Shdr *table;

    *elf = (struct nh_elf){0};
    if (map_file(elf, path, error, error_bytes))
        return -1;
    table = find_symtab(elf);
    if (!table || collect(elf, table, base)) {
        snprintf(error, error_bytes, "%s: %s", path,
                 table ? "out of memory" : "no symbol table (.symtab); a stripped library cannot be used");
        nh_elf_free(elf);
        return -1;
    }
    return 0;
}

void nh_elf_free(struct nh_elf *elf)
{
    free(elf->symbols);
    if (elf->file)
        munmap(elf->file, elf->file_bytes);
    *elf = (struct nh_elf){0};
}

const struct nh_symbol *nh_elf_find(const struct nh_elf *elf, const char *name)
{
    for (size_t i = 0; i < elf->count; i++)
        if (!strcmp(elf->symbols[i].name, name))
            return &elf->symbols[i];
    return NULL;
}

const struct nh_symbol *nh_elf_at(const struct nh_elf *elf, uintptr_t address)
{
    size_t low = 0, high = elf->count;

    while (low < high) { /* the first symbol behind the address */
        size_t middle = low + (high - low) / 2;

        if (elf->symbols[middle].address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    while (low > 0) {
        const struct nh_symbol *symbol = &elf->symbols[--low];

        if (address - symbol->address < symbol->bytes)
            return symbol;
        if (address - symbol->address > 1u << 20)
            break;
    }
    return NULL;
}
