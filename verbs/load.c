/* SPDX-License-Identifier: Apache-2.0 */
/* The system's libibverbs, found at run time. */
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/util.h"
#include "verbs/table.h"

/*
 * One function: its name, the symbol version under which libibverbs has had the present signature since,
 * where its pointer goes, and whether Detour can do without.
 */
struct symbol {
    const char *name;
    const char *version;
    size_t offset;
    bool is_optional;
};

#define NEEDED(field, version)                                                \
    {                                                                         \
        "ibv_" #field, version, offsetof(struct dt_verbs_table, field), false \
    }
#define OPTIONAL(name, field, version)                              \
    {                                                               \
        name, version, offsetof(struct dt_verbs_table, field), true \
    }

static const struct symbol symbols[] = {
    NEEDED(get_device_list, "IBVERBS_1.1"),
    NEEDED(free_device_list, "IBVERBS_1.1"),
    NEEDED(get_device_name, "IBVERBS_1.1"),
    NEEDED(get_device_guid, "IBVERBS_1.1"),
    NEEDED(open_device, "IBVERBS_1.1"),
    NEEDED(close_device, "IBVERBS_1.1"),
    NEEDED(query_device, "IBVERBS_1.1"),
    NEEDED(query_port, "IBVERBS_1.1"),
    NEEDED(query_gid, "IBVERBS_1.1"),
    NEEDED(query_pkey, "IBVERBS_1.1"),
    NEEDED(get_async_event, "IBVERBS_1.1"),
    NEEDED(ack_async_event, "IBVERBS_1.1"),
    NEEDED(event_type_str, "IBVERBS_1.1"),
    NEEDED(alloc_pd, "IBVERBS_1.1"),
    NEEDED(dealloc_pd, "IBVERBS_1.1"),
    NEEDED(reg_mr, "IBVERBS_1.1"),
    NEEDED(dereg_mr, "IBVERBS_1.1"),
    NEEDED(create_cq, "IBVERBS_1.1"),
    NEEDED(destroy_cq, "IBVERBS_1.1"),
    NEEDED(create_qp, "IBVERBS_1.1"),
    NEEDED(modify_qp, "IBVERBS_1.1"),
    NEEDED(query_qp, "IBVERBS_1.1"),
    NEEDED(destroy_qp, "IBVERBS_1.1"),
    OPTIONAL("ibv_reg_mr_iova2", reg_mr_iova2, "IBVERBS_1.8"),
    OPTIONAL("ibv_reg_dmabuf_mr", reg_dmabuf_mr, "IBVERBS_1.12"),
    OPTIONAL("ibv_fork_init", fork_init, "IBVERBS_1.1"),
    OPTIONAL("ibv_query_ece", query_ece, "IBVERBS_1.10"),
    OPTIONAL("ibv_set_ece", set_ece, "IBVERBS_1.10"),
    OPTIONAL("_ibv_query_gid_ex", query_gid_ex, "IBVERBS_1.11"),
};

/* By version, since 1.0 had other signatures; without one for libraries that have no versions. */
static void *find_symbol(void *library, const struct symbol *symbol)
{
    void *function = dlvsym(library, symbol->name, symbol->version);

    return function ? function : dlsym(library, symbol->name);
}

static void store_pointer(struct dt_verbs_table *table, const struct symbol *symbol, void *function)
{
    memcpy((char *)table + symbol->offset, &function, sizeof function);
}

static void log_library(void *library, const char *name, const struct dt_verbs_table *table)
{
    struct link_map *map = NULL;
    bool has_path = !dlinfo(library, RTLD_DI_LINKMAP, &map) && map && map->l_name[0];

    dt_info("verbs-loaded", "verbs: %s: %zu functions%s%s%s%s", has_path ? map->l_name : name,
            DT_COUNT_OF(symbols), table->reg_mr_iova2 ? "" : ", no relaxed ordering",
            table->reg_dmabuf_mr ? "" : ", no dma-buf regions", table->query_gid_ex ? "" : ", no GID types",
            table->query_ece && table->set_ece ? "" : ", no ECE");
}

enum dt_status dt_table_load(const char *name, struct dt_verbs_table *table, char *reason,
                             size_t reason_bytes)
{
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);

    if (!library) {
        snprintf(reason, reason_bytes, "verbs: cannot load the verbs library: %s", dlerror());
        return DT_NOT_FOUND;
    }
    memset(table, 0, sizeof *table);
    for (size_t i = 0; i < DT_COUNT_OF(symbols); i++) {
        void *function = find_symbol(library, &symbols[i]);

        if (!function && !symbols[i].is_optional) {
            snprintf(reason, reason_bytes, "verbs: %s has no function %s, so it is not a usable libibverbs",
                     name, symbols[i].name);
            dlclose(library);
            return DT_NOT_FOUND;
        }
        store_pointer(table, &symbols[i], function);
    }
    log_library(library, name, table);
    return DT_OK;
}
