/* SPDX-License-Identifier: Apache-2.0 */
/* Orders about injection: from the environment, and from the control socket (net.h). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/param.h"
#include "base/util.h"
#include "transport/net.h"
#include "transport/inject_files.h"
#include "transport/net_state.h"
#include "transport/path/queues.h"

/* ------------------------------------------------------------------------------------------------------------
 * Adding rules
 */
static const struct dt_nic *find_device(const struct dt_net *net, const char *name)
{
    for (size_t i = 0; i < net->nic_count; i++) {
        if (strcmp(net->nic[i].name, name) == 0)
            return &net->nic[i];
    }
    return NULL;
}

enum dt_status dt_inject_check_device(const struct dt_net *net, const struct dt_delay_rule *rule, char *error,
                                      size_t error_bytes)
{
    const struct dt_nic *nic = find_device(net, rule->scope.device);
    size_t used;

    if (!rule->scope.device[0])
        return DT_OK;
    if (nic && rule->effect == DT_DELAY_FAIL && rule->call == DT_DELAY_CALL_POST_SEND &&
        dt_path_posting(&net->environment.params, &nic->info) == DT_POSTING_DV) {
        snprintf(error, error_bytes,
                 "%s posts without a call that could fail; with DETOUR_POSTING=std it would", nic->name);
        return DT_UNSUPPORTED;
    }
    if (nic)
        return DT_OK;
    used = (size_t)snprintf(error, error_bytes, "no device is named '%s'; there is", rule->scope.device);
    for (size_t i = 0; i < net->nic_count && used < error_bytes; i++)
        used += (size_t)snprintf(error + used, error_bytes - used, "%s %s", i ? "," : "", net->nic[i].name);
    return DT_NOT_FOUND;
}

static enum dt_status add_rule(struct dt_net *net, const struct dt_delay_rule *rule, uint32_t *number,
                               char *error, size_t error_bytes)
{
    struct dt_delay_files files;
    enum dt_status status = dt_inject_check_device(net, rule, error, error_bytes);

    if (status == DT_OK)
        status = dt_inject_load_files(rule, &files, error, error_bytes);
    if (status != DT_OK)
        return status;
    status =
        dt_delay_table_add(net->inject.table, rule, &files, net->inject.now_ns(net->inject.now_arg), number);
    if (status == DT_OK)
        return status;
    dt_inject_free_files(&files);
    snprintf(error, error_bytes,
             status == DT_FULL ? "there are %d rules already; remove one first" : "out of memory",
             DT_DELAY_RULES_MAX);
    return status;
}

void dt_inject_wake_all(struct dt_net *net)
{
    for (size_t i = 0; i < net->nic_count; i++)
        dt_nic_wake(&net->nic[i]);
}

static enum dt_status add_rules(struct dt_net *net, const struct dt_delay_rule *rules, size_t count,
                                char *error, size_t error_bytes)
{
    uint32_t number[DT_DELAY_RULES_MAX];
    enum dt_status status = DT_OK;
    size_t added = 0;

    while (added < count && status == DT_OK) {
        status = add_rule(net, &rules[added], &number[added], error, error_bytes);
        added += status == DT_OK;
    }
    DT_CHECK(added <= DT_DELAY_RULES_MAX);
    while (status != DT_OK && added > 0)
        dt_delay_table_remove(net->inject.table, number[--added]);
    if (added > 0)
        dt_inject_wake_all(net);
    return status;
}

/* `name` stands before the place of an error; "" for inline text. */
static enum dt_status inject_text(struct dt_net *net, const char *name, const char *text, size_t bytes,
                                  char *error, size_t error_bytes)
{
    struct dt_delay_rule rules[DT_DELAY_RULES_MAX];
    struct dt_delay_error where;
    size_t count;

    if (!net->inject.now_ns) {
        snprintf(error, error_bytes, "nothing can be injected here: there is no clock");
        return DT_UNSUPPORTED;
    }
    if (dt_delay_parse(text, bytes, rules, DT_DELAY_RULES_MAX, &count, &where) != DT_OK) {
        snprintf(error, error_bytes, "%s%s%s", name, name[0] ? ": " : "", where.text);
        return DT_INVALID;
    }
    return add_rules(net, rules, count, error, error_bytes);
}

