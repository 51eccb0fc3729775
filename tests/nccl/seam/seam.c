/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/nccl/seam/seam.h"

#include <cuda_runtime.h>
#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/nccl/runtime/log.h"
#include "tests/nccl/seam/elf.h"

/* call rel32 and jmp rel32: an opcode, and the distance of the target from the end of the instruction. */
enum { OPCODE_CALL = 0xe8, OPCODE_JUMP = 0xe9, BRANCH_BYTES = 5 };
enum { PAGE_BYTES = 4096, STUB_BYTES = 32, STUBS_MAX = 1024 };

static struct {
    pthread_mutex_t lock;
    struct nh_elf elf;
    int is_installed;
    char path[4096];
    uintptr_t base;
    unsigned char *stubs; /* within a branch's reach of libnccl */
    size_t stub_count;
    uintptr_t targets[STUBS_MAX];     /* the entry point that each stub stands for */
    const struct nh_symbol **entries; /* the entry points, by address */
    size_t entry_count;
} seam = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int find_nccl(struct dl_phdr_info *info, size_t bytes, void *argument)
{
    const char *name = strrchr(info->dlpi_name, '/');

    (void)bytes, (void)argument;
    if (strncmp(name ? name + 1 : info->dlpi_name, "libnccl.so", 10))
        return 0;
    snprintf(seam.path, sizeof seam.path, "%s", info->dlpi_name);
    seam.base = info->dlpi_addr;
    return 1;
}

/* Entry points of the CUDA runtime: cuda and a capital letter. */
static int is_entry_point(const struct nh_symbol *symbol)
{
    return symbol->is_function && !strncmp(symbol->name, "cuda", 4) &&
           isupper((unsigned char)symbol->name[4]);
}

/* Functions of the CUDA runtime itself, whose code stays as it is. */
static int is_of_cudart(const struct nh_symbol *symbol)
{
    return is_entry_point(symbol) || !strncmp(symbol->name, "libcudart", 9) ||
           !strncmp(symbol->name, "__cuda", 6);
}

void *nh_own_function(const char *name)
{
    static void *self;
    Dl_info info;

    if (!self && dladdr((void *)nh_own_function, &info))
        self = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    return self ? dlsym(self, name) : NULL;
}

static int not_implemented(const char *name)
{
    nh_log(0, "not implemented: %s", name);
    return cudaErrorNotSupported;
}

