/* SPDX-License-Identifier: Apache-2.0 */
/* Administrative drain of a device (`detour nic NAME migrate`), and its end. */
#include <stdio.h>
#include <string.h>

#include "transport/net.h"
#include "transport/message/connection.h"
#include "transport/net_state.h"
#include "base/check.h"

/* Takes the connection's paths over this device out of use, or lets them return. Returns whether it has one.
 */
static bool apply(struct dt_connection *c, const struct dt_nic *nic, bool is_drained)
{
    bool has_path = false;

    for (uint32_t p = 0; p < c->path_count; p++) {
        DT_CHECK(c->path[p].connection == c && c->path[p].index == p);
        if (c->path[p].nic != nic)
            continue;
        has_path = true;
        if (is_drained) {
            dt_connection_suspect(c, &c->path[p], DT_FAULT_ADMIN);
        } else {
            __atomic_fetch_or(&c->hints, 1u << p, __ATOMIC_ACQ_REL);
            dt_nic_wake(c->nic);
        }
    }
    return has_path;
}

static uint32_t apply_to_all(struct dt_nic *nic, bool is_drained)
{
    struct dt_net *net = nic->net;
    uint32_t count = 0;

    for (size_t i = 0; i < net->nic_count; i++) {
        pthread_mutex_lock(&net->nic[i].mutex);
        dt_list_for_each(node, &net->nic[i].service->connections) count +=
            apply(dt_container_of(node, struct dt_connection, node), nic, is_drained);
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

enum dt_status dt_net_drain(struct dt_net *net, const char *device, bool is_drained, char *answer,
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
    dt_store_release(&nic->is_drained, is_drained ? 1u : 0u);
    count = apply_to_all(nic, is_drained);
    snprintf(answer, answer_bytes, "%s: %u connections %s", device, count,
             is_drained ? "leave it, those that have another path" : "may use it again");
    return DT_OK;
}
