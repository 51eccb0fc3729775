/* SPDX-License-Identifier: Apache-2.0 */
/* Opening: fills the table from the system library or the software RNIC. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/param.h"
#include "verbs/object.h"

#define DEFAULT_LIBRARY "libibverbs.so.1"

enum dt_status dt_verbs_open_table(const struct dt_verbs_table *table, struct dt_verbs **verbs)
{
    struct dt_verbs *opened = calloc(1, sizeof *opened);

    if (!opened)
        return DT_NO_MEMORY;
    opened->table = *table;
    snprintf(opened->mlx5_library, sizeof opened->mlx5_library, "libmlx5.so.1");
    *verbs = opened;
    return DT_OK;
}

static enum dt_status load_table(const struct dt_verbs_options *options, struct dt_verbs_table *table,
                                 char *reason, size_t reason_bytes)
{
    const char *library = options->library ? options->library : DEFAULT_LIBRARY;
    enum dt_status status = dt_table_load(library, table, reason, reason_bytes);

    if (status == DT_OK || !options->library_or_default || strcmp(library, DEFAULT_LIBRARY) == 0)
        return status;
    dt_info("verbs-default", "%s; %s is loaded instead", reason, DEFAULT_LIBRARY);
    return dt_table_load(DEFAULT_LIBRARY, table, reason, reason_bytes);
}

static enum dt_status fill_table(const struct dt_verbs_options *options, struct dt_verbs_table *table,
                                 char *reason, size_t reason_bytes)
{
    switch (options->kind) {
    case DT_VERBS_SYSTEM:
        return load_table(options, table, reason, reason_bytes);
    case DT_VERBS_SOFT:
        return dt_table_soft(options->soft_device_count, options->soft_rate_bytes_per_s, table, reason,
                             reason_bytes);
    }
    snprintf(reason, reason_bytes, "verbs: kind %d is neither system nor soft", (int)options->kind);
    return DT_INVALID;
}

/* Before the first device is opened: registered pages then stay with the parent when the process forks. */
static void prepare_for_forks(const struct dt_verbs_table *table)
{
    int error = table->fork_init ? table->fork_init() : 0;

    if (error)
        dt_info("verbs-fork", "verbs: ibv_fork_init: %s; children of this process may disturb it",
                strerror(error));
}

void dt_verbs_options_take(struct dt_verbs_options *options, const struct dt_params *params)
{
    options->library = params->verbs_library;
    options->library_or_default = params->verbs_library_or_default;
    options->mlx5_library = params->mlx5_library;
    options->soft_device_count = (uint32_t)params->soft_devices;
    options->soft_rate_bytes_per_s = params->soft_rate_bytes_per_s;
    options->has_gid_index = dt_params_gid_index(params, &options->gid_index);
    options->flid_gid_index = (uint32_t)params->flid_gid_index;
    options->pkey_index = (uint32_t)params->pkey_index;
    options->pkey_value = (uint32_t)params->pkey_value;
    options->roce_version = (uint32_t)params->roce_version;
    options->addr_family = params->addr_family;
    options->addr_range = params->addr_range;
}

enum dt_status dt_verbs_open(const struct dt_verbs_options *options, struct dt_verbs **verbs)
{
    struct dt_verbs_table table;
    char reason[512] = "";
    enum dt_status status = fill_table(options, &table, reason, sizeof reason);

    if (status == DT_OK) {
        prepare_for_forks(&table);
        status = dt_verbs_open_table(&table, verbs);
        if (status != DT_OK)
            snprintf(reason, sizeof reason, "verbs: out of memory");
    }
    if (status == DT_OK) {
        (*verbs)->has_gid_index = options->has_gid_index;
        (*verbs)->gid_index = options->gid_index;
        (*verbs)->flid_gid_index = options->flid_gid_index;
        (*verbs)->pkey_index = options->pkey_index;
        (*verbs)->pkey_value = options->pkey_value;
        dt_gid_wish_parse(options->roce_version, options->addr_family, options->addr_range,
                          &(*verbs)->gid_wish);
        if (options->mlx5_library)
            snprintf((*verbs)->mlx5_library, sizeof(*verbs)->mlx5_library, "%s", options->mlx5_library);
        return DT_OK;
    }
    if (options->reason)
        snprintf(options->reason, options->reason_bytes, "%s", reason);
    else
        dt_warn("verbs-open", "%s", reason);
    return status;
}

bool dt_verbs_has_ece(const struct dt_verbs *verbs)
{
    return verbs->table.query_ece && verbs->table.set_ece;
}

void dt_verbs_close(struct dt_verbs *verbs)
{
    free(verbs);
}
