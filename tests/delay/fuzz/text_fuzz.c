/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/delay/fuzz/text_fuzz.h"

#include <string.h>

#include "delay/flow.h"

static bool is_good_error(const struct dt_delay_error *error, size_t bytes)
{
    return error->line >= 1 && error->column >= 1 && error->column <= bytes + 1 &&
           strncmp(error->text, "line ", 5) == 0 && !strpbrk(error->text, "\n\r") && strlen(error->text) > 20;
}

/* Printed and read again it is the same; and it can be applied. */
static const char *check_rule(const struct dt_delay_rule *rule)
{
    char once[DT_DELAY_TEXT_BYTES], twice[DT_DELAY_TEXT_BYTES];
    struct dt_delay_rule again;
    struct dt_delay_error error;
    size_t count;

    dt_delay_rule_print(rule, once);
    if (dt_delay_parse(once, strlen(once), &again, 1, &count, &error) != DT_OK || count != 1)
        return "a printed rule is refused";
    dt_delay_rule_print(&again, twice);
    return strcmp(once, twice) == 0 ? NULL : "a rule changes when it is printed and read";
}

static const char *check_flow(const struct dt_delay_rule *rule)
{
    struct dt_delay_link link = {.peer = "peer", .path_count = 1, .device = {"soft0"}};
    struct dt_delay_files none = {NULL, NULL};
    struct dt_delay_table *table;
    struct dt_delay_flow *flow;
    const char *problem = NULL;
    struct dt_delay_active *faults[DT_DELAY_RULES_MAX];
    uint64_t next_ns;
    uint32_t number;

    if (rule->effect == DT_DELAY_TRACE || rule->effect == DT_DELAY_REPLAY ||
        dt_delay_table_create(&table) != DT_OK)
        return NULL;
    if (dt_delay_flow_create(table, &link, 4, &flow) == DT_OK) {
        dt_delay_table_add(table, rule, &none, 0, &number);
        for (uint64_t i = 0; i < 4; i++) {
            uint64_t now_ns = i * 3 * DT_NS_PER_S;

            dt_delay_submit(flow, i, 1 << 20, 0, now_ns);
            if (dt_delay_due_ns(flow, i) < now_ns || dt_delay_due_ns(flow, i) > now_ns + 4 * DT_DELAY_NS_MAX)
                problem = "a message is due before it is handed over, or never";
            if (dt_delay_table_faults(table, "soft0", now_ns, faults, &next_ns) > 0)
                dt_delay_active_release(faults[0]);
            if (next_ns <= now_ns)
                problem = "the next change of a fault is not later than now";
        }
        dt_delay_flow_destroy(flow);
    }
    dt_delay_table_destroy(table);
    return problem;
}

const char *dt_fuzz_rules(const char *text, size_t bytes)
{
    struct dt_delay_rule rules[4];
    struct dt_delay_error error = {0};
    size_t count;

    if (dt_delay_parse(text, bytes, rules, 4, &count, &error) != DT_OK)
        return is_good_error(&error, bytes) ? NULL : "a refusal without a place and a reason";
    for (size_t i = 0; i < count; i++) {
        const char *problem = check_rule(&rules[i]);

        if (!problem)
            problem = check_flow(&rules[i]);
        if (problem)
            return problem;
    }
    return NULL;
}

const char *dt_fuzz_trace(const char *text, size_t bytes)
{
    const char *problem = NULL;

    for (int i = 0; i < 2 && !problem; i++) {
        struct dt_delay_error error = {0};
        struct dt_delay_trace *trace;

        if (dt_delay_trace_create(i ? "0_1" : "", &trace) != DT_OK)
            return NULL;
        if (dt_delay_trace_parse(trace, text, bytes, i ? DT_NS_PER_MS : 0, &error) == DT_INVALID &&
            !is_good_error(&error, bytes))
            problem = "a refusal without a place and a reason";
        for (uint64_t t = 0; t < 10; t++) {
            uint64_t ns = dt_delay_trace_at(trace, t * DT_NS_PER_S / 2);

            if (ns > DT_DELAY_NS_MAX && ns != DT_DELAY_CRASH)
                problem = "a latency beyond the limit";
        }
        dt_delay_trace_destroy(trace);
    }
    return problem;
}

const char *dt_fuzz_record(const char *text, size_t bytes)
{
    struct dt_delay_error error = {0};
    struct dt_delay_replay *replay;
    enum dt_status status = dt_delay_replay_parse(text, bytes, 0, &replay, &error);

    if (status == DT_INVALID)
        return is_good_error(&error, bytes) ? NULL : "a refusal without a place and a reason";
    if (status != DT_OK)
        return NULL;
    for (uint32_t i = 0; i < 4; i++) {
        if (dt_delay_replay_at(replay, i, i) > DT_DELAY_NS_MAX)
            return "a delay beyond the limit";
    }
    dt_delay_replay_destroy(replay);
    return NULL;
}
