/* SPDX-License-Identifier: Apache-2.0 */
/* Orders that park new messages and let them go, from the control socket (net.h). */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/util.h"
#include "transport/net.h"
#include "transport/net_state.h"

/* The senders that the scope matches now. With the mutex of its device a sender stays what it is. */
static uint32_t count_senders(struct dt_net *net, const struct dt_delay_scope *scope)
{
    uint32_t count = 0;

    for (size_t i = 0; i < net->nic_count; i++) {
        pthread_mutex_lock(&net->nic[i].mutex);
        dt_list_for_each(node, &net->service[i].connections)
        {
            struct dt_connection *c = dt_container_of(node, struct dt_connection, node);

            count += c->is_sender && dt_delay_flow_paths(dt_sender_of(c)->gate.flow, scope);
        }
        pthread_mutex_unlock(&net->nic[i].mutex);
    }
    return count;
}

static uint64_t read_clock(const struct dt_net *net)
{
    return net->inject.now_ns(net->inject.now_arg);
}

static enum dt_status add_hold(struct dt_net *net, const char *args, char *answer, size_t answer_bytes)
{
    const struct dt_delay_files files = {NULL, NULL};
    char text[DT_DELAY_TEXT_BYTES];
    struct dt_delay_rule rule;
    struct dt_delay_error error;
    enum dt_status status;
    uint32_t number;

    if (dt_delay_parse_hold(args, strlen(args), &rule, &error) != DT_OK) {
        snprintf(answer, answer_bytes, "%s", error.text);
        return DT_INVALID;
    }
    status = dt_inject_check_device(net, &rule, answer, answer_bytes);
    if (status != DT_OK)
        return status;
    status = dt_delay_table_add(net->inject.table, &rule, &files, read_clock(net), &number);
    if (status != DT_OK) {
        snprintf(answer, answer_bytes,
                 status == DT_FULL ? "there are %d holds and rules already; release or remove one first"
                                   : "out of memory",
                 DT_DELAY_RULES_MAX);
        return status;
    }
    dt_inject_wake_all(net); /* their sleep must not go beyond the end */
    dt_delay_rule_print(&rule, text);
    snprintf(answer, answer_bytes, "hold %s: %" PRIu32 " connections, and those to come", text,
             count_senders(net, &rule.scope));
    return DT_OK;
}

/* ------------------------------------------------------------------------------------------------------------
 * list, show
 */

/* The holds in force. */
static size_t list_holds(const struct dt_net *net, uint64_t now_ns,
                         struct dt_delay_info info[DT_DELAY_RULES_MAX])
{
    size_t all = dt_delay_table_list(net->inject.table, info);
    size_t count = 0;

    for (size_t i = 0; i < all; i++) {
        if (info[i].rule.effect == DT_DELAY_HOLD &&
            dt_deadline_ns(info[i].since_ns, info[i].rule.to_ns) > now_ns)
            info[count++] = info[i];
    }
    return count;
}

static enum dt_status list(const struct dt_net *net, char *answer, size_t answer_bytes)
{
    struct dt_delay_info info[DT_DELAY_RULES_MAX];
    size_t count = list_holds(net, read_clock(net), info);
    size_t used = 0;

    answer[0] = '\0';
    for (size_t i = 0; i < count && used < answer_bytes; i++)
        used +=
            (size_t)snprintf(answer + used, answer_bytes - used, "%s%" PRIu32, i ? " " : "", info[i].number);
    return DT_OK;
}

static enum dt_status show(const struct dt_net *net, const char *args, char *answer, size_t answer_bytes)
{
    struct dt_delay_info info[DT_DELAY_RULES_MAX];
    uint64_t now_ns = read_clock(net);
    size_t count = list_holds(net, now_ns, info);
    char text[DT_DELAY_TEXT_BYTES];
    uint64_t number;

    if (dt_parse_number(args, false, &number) != DT_OK) {
        snprintf(answer, answer_bytes, "expected the number of a hold");
        return DT_INVALID;
    }
    for (size_t i = 0; i < count; i++) {
        if (info[i].number != number)
            continue;
        dt_delay_rule_print(&info[i].rule, text);
        snprintf(answer, answer_bytes, "%" PRIu64 " %" PRIu64 " %s",
                 info[i].since_ns + info[i].rule.to_ns - now_ns, info[i].messages, text);
        return DT_OK;
    }
    snprintf(answer, answer_bytes, "no hold %" PRIu64, number);
    return DT_NOT_FOUND;
}

enum dt_status dt_net_hold_command(struct dt_net *net, const char *args, char *answer, size_t answer_bytes)
{
    if (!net->inject.now_ns) {
        snprintf(answer, answer_bytes, "nothing can be held here: there is no clock");
        return DT_UNSUPPORTED;
    }
    if (strcmp(args, "list") == 0)
        return list(net, answer, answer_bytes);
    if (strncmp(args, "show ", 5) == 0)
        return show(net, args + 5, answer, answer_bytes);
    return add_hold(net, args, answer, answer_bytes);
}

enum dt_status dt_net_release_command(struct dt_net *net, const char *args, char *answer, size_t answer_bytes)
{
    struct dt_delay_scope scope;
    struct dt_delay_error error;
    size_t count;

    if (dt_delay_parse_scope(args, strlen(args), &scope, &error) != DT_OK) {
        snprintf(answer, answer_bytes, "%s", error.text);
        return DT_INVALID;
    }
    count = dt_delay_table_release(net->inject.table, *args ? &scope : NULL);
    if (count == 0) {
        snprintf(answer, answer_bytes, *args ? "no hold has the scope '%s'" : "nothing is held%s", args);
        return DT_NOT_FOUND;
    }
    dt_inject_wake_all(net);
    snprintf(answer, answer_bytes, "released %zu hold%s", count, count == 1 ? "" : "s");
    return DT_OK;
}