/* A page range for the stubs below libnccl, within the 2 GiB that a branch reaches. */
static int reserve_stubs(void)
{
    for (uintptr_t at = seam.base - (1u << 20); at > seam.base - (1u << 30); at -= 1u << 20) {
        void *page = mmap((void *)(at / PAGE_BYTES * PAGE_BYTES), STUB_BYTES * STUBS_MAX,
                          PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

        if (page != MAP_FAILED) {
            seam.stubs = page;
            return 0;
        }
    }
    return -1;
}

/* mov rdi, NAME (only for what is not implemented); jmp [rip + 0]; the address. */
static void write_stub(unsigned char *stub, const struct nh_symbol *entry)
{
    static const unsigned char load_name[] = {0x48, 0xbf}, jump[] = {0xff, 0x25, 0, 0, 0, 0};
    void *function = nh_own_function(entry->name);

    if (!function) {
        memcpy(stub, load_name, sizeof load_name);
        memcpy(stub + sizeof load_name, &entry->name, sizeof entry->name);
        stub += sizeof load_name + sizeof entry->name;
        function = (void *)not_implemented;
    }
    memcpy(stub, jump, sizeof jump);
    memcpy(stub + sizeof jump, &function, sizeof function);
}

/* The stub for an entry point, made at its first use; NULL when there are too many. */
static unsigned char *stub_for(const struct nh_symbol *entry)
{
    for (size_t i = 0; i < seam.stub_count; i++)
        if (seam.targets[i] == entry->address)
            return seam.stubs + i * STUB_BYTES;
    if (seam.stub_count == STUBS_MAX)
        return NULL;
    seam.targets[seam.stub_count] = entry->address;
    write_stub(seam.stubs + seam.stub_count * STUB_BYTES, entry);
    return seam.stubs + seam.stub_count++ * STUB_BYTES;
}

static int collect_entries(void)
{
    seam.entries = calloc(seam.elf.count + 1, sizeof *seam.entries);
    if (!seam.entries)
        return -1;
    for (size_t i = 0; i < seam.elf.count; i++)
        if (is_entry_point(&seam.elf.symbols[i]))
            seam.entries[seam.entry_count++] = &seam.elf.symbols[i];
    return 0;
}

static int compare_entry(const void *key, const void *element)
{
    uintptr_t address = *(const uintptr_t *)key;
    const struct nh_symbol *symbol = *(const struct nh_symbol *const *)element;

    return (address > symbol->address) - (address < symbol->address);
}

/* The entry point that starts at the address, or NULL. */
static const struct nh_symbol *entry_at(uintptr_t address)
{
    const struct nh_symbol **found =
        bsearch(&address, seam.entries, seam.entry_count, sizeof *seam.entries, compare_entry);

    return found ? *found : NULL;
}

/*
 * Points the branches of one of NCCL's functions. Instructions are not decoded: five bytes that begin like a
 * branch and end exactly at one of some 400 entry points are one (elsewhere a chance of 400 in 2^32 per byte
 * pair).
 */
static int redirect_function(const struct nh_symbol *function, unsigned *count)
{
    unsigned char *code = (unsigned char *)function->address;

    for (size_t i = 0; i + BRANCH_BYTES <= function->bytes; i++) {
        const struct nh_symbol *entry;
        unsigned char *stub;
        int32_t distance;

        if (code[i] != OPCODE_CALL && code[i] != OPCODE_JUMP)
            continue;
        memcpy(&distance, code + i + 1, sizeof distance);
        entry = entry_at((uintptr_t)(code + i + BRANCH_BYTES) + (uintptr_t)(intptr_t)distance);
        if (!entry)
            continue;
        stub = stub_for(entry);
        if (!stub)
            return -1;
        distance = (int32_t)(stub - (code + i + BRANCH_BYTES));
        memcpy(code + i + 1, &distance, sizeof distance);
        (*count)++;
        i += BRANCH_BYTES - 1;
    }
    return 0;
}

/* The page range of NCCL's own functions. */
static void text_range(uintptr_t *start, uintptr_t *end)
{
    *start = UINTPTR_MAX;
    *end = 0;
    for (size_t i = 0; i < seam.elf.count; i++) {
        const struct nh_symbol *symbol = &seam.elf.symbols[i];

        if (!symbol->is_function || !symbol->bytes || is_of_cudart(symbol))
            continue;
        if (symbol->address < *start)
            *start = symbol->address;
        if (symbol->address + symbol->bytes > *end)
            *end = symbol->address + symbol->bytes;
    }
    *start = *start / PAGE_BYTES * PAGE_BYTES;
    *end = (*end + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

static int redirect_all(unsigned *count)
{
    uintptr_t start, end;
    int result = 0;

    text_range(&start, &end);
    if (mprotect((void *)start, end - start, PROT_READ | PROT_WRITE | PROT_EXEC))
        return -1;
    for (size_t i = 0; i < seam.elf.count && !result; i++) {
        const struct nh_symbol *symbol = &seam.elf.symbols[i];

        if (i && symbol->address == symbol[-1].address && symbol->bytes == symbol[-1].bytes)
            continue; /* another name of the same code */
        if (symbol->is_function && !is_of_cudart(symbol))
            result = redirect_function(symbol, count);
    }
    if (mprotect((void *)start, end - start, PROT_READ | PROT_EXEC) ||
        mprotect(seam.stubs, STUB_BYTES * STUBS_MAX, PROT_READ | PROT_EXEC))
        return -1;
    return result;
}

static int install(char *error, size_t error_bytes)
{
    unsigned count = 0;

    if (!dl_iterate_phdr(find_nccl, NULL)) {
        snprintf(error, error_bytes, "libnccl.so is not loaded in this process");
        return -1;
    }
    if (nh_elf_read(&seam.elf, seam.path, seam.base, error, error_bytes))
        return -1;
    if (collect_entries() || reserve_stubs() || redirect_all(&count)) {
        snprintf(error, error_bytes, "%s: its calls cannot be redirected: %s", seam.path, strerror(errno));
        return -1;
    }
    if (!count) {
        snprintf(error, error_bytes, "%s: no call of the CUDA runtime was found", seam.path);
        return -1;
    }
    nh_log(1, "%u calls of %zu entry points redirected in %s", count, seam.stub_count, seam.path);
    seam.is_installed = 1;
    return 0;
}

int nh_seam_install(char *error, size_t error_bytes)
{
    int result;

    pthread_mutex_lock(&seam.lock);
    result = seam.is_installed ? 0 : install(error, error_bytes);
    pthread_mutex_unlock(&seam.lock);
    return result;
}

/* A program that is linked with -lcudart -lnccl has libnccl loaded by now; one that opens it later calls us.
 */
__attribute__((constructor)) static void install_at_load(void)
{
    char error[512];

    if (dl_iterate_phdr(find_nccl, NULL) && nh_seam_install(error, sizeof error))
        nh_die("%s", error);
}

const char *nh_symbol_at(const void *address)
{
    const struct nh_symbol *symbol = nh_elf_at(&seam.elf, (uintptr_t)address);

    return symbol ? symbol->name : "?";
}

const void *nh_symbol_address(const char *name, size_t *bytes)
{
    const struct nh_symbol *symbol = nh_elf_find(&seam.elf, name);

    if (!symbol)
        return NULL;
    if (bytes)
        *bytes = symbol->bytes;
    return (const void *)symbol->address;
}

int nh_nccl_version(void)
{
    int (*get_version)(int *version) = (int (*)(int *))(uintptr_t)nh_symbol_address("ncclGetVersion", NULL);
    int version = 0;

    if (!get_version || get_version(&version))
        nh_die("ncclGetVersion is missing or fails");
    return version;
}
