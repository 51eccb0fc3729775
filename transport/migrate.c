/* SPDX-License-Identifier: Apache-2.0 */
/* A device is taken out of use by order, and given back. */
#include <stdio.h>
#include <string.h>

#include "transport/connection.h"
#include "transport/nic.h"

/* Has the connection's paths over this device leave it, or come back. Returns whether it has one. */
static bool order(struct dt_connection *c, const struct dt_nic *nic, bool is_away)
{
    bool has_path = false;

    for (uint32_t p = 0; p < c->path_count; p++) {
        if (c->path[p].nic != nic)
            continue;
        has_path = true;
        if (is_away) {
            dt_connection_suspect(c, &c->path[p], DT_FAULT_ORDER);
        } else {
            __atomic_fetch_or(&c->hints, 1u << p, __ATOMIC_ACQ_REL);
            dt_nic_wake(c->nic);
        }
    }
    return has_path;
}

static uint32_t order_all(struct dt_nic *nic, bool is_away)
{
    struct dt_net *net = nic->net;
    uint32_t count = 0;

    for (size_t i = 0; i < net->nic_count; i++) {
        pthread_mutex_lock(&net->nic[i].mutex);
        dt_list_for_each(node, &net->nic[i].connections) count +=
            order(dt_container_of(node, struct dt_connection, node), nic, is_away);
        pthread_mutex_unlock(&net->nic[i].mutex);
    }
    return count;
}

static struct dt_nic *find(struct dt_net *net, const char *name)
{
    for (size_t i = 0; i < net->nic_count; i++) {
        if (strcmp(net->nic[i].name, name) == 0)
            return &net->nic[i];
    }
    return NULL;
}

enum dt_status dt_net_migrate(struct dt_net *net, const char *device, bool is_away, char *answer,
                              size_t answer_bytes)
{
    struct dt_nic *nic = find(net, device);
    uint32_t count;

    if (!nic) {
        size_t used =
            (size_t)snprintf(answer, answer_bytes, "no device named '%s' is in use; there are", device);

        for (size_t i = 0; i < net->nic_count && used < answer_bytes; i++)
            used += (size_t)snprintf(answer + used, answer_bytes - used, " %s", net->nic[i].name);
        return DT_NOT_FOUND;
    }
    dt_store_release(&nic->is_away, is_away ? 1u : 0u);
    count = order_all(nic, is_away);
    snprintf(answer, answer_bytes, "%s: %u connections %s", device, count,
             is_away ? "leave it, those that have another path" : "may use it again");
    return DT_OK;
}