enum dt_status dt_net_inject(struct dt_net *net, const char *text, char *error, size_t error_bytes)
{
    enum dt_status status;
    size_t bytes;
    char *file;

    if (strchr(text, '='))
        return inject_text(net, "", text, strlen(text), error, error_bytes);
    status = dt_inject_read_file(text, &file, &bytes, error, error_bytes);
    if (status != DT_OK)
        return status;
    status = inject_text(net, text, file, bytes, error, error_bytes);
    free(file);
    return status;
}

/* ------------------------------------------------------------------------------------------------------------
 * Commands
 */
#define ROW_BYTES_MAX (2 * DT_DELAY_NAME_BYTES + 8 * 21)

struct call {
    struct dt_net *net;
    const char *args; /* after the command's name */
    char *answer;
    size_t answer_bytes;
};

/* Holds have commands of their own (hold_command.c). */
static size_t list_rules(const struct call *call, struct dt_delay_info info[DT_DELAY_RULES_MAX])
{
    size_t all = dt_delay_table_list(call->net->inject.table, info);
    size_t count = 0;

    for (size_t i = 0; i < all; i++) {
        if (info[i].rule.effect != DT_DELAY_HOLD)
            info[count++] = info[i];
    }
    return count;
}

static enum dt_status run_add(const struct call *call)
{
    struct dt_delay_info info[DT_DELAY_RULES_MAX];
    char text[DT_DELAY_TEXT_BYTES];
    size_t count;
    enum dt_status status =
        inject_text(call->net, "", call->args, strlen(call->args), call->answer, call->answer_bytes);

    if (status != DT_OK)
        return status;
    count = list_rules(call, info);
    if (count == 0) {
        snprintf(call->answer, call->answer_bytes, "expected a rule");
        return DT_INVALID;
    }
    dt_delay_rule_print(&info[count - 1].rule, text);
    snprintf(call->answer, call->answer_bytes, "%" PRIu32 " %s", info[count - 1].number, text);
    return DT_OK;
}

static enum dt_status parse_rule_number(const struct call *call, uint64_t *number)
{
    if (dt_parse_number(call->args, false, number) == DT_OK && *number <= UINT32_MAX)
        return DT_OK;
    snprintf(call->answer, call->answer_bytes, "expected the number of a rule");
    return DT_INVALID;
}

static enum dt_status run_remove(const struct call *call)
{
    uint64_t number;
    enum dt_status status = parse_rule_number(call, &number);

    if (status != DT_OK)
        return status;
    status = dt_delay_table_remove(call->net->inject.table, (uint32_t)number);
    snprintf(call->answer, call->answer_bytes, status == DT_OK ? "removed rule %" PRIu64 : "no rule %" PRIu64,
             number);
    dt_inject_wake_all(call->net);
    return status;
}

static enum dt_status run_clear(const struct call *call)
{
    size_t count = dt_delay_table_clear(call->net->inject.table);

    snprintf(call->answer, call->answer_bytes, "removed %zu rule%s", count, count == 1 ? "" : "s");
    dt_inject_wake_all(call->net);
    return DT_OK;
}

static enum dt_status run_list(const struct call *call)
{
    struct dt_delay_info info[DT_DELAY_RULES_MAX];
    size_t count = list_rules(call, info);
    size_t used = 0;

    call->answer[0] = '\0';
    for (size_t i = 0; i < count && used < call->answer_bytes; i++)
        used += (size_t)snprintf(call->answer + used, call->answer_bytes - used, "%s%" PRIu32, i ? " " : "",
                                 info[i].number);
    return DT_OK;
}

