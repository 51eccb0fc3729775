/* SPDX-License-Identifier: Apache-2.0 */
#include "hostpath/cuda_table.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/util.h"

struct symbol {
    const char *name;
    size_t offset;
    bool is_needed;
};

static const struct symbol symbols[] = {
#define SYMBOL(field, name, is_needed, parameters) {name, offsetof(struct dt_cuda_table, field), is_needed},
    DT_CUDA_FUNCTIONS(SYMBOL)
#undef SYMBOL
};

static const char *missing_in(void *library, struct dt_cuda_table *table)
{
    for (size_t i = 0; i < DT_COUNT_OF(symbols); i++) {
        void *function = dlsym(library, symbols[i].name);

        if (!function && symbols[i].is_needed)
            return symbols[i].name;
        memcpy((char *)table + symbols[i].offset, &function, sizeof function);
    }
    return NULL;
}

enum dt_status dt_cuda_table_load(const char *name, struct dt_cuda_table *table, char *reason,
                                  size_t reason_bytes)
{
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    const char *missing;

    if (!library) {
        snprintf(reason, reason_bytes, "cannot load the CUDA driver's library: %s", dlerror());
        return DT_NOT_FOUND;
    }
    missing = missing_in(library, table);
    if (!missing)
        return DT_OK;
    snprintf(reason, reason_bytes, "%s has no function %s: a driver for CUDA 11 or later is needed", name,
             missing);
    dlclose(library);
    return DT_NOT_FOUND;
}
