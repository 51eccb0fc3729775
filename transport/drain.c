/* SPDX-License-Identifier: Apache-2.0 */
/* Administrative drain of a device (`detour nic NAME migrate`) or of one connection's path, and its end. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "transport/net.h"
#include "transport/message/connection.h"
#include "transport/message/sender.h"
#include "transport/net_state.h"
#include "base/check.h"

/* What is drained, or not any more. */
struct order {
    const struct dt_nic *nic;
    const struct dt_delay_scope *scope; /* NULL: the device, for all its connections */
    bool is_drained;
};

static bool is_concerned(struct dt_connection *c, const struct order *order)
{
    return !order->scope ||
           (c->is_sender && dt_delay_flow_paths(dt_sender_of(c)->gate.flow, order->scope) != 0);
}

/* Takes the connection's paths over this device out of use, or lets them return. Returns whether it has one.
 */
static bool apply(struct dt_connection *c, const struct order *order)
{
    bool has_path = false;

    for (uint32_t p = 0; p < c->path_count; p++) {
        DT_CHECK(c->path[p].connection == c && c->path[p].index == p);
        if (c->path[p].nic != order->nic)
            continue;
        has_path = true;
        if (order->scope || !order->is_drained)
            dt_store_release(&c->path[p].is_drained, order->is_drained ? 1u : 0u);
        if (order->is_drained) {
            dt_connection_suspect(c, &c->path[p], DT_FAULT_ADMIN);
        } else {
            __atomic_fetch_or(&c->hints, 1u << p, __ATOMIC_ACQ_REL);
            dt_nic_wake(c->nic);
        }
    }
    return has_path;
}

/* With the mutex of its device a sender stays what it is. */
static uint32_t apply_to_all(struct dt_net *net, const struct order *order)
{
    uint32_t count = 0;

    for (size_t i = 0; i < net->nic_count; i++) {
        pthread_mutex_lock(&net->nic[i].mutex);
        dt_list_for_each(node, &net->nic[i].service->connections)
        {
            struct dt_connection *c = dt_container_of(node, struct dt_connection, node);

            count += is_concerned(c, order) && apply(c, order);
        }
        pthread_mutex_unlock(&net->nic[i].mutex);
    }
    return count;
}

/* NULL: there is none, and the answer has those that there are. */
static struct dt_nic *find(struct dt_net *net, const char *name, char *answer, size_t answer_bytes)
{
    size_t used;

    for (size_t i = 0; i < net->nic_count; i++) {
        if (strcmp(net->nic[i].name, name) == 0)
            return &net->nic[i];
    }
    used = (size_t)snprintf(answer, answer_bytes, "no device named '%s' is in use; there are", name);
    for (size_t i = 0; i < net->nic_count && used < answer_bytes; i++)
        used += (size_t)snprintf(answer + used, answer_bytes - used, " %s", net->nic[i].name);
    return NULL;
}

static void describe(const struct order *order, uint32_t count, char *answer, size_t answer_bytes)
{
    const char *what = order->is_drained ? "leave it, those that have another path" : "may use it again";
    bool must_wait = !order->is_drained && dt_load_acquire(&order->nic->is_drained);

    snprintf(answer, answer_bytes, "%s: %u connections %s%s", order->nic->name, count, what,
             must_wait ? " once the drain of the device has ended" : "");
}

enum dt_status dt_net_drain(struct dt_net *net, const char *device, bool is_drained, char *answer,
                            size_t answer_bytes)
{
    struct dt_nic *nic = find(net, device, answer, answer_bytes);
    const struct order order = {nic, NULL, is_drained};

    if (!nic)
        return DT_NOT_FOUND;
    dt_store_release(&nic->is_drained, is_drained ? 1u : 0u);
    describe(&order, apply_to_all(net, &order), answer, answer_bytes);
    return DT_OK;
}

enum dt_status dt_net_drain_some(struct dt_net *net, const char *device, const char *scope, bool is_drained,
                                 char *answer, size_t answer_bytes)
{
    struct dt_nic *nic = find(net, device, answer, answer_bytes);
    struct dt_delay_scope parsed;
    struct dt_delay_error error;
    const struct order order = {nic, &parsed, is_drained};
    uint32_t count;

    if (!nic)
        return DT_NOT_FOUND;
    if (dt_delay_parse_scope(scope, strlen(scope), &parsed, &error) != DT_OK) {
        snprintf(answer, answer_bytes, "%s", error.text);
        return DT_INVALID;
    }
    if (parsed.device[0]) {
        snprintf(answer, answer_bytes, "the device is named twice");
        return DT_INVALID;
    }
    snprintf(parsed.device, sizeof parsed.device, "%s", device);
    count = apply_to_all(net, &order);
    if (!count) {
        snprintf(answer, answer_bytes, "no connection that sends over %s matches '%s'", device, scope);
        return DT_NOT_FOUND;
    }
    describe(&order, count, answer, answer_bytes);
    return DT_OK;
}

/* A text that is cut where its room ends. */
struct text {
    char *at;
    size_t bytes;
    size_t used;
};

__attribute__((format(printf, 2, 3))) static void append(struct text *text, const char *format, ...)
{
    va_list args;

    if (text->used >= text->bytes)
        return;
    va_start(args, format);
    text->used += (size_t)vsnprintf(text->at + text->used, text->bytes - text->used, format, args);
    va_end(args);
}

/* An entry "DEVICE KIND [STATE]", and the drained ports of the device. */
static void append_entry(const struct dt_net *net, const char *entry, size_t bytes, struct text *text)
{
    size_t name_bytes = strcspn(entry, " ,");
    const char *kind = entry + name_bytes + strspn(entry + name_bytes, " ");

    append(text, "%.*s", (int)bytes, entry);
    for (size_t i = 0; i < net->nic_count; i++) {
        if (!strncmp(net->nic[i].name, entry, name_bytes) && !net->nic[i].name[name_bytes] &&
            dt_load_acquire(&net->nic[i].is_drained))
            append(text, " drained");
    }
    for (size_t i = 0; i < net->nic_count; i++) {
        if (!strncmp(net->nic[i].name, entry, name_bytes) && net->nic[i].name[name_bytes] == ':' &&
            dt_load_acquire(&net->nic[i].is_drained))
            append(text, ", %s %.*s drained", net->nic[i].name, (int)strcspn(kind, " ,"), kind);
    }
}

void dt_net_list_drained(const struct dt_net *net, const char *list, char *answer, size_t answer_bytes)
{
    struct text text = {answer, answer_bytes, 0};

    append(&text, "%s", "");
    while (*list) {
        size_t bytes = strcspn(list, ",");

        append_entry(net, list, bytes, &text);
        list += bytes;
        if (*list == ',') {
            append(&text, ", ");
            list += 1 + strspn(list + 1, " ");
        }
    }
}
