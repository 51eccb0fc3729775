/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/nic_command.h"

#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "verbs/object.h"

/* Opening a real device takes long and disturbs it; a software RNIC is asked for its port. A fault that
 * was ordered is known. */
static const char *state_of(const struct dt_verbs_table *table, struct ibv_device *device)
{
    struct ibv_context *context;
    struct ibv_port_attr port;
    const char *state = "";

    if (dt_fault_has_name_down(table->get_device_name(device)))
        return " down";
    context = table->is_soft ? table->open_device(device) : NULL;
    if (!context)
        return state;
    if (!dt_table_query_port(table, context, 1, &port, NULL))
        state = port.state == IBV_PORT_ACTIVE ? " up" : " down";
    table->close_device(context);
    return state;
}

static enum dt_status list_devices(const struct dt_verbs_table *table, char *answer, size_t answer_bytes)
{
    int count = 0;
    struct ibv_device **devices = table->get_device_list(&count);
    size_t used = 0;

    snprintf(answer, answer_bytes, "%s", "");
    for (int i = 0; i < count && used < answer_bytes; i++)
        used += (size_t)snprintf(answer + used, answer_bytes - used, "%s%s %s%s", i ? ", " : "",
                                 table->get_device_name(devices[i]), table->is_soft ? "soft" : "system",
                                 state_of(table, devices[i]));
    if (devices)
        table->free_device_list(devices);
    return DT_OK;
}

enum dt_status dt_verbs_nic_command(void *arg, const char *args, char *answer, size_t answer_bytes)
{
    struct dt_verbs *verbs = (struct dt_verbs *)arg;
    size_t name_bytes = strcspn(args, " ");
    char device[DT_DEVICE_NAME_BYTES];

    if (!strcmp(args, "list"))
        return list_devices(&verbs->table, answer, answer_bytes);
    if (!name_bytes || name_bytes >= sizeof device || !args[name_bytes]) {
        snprintf(answer, answer_bytes, "expected `list` or `DEVICE ACTION`");
        return DT_INVALID;
    }
    memcpy(device, args, name_bytes);
    device[name_bytes] = '\0';
    return dt_verbs_device_control(verbs, device, args + name_bytes + strspn(args + name_bytes, " "), answer,
                                   answer_bytes);
}
