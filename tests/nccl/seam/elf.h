/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The symbols of a library that is loaded in this process, with the local ones: read from .symtab of its file
 * (ELF-64, System V ABI, chapter 4). Immutable once read; any thread may look up.
 */
#ifndef DETOUR_TESTS_NCCL_SEAM_ELF_H
#define DETOUR_TESTS_NCCL_SEAM_ELF_H

#include <stddef.h>
#include <stdint.h>

struct nh_symbol {
    const char *name;
    uintptr_t address; /* in this process */
    size_t bytes;
    int is_function;
};

struct nh_elf {
    struct nh_symbol *symbols; /* by address */
    size_t count;
    void *file; /* the mapping that the names lie in */
    size_t file_bytes;
};

/* Symbols of `path`, which is loaded at `base`. Returns 0, or -1 with the reason in `error`. */
int nh_elf_read(struct nh_elf *elf, const char *path, uintptr_t base, char *error, size_t error_bytes);
void nh_elf_free(struct nh_elf *elf);

/* The first symbol of that name, or NULL. */
const struct nh_symbol *nh_elf_find(const struct nh_elf *elf, const char *name);
/* The symbol that covers the address, or NULL. */
const struct nh_symbol *nh_elf_at(const struct nh_elf *elf, uintptr_t address);

#endif
