/* SPDX-License-Identifier: Apache-2.0 */
#include "dropin/control.h"

#include <link.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "obs/command.h"
#include "obs/runtime_dir.h"
#include "obs/server.h"
#include "verbs/nic_command.h"
#include "verbs/verbs.h"

static int is_plugin(struct dl_phdr_info *info, size_t bytes, void *unused)
{
    (void)bytes, (void)unused;
    return info->dlpi_name && strstr(info->dlpi_name, "libnccl-net-detour");
}

static enum dt_status start(const struct dt_params *params, const struct dt_runtime_dir *dir, char *reason,
                            size_t reason_bytes)
{
    const struct dt_verbs_options options = {
        .kind = DT_VERBS_SOFT,
        .soft_device_count = (uint32_t)params->soft_devices,
        .soft_rate_bytes_per_s = params->soft_rate_bytes_per_s,
        .reason = reason,
        .reason_bytes = reason_bytes,
    };
    struct dt_command_table *commands;
    struct dt_server *server;
    struct dt_verbs *verbs;
    int number = getpid();
    enum dt_status status = dt_verbs_open(&options, &verbs);

    if (status != DT_OK)
        return status;
    status = dt_command_table_create(&commands);
    if (status != DT_OK) {
        dt_verbs_close(verbs);
        return status;
    }
    status = dt_command_register(commands, "nic", dt_verbs_nic_command, verbs);
    while (number < DT_RUNTIME_NUMBER_MAX && dt_runtime_dir_is_taken(dir, DT_RUNTIME_SOCKET, number))
        number += DT_RUNTIME_NUMBER_STEP;
    if (status == DT_OK)
        status = dt_server_start(dir, number, commands, &server, reason, reason_bytes);
    if (status == DT_OK) /* the server uses all of them until the process ends */
        return DT_OK;
    dt_command_table_destroy(commands);
    dt_verbs_close(verbs);
    return status;
}

void dt_dropin_control_start(const struct dt_params *params)
{
    char reason[512] = "out of memory";
    struct dt_runtime_dir dir;
    enum dt_status status;

    if (dl_iterate_phdr(is_plugin, NULL))
        return;
    status = dt_runtime_dir_open(params->runtime_dir, 1, &dir, reason, sizeof reason);
    if (status == DT_OK) {
        status = start(params, &dir, reason, sizeof reason);
        dt_runtime_dir_close(&dir);
    }
    if (status != DT_OK)
        dt_info("soft-control", "software RNIC: %s; `detour nic` cannot reach this process", reason);
}
