/* SPDX-License-Identifier: Apache-2.0 */
/* Orders about the host path, from the control socket (net.h). */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/util.h"
#include "transport/net.h"
#include "transport/net_state.h"

static const char *const mode_names[] = {
    [DT_HOSTPATH_OFF] = "off", [DT_HOSTPATH_ON] = "on", [DT_HOSTPATH_AUTO] = "auto"};

/* Calls `visit` for each sender that has a stage. With the mutex of its device a sender stays what it is. */
static void for_each_sender(struct dt_net *net, void (*visit)(void *arg, struct dt_sender *sender), void *arg)
{
    for (size_t i = 0; i < net->nic_count; i++) {
        pthread_mutex_lock(&net->nic[i].mutex);
        dt_list_for_each(node, &net->service[i].connections)
        {
            struct dt_connection *c = dt_container_of(node, struct dt_connection, node);

            if (c->is_sender && dt_load_relaxed(&dt_sender_of(c)->staging) != DT_HOSTPATH_NONE)
                visit(arg, dt_sender_of(c));
        }
        pthread_mutex_unlock(&net->nic[i].mutex);
    }
}

/* ------------------------------------------------------------------------------------------------------------
 * on, off, auto
 */
struct order {
    struct dt_delay_scope scope;
    uint32_t mode;
    uint32_t count; /* of senders that have it now */
};

static void give_order(void *arg, struct dt_sender *sender)
{
    struct order *order = arg;

    if (!dt_delay_flow_paths(sender->gate.flow, &order->scope))
        return;
    dt_store_relaxed(&sender->staging, order->mode);
    order->count++;
}

/*
 * An order for all changes the mode of the process first and then lets every sender follow it, so that a
 * sender that is being set up meanwhile has the mode as well.
 */
static enum dt_status switch_all(struct dt_net *net, enum dt_hostpath_mode mode, char *answer,
                                 size_t answer_bytes)
{
    struct order order = {.mode = DT_HOSTPATH_PROCESS};

    dt_store_relaxed(&net->hostpath.mode, mode);
    for_each_sender(net, give_order, &order);
    snprintf(answer, answer_bytes, "%s: %" PRIu32 " connections, and those to come", mode_names[mode],
             order.count);
    return DT_OK;
}

static enum dt_status switch_some(struct dt_net *net, enum dt_hostpath_mode mode, const char *scope,
                                  char *answer, size_t answer_bytes)
{
    struct order order = {.mode = mode};
    struct dt_delay_error error;

    if (dt_delay_parse_scope(scope, strlen(scope), &order.scope, &error) != DT_OK) {
        snprintf(answer, answer_bytes, "%s", error.text);
        return DT_INVALID;
    }
    for_each_sender(net, give_order, &order);
    if (order.count == 0) {
        snprintf(answer, answer_bytes, "no connection that sends matches '%s'", scope);
        return DT_NOT_FOUND;
    }
    snprintf(answer, answer_bytes, "%s: %" PRIu32 " connections", mode_names[mode], order.count);
    return DT_OK;
}

/* ------------------------------------------------------------------------------------------------------------
 * list
 */
static void count_sender(void *arg, struct dt_sender *sender)
{
    uint32_t *counts = arg;
    enum dt_hostpath_mode mode = dt_stage_mode(sender);

    DT_CHECK(mode < DT_HOSTPATH_PROCESS);
    counts[mode]++;
}

static void list(struct dt_net *net, char *answer, size_t answer_bytes)
{
    uint32_t counts[DT_HOSTPATH_PROCESS] = {0};

    if (!net->hostpath.is_on) {
        snprintf(answer, answer_bytes, "none 0 0 0");
        return;
    }
    for_each_sender(net, count_sender, counts);
    snprintf(answer, answer_bytes, "%s %" PRIu32 " %" PRIu32 " %" PRIu32,
             mode_names[dt_load_relaxed(&net->hostpath.mode)], counts[DT_HOSTPATH_ON],
             counts[DT_HOSTPATH_AUTO], counts[DT_HOSTPATH_OFF]);
}

/* The mode of the first `length` characters, or DT_HOSTPATH_NONE. */
static enum dt_hostpath_mode find_mode(const char *word, size_t length)
{
    for (int mode = DT_HOSTPATH_OFF; mode < DT_HOSTPATH_PROCESS; mode++) {
        if (strlen(mode_names[mode]) == length && memcmp(mode_names[mode], word, length) == 0)
            return (enum dt_hostpath_mode)mode;
    }
    return DT_HOSTPATH_NONE;
}

enum dt_status dt_net_hostpath_command(struct dt_net *net, const char *args, char *answer,
                                       size_t answer_bytes)
{
    size_t length = strcspn(args, " ");
    const char *scope = args + length + strspn(args + length, " ");
    enum dt_hostpath_mode mode = find_mode(args, length);

    if (strcmp(args, "list") == 0) {
        list(net, answer, answer_bytes);
        return DT_OK;
    }
    if (mode == DT_HOSTPATH_NONE) {
        snprintf(answer, answer_bytes, "expected on, off, auto or list");
        return DT_INVALID;
    }
    if (!net->hostpath.is_on) {
        snprintf(answer, answer_bytes,
                 "the process was started with DETOUR_HOSTPATH=off and has no memory to stage messages in; "
                 "start it with DETOUR_HOSTPATH=auto");
        return DT_UNSUPPORTED;
    }
    return *scope ? switch_some(net, mode, scope, answer, answer_bytes)
                  : switch_all(net, mode, answer, answer_bytes);
}
