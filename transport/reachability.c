/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/reachability.h"
#include "failover/switchover/state.h"

#include <arpa/inet.h>
#include <stdio.h>

#include "base/atomics.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "transport/net_state.h"
#include "transport/path/path.h"

#define POLL_MAX 4
/* Without an answer a path is given up after this long, while another has one; */
#define WAIT_NS (2 * DT_NS_PER_S)
/* while none has. */
#define WAIT_NS_ALONE (10 * DT_NS_PER_S)

/* ------------------------------------------------------------------------------------------------------------
 * Saying
 */
static void describe_address(const struct dt_qp_address *address, char *text, size_t bytes)
{
    char gid[INET6_ADDRSTRLEN];

    inet_ntop(AF_INET6, address->gid, gid, sizeof gid);
    if (address->lid)
        snprintf(text, bytes, "GID %s, LID %u", gid, address->lid);
    else
        snprintf(text, bytes, "GID %s", gid);
}

static void describe_pair(const struct dt_path *path, char *text, size_t bytes)
{
    struct dt_qp_address address;
    char local[80];
    char remote[80];

    dt_qp_local_address(path->probe, &address);
    describe_address(&address, local, sizeof local);
    describe_address(&path->peer_probe, remote, sizeof remote);
    snprintf(text, bytes, "%s (%s) to %s (%s): %s", dt_path_name(path), local, path->peer_device, remote,
             path->switchover->why);
}

void dt_reachability_describe(const struct dt_connection *c, char *text, size_t bytes)
{
    size_t used = 0;

    *text = '\0';
    for (uint32_t p = 0; p < c->path_count && used < bytes; p++) {
        char pair[600];

        if (!*c->path[p].switchover->why || !c->path[p].probe)
            continue;
        describe_pair(&c->path[p], pair, sizeof pair);
        used += (size_t)snprintf(text + used, bytes - used, "%s%s", used ? "; " : "", pair);
    }
}

/* A job has hundreds of connections over the same two devices: one warning for each device, the rest at INFO.
 */
static void log_unreached(struct dt_path *path)
{
    const struct dt_connection *c = path->connection;
    bool is_first = !dt_exchange_acq_rel(&path->nic->is_unreached_reported, 1u);
    char pair[600];

    describe_pair(path, pair, sizeof pair);
    dt_log(is_first ? DT_LOG_WARN : DT_LOG_INFO, "path-unreached",
           "connection %016llx %s %s: path %u is not used until it answers: %s", (unsigned long long)c->id,
           c->ops->direction, c->peer, path->index, pair);
}

/* ------------------------------------------------------------------------------------------------------------
 * Asking
 */
void dt_reachability_ask(struct dt_connection *c, struct dt_reachability *reach, uint64_t now_ns)
{
    *reach = (struct dt_reachability){.asked_ns = now_ns};
    for (uint32_t p = 0; p < c->path_count; p++) {
        DT_CHECK(c->path[p].index == p);
        if (c->path[p].state != DT_PATH_UP)
            continue;
        reach->waiting_mask |= 1u << p;
        dt_path_send_probe(&c->path[p], true);
    }
}

static void take_answer(struct dt_path *path, struct dt_reachability *reach)
{
    struct dt_completion completion[POLL_MAX];
    int count = dt_cq_poll(path->probe_cq, completion, POLL_MAX);
    uint32_t bit = 1u << path->index;

    DT_CHECK(reach->waiting_mask & bit && !(reach->answered_mask & bit));
    if (count == 0)
        return;
    reach->waiting_mask &= ~bit;
    if (count < 0)
        snprintf(path->switchover->why, sizeof path->switchover->why, "its completion queue failed");
    else if (completion[0].status == DT_WC_SUCCESS)
        reach->answered_mask |= bit;
    else
        dt_path_describe_error(path, &completion[0], path->switchover->why, sizeof path->switchover->why);
}

static void give_up(struct dt_connection *c, struct dt_reachability *reach, uint64_t now_ns)
{
    for (uint32_t p = 0; p < c->path_count; p++) {
        if (reach->waiting_mask & 1u << p)
            snprintf(c->path[p].switchover->why, sizeof c->path[p].switchover->why,
                     "no answer within %llu ms",
                     (unsigned long long)((now_ns - reach->asked_ns) / DT_NS_PER_MS));
    }
    reach->waiting_mask = 0;
}

bool dt_reachability_is_known(struct dt_connection *c, struct dt_reachability *reach, uint64_t now_ns,
                              uint64_t deadline_ns)
{
    uint64_t limit_ns;

    DT_CHECK(!(reach->waiting_mask & reach->answered_mask));
    DT_CHECK((reach->waiting_mask | reach->answered_mask) >> c->path_count == 0);
    for (uint32_t p = 0; p < c->path_count; p++) {
        if (reach->waiting_mask & 1u << p)
            take_answer(&c->path[p], reach);
    }
    limit_ns = reach->asked_ns + (reach->answered_mask ? WAIT_NS : WAIT_NS_ALONE);
    if (now_ns >= dt_earlier_ns(limit_ns, deadline_ns))
        give_up(c, reach, now_ns);
    if (reach->waiting_mask)
        return false;
    for (uint32_t p = 0; p < c->path_count; p++) {
        struct dt_path *path = &c->path[p];

        if (path->state != DT_PATH_UP || reach->answered_mask & 1u << p)
            continue;
        path->state = DT_PATH_NONE;
        if (reach->answered_mask) /* else the set-up fails, with one line for all */
            log_unreached(path);
    }
    return true;
}
