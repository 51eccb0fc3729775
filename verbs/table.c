/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/table.h"

#include <errno.h>
#include <string.h>

#include "verbs/fault_layer.h"

struct ibv_context *dt_open_by_name(const struct dt_verbs_table *table, const char *name)
{
    int count = 0;
    struct ibv_device **devices = table->get_device_list(&count);
    struct ibv_context *context = NULL;
    int error = devices ? ENODEV : errno;

    for (int i = 0; devices && i < count; i++) {
        if (strcmp(table->get_device_name(devices[i]), name))
            continue;
        context = table->open_device(devices[i]);
        error = errno;
        break;
    }
    if (devices)
        table->free_device_list(devices);
    errno = error;
    return context;
}

/*
 * The member active_speed_ex came after the headers that this may be built with: a uint32_t behind
 * port_cap_flags2. A library fills the number of bytes that it is given and zeroes the ones that it does not
 * know.
 */
int dt_table_query_port(const struct dt_verbs_table *table, struct ibv_context *context, uint8_t port,
                        struct ibv_port_attr *attr, uint32_t *speed)
{
    enum { SPEED_EX_AT = (offsetof(struct ibv_port_attr, port_cap_flags2) + sizeof(uint16_t) + 3) & ~3u };
    union {
        struct ibv_port_attr attr;
        uint8_t bytes[SPEED_EX_AT + sizeof(uint32_t)];
    } whole;
    struct verbs_context *context_whole = verbs_get_ctx_op(context, query_port);
    uint32_t speed_ex;
    int error = dt_fault_query(context, DT_DEVICE_CALL_QUERY_PORT);

    memset(&whole, 0, sizeof whole);
    if (error)
        return error;
    if (context_whole)
        error = context_whole->query_port(context, port, &whole.attr, sizeof whole);
    else
        error = table->query_port(context, port, (struct _compat_ibv_port_attr *)&whole.attr);
    memcpy(&speed_ex, whole.bytes + SPEED_EX_AT, sizeof speed_ex);
    *attr = whole.attr;
    if (speed)
        *speed = speed_ex ? speed_ex : whole.attr.active_speed;
    return error;
}