static enum dt_status run_show(const struct call *call)
{
    struct dt_delay_info info[DT_DELAY_RULES_MAX];
    size_t count = list_rules(call, info);
    uint64_t now_ns = call->net->inject.now_ns(call->net->inject.now_arg);
    char text[DT_DELAY_TEXT_BYTES];
    uint64_t number;
    enum dt_status status = parse_rule_number(call, &number);

    if (status != DT_OK)
        return status;
    for (size_t i = 0; i < count; i++) {
        if (info[i].number != number)
            continue;
        dt_delay_rule_print(&info[i].rule, text);
        snprintf(call->answer, call->answer_bytes, "%" PRIu64 " %" PRIu64 " %" PRIu64 " %s",
                 now_ns - info[i].since_ns, info[i].messages, info[i].delay_ns, text);
        return DT_OK;
    }
    snprintf(call->answer, call->answer_bytes, "no rule %" PRIu64, number);
    return DT_NOT_FOUND;
}

static enum dt_status run_timer(const struct call *call)
{
    struct dt_delay_timer all = {0};

    for (size_t i = 0; i < call->net->nic_count; i++) {
        const struct dt_delay_timer *timer = &call->net->nic[i].service->inject.timer;

        all.margin_ns = dt_max_u64(all.margin_ns, dt_load_relaxed(&timer->margin_ns));
        all.waits += dt_load_relaxed(&timer->waits);
        all.slept_ns += dt_load_relaxed(&timer->slept_ns);
        all.spun_ns += dt_load_relaxed(&timer->spun_ns);
    }
    snprintf(call->answer, call->answer_bytes, "%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64, all.margin_ns,
             all.waits, all.slept_ns, all.spun_ns);
    return DT_OK;
}

/* "FIRST;ROW;ROW": as many rows as fit. */
static void read_record(const struct call *call, uint64_t number)
{
    struct dt_delay_table *table = call->net->inject.table;
    struct dt_delay_entry entry;
    uint64_t found = dt_delay_table_read(table, number, &entry);
    size_t used =
        (size_t)snprintf(call->answer, call->answer_bytes, "%" PRIu64, found == DT_NEVER_NS ? number : found);

    while (found != DT_NEVER_NS && call->answer_bytes - used > ROW_BYTES_MAX + 1) {
        call->answer[used++] = ';';
        used += (size_t)dt_delay_entry_print(&entry, call->answer + used, call->answer_bytes - used);
        number = found + 1;
        found = dt_delay_table_read(table, number, &entry);
        if (found != number)
            break; /* the ring went round: the next call starts there */
    }
}

static enum dt_status run_record(const struct call *call)
{
    uint64_t number;

    if (dt_parse_number(call->args, false, &number) == DT_OK) {
        read_record(call, number);
        return DT_OK;
    }
    snprintf(call->answer, call->answer_bytes, "expected the number of an entry");
    return DT_INVALID;
}

static const struct {
    const char *name;
    enum dt_status (*run)(const struct call *call);
} commands[] = {
    {"add", run_add},   {"remove", run_remove}, {"clear", run_clear},   {"list", run_list},
    {"show", run_show}, {"timer", run_timer},   {"record", run_record},
};

enum dt_status dt_net_inject_command(void *arg, const char *args, char *answer, size_t answer_bytes)
{
    size_t length = strcspn(args, " ");
    struct call call = {arg, args + length, answer, answer_bytes};

    call.args += strspn(call.args, " ");
    for (size_t i = 0; i < DT_COUNT_OF(commands); i++) {
        if (strlen(commands[i].name) == length && memcmp(commands[i].name, args, length) == 0)
            return commands[i].run(&call);
    }
    snprintf(answer, answer_bytes, "expected add, remove, clear, list, show, timer or record");
    return DT_INVALID;
}
