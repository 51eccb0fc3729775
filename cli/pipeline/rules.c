/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/pipeline/rules.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/exit.h"
#include "base/param.h"
#include "obs/client.h"
#include "obs/runtime_dir.h"

#define TIMEOUT_MS 25000

void dt_pipeline_process_self(struct dt_pipeline_process *process)
{
    char host[65] = "";

    gethostname(host, sizeof host - 1);
    memset(process, 0, sizeof *process);
    snprintf(process->name, sizeof process->name, "%s:%d", host, (int)getpid());
}

bool dt_pipeline_process_is_near(const struct dt_pipeline_process *a, const struct dt_pipeline_process *b)
{
    size_t length = strcspn(a->name, ":");

    return strcspn(b->name, ":") == length && memcmp(a->name, b->name, length) == 0;
}

void dt_pipeline_rule_text(const struct dt_pipeline_slow_link *link, const struct dt_pipeline_process *peer,
                           char text[DT_PIPELINE_RULE_BYTES])
{
    snprintf(text, DT_PIPELINE_RULE_BYTES, "peer=%s %s=%" PRId64 "ns", peer->name,
             link->serial ? "serial" : "latency", link->delay_ns);
}

bool dt_pipeline_rules_order(const char *line, char answer[DT_COMMAND_ANSWER_BYTES],
                             struct dt_job_error *error)
{
    struct dt_runtime_dir dir;
    enum dt_status status = dt_runtime_dir_open(dt_getenv_process(NULL, "DETOUR_RUNTIME_DIR"), 0, &dir,
                                                answer, DT_COMMAND_ANSWER_BYTES);

    if (status == DT_OK) {
        status =
            dt_client_call(&dir, dt_runtime_own_number(), line, TIMEOUT_MS, answer, DT_COMMAND_ANSWER_BYTES);
        dt_runtime_dir_close(&dir);
    }
    if (status != DT_OK)
        return dt_job_fail(error, DT_EXIT_FAILED, "`detour %s` at this rank: %s", line, answer);
    return true;
}

/* Adds `rule`, whose number goes to *number, or removes the rule *number. */
static bool switch_rule(const char *rule, bool is_on, int64_t *number, struct dt_job_error *error)
{
    char line[DT_PIPELINE_RULE_BYTES + 16], answer[DT_COMMAND_ANSWER_BYTES];

    if (is_on == (*number != 0))
        return true;
    if (!is_on) {
        snprintf(line, sizeof line, "inject remove %" PRId64, *number);
        *number = 0;
        return dt_pipeline_rules_order(line, answer, error);
    }
    snprintf(line, sizeof line, "inject add %s", rule);
    if (!dt_pipeline_rules_order(line, answer, error))
        return false;
    *number = strtoll(answer, NULL, 10);
    return *number > 0 || dt_job_fail(error, DT_EXIT_FAILED, "`%s` was answered with '%s'", line, answer);
}

static const struct dt_pipeline_process *process_of(const struct dt_pipeline_rules *rules,
                                                    struct dt_pipeline_position position)
{
    return &rules->processes[dt_pipeline_rank_of(rules->devices, position)];
}

static bool set_link(struct dt_pipeline_rules *rules, size_t i, const struct dt_pipeline_slow_link *link,
                     struct dt_pipeline_position peer, bool is_slow, struct dt_job_error *error)
{
    char rule[DT_PIPELINE_RULE_BYTES];

    dt_pipeline_rule_text(link, process_of(rules, peer), rule);
    return switch_rule(rule, is_slow, &rules->numbers[i], error);
}

static bool set_kill(struct dt_pipeline_rules *rules, const struct dt_pipeline_kill *kill, uint32_t iteration,
                     struct dt_job_error *error)
{
    char rule[DT_PIPELINE_RULE_BYTES];

    snprintf(rule, sizeof rule, "device=%s down from=%" PRId64 "ns", rules->nic, rules->kill_after_ns);
    return switch_rule(rule, dt_pipeline_period_has(&kill->period, iteration), &rules->kill_number, error);
}

int64_t dt_pipeline_profile_delay_ns(const struct detour_profile *profile, int32_t from, int32_t to,
                                     bool serial)
{
    for (int32_t i = 0; i + 1 < profile->stage_count; i++) {
        const struct detour_link *link = &profile->links[i];
        int32_t low = profile->stages[i].device, high = profile->stages[i + 1].device;

        if (low == from && high == to)
            return serial ? link->forward_serial_ns : link->forward_ns;
        if (high == from && low == to)
            return serial ? link->backward_serial_ns : link->backward_ns;
    }
    return 0;
}

bool dt_pipeline_rules_start(const struct dt_pipeline_rules *rules, const struct detour_profile *profile,
                             struct dt_job_error *error)
{
    for (int32_t i = 0; i < 2 * profile->device_count; i++) {
        struct dt_pipeline_position peer = {i / 2, rules->position.replica};
        struct dt_pipeline_slow_link link = {.serial = i % 2};
        char rule[DT_PIPELINE_RULE_BYTES];
        int64_t number = 0;

        link.delay_ns =
            dt_pipeline_profile_delay_ns(profile, rules->position.device, peer.device, link.serial);
        if (peer.device == rules->position.device || link.delay_ns == 0)
            continue;
        dt_pipeline_rule_text(&link, process_of(rules, peer), rule);
        if (!switch_rule(rule, true, &number, error))
            return false;
    }
    return true;
}

bool dt_pipeline_rules_set(struct dt_pipeline_rules *rules, const struct dt_pipeline_slow *slow,
                           uint32_t iteration, struct dt_job_error *error)
{
    for (size_t i = 0; i < slow->link_count; i++) {
        const struct dt_pipeline_slow_link *link = &slow->links[i];
        bool is_slow = dt_pipeline_period_has(&link->period, iteration) && link->delay_ns > 0;
        struct dt_pipeline_position peer;

        if (dt_pipeline_slow_link_peer(link, rules->position, &peer) &&
            !set_link(rules, i, link, peer, is_slow, error))
            return false;
    }
    bool has_kill = slow->kill.nic[0] && (slow->kill.devices >> rules->position.device & 1);
    return !has_kill || set_kill(rules, &slow->kill, iteration, error);
}

bool dt_pipeline_rules_find_kill(struct dt_pipeline_rules *rules, const struct dt_pipeline_kill *kill,
                                 const struct dt_job_plugin *plugin, struct dt_job_error *error)
{
    const char *nic = kill->nic;

    if (!nic[0])
        return true;
    if (!strcmp(nic, DT_PIPELINE_FIRST_NIC))
        nic = plugin->devices[0].name;
    for (int i = 0; i < plugin->device_count; i++) {
        if (strcmp(plugin->devices[i].name, nic) != 0)
            continue;
        snprintf(rules->nic, sizeof rules->nic, "%s", nic);
        return true;
    }
    return dt_job_fail(error, DT_EXIT_USAGE, "--kill %s: the plugin has no such device; its first is %s", nic,
                       plugin->devices[0].name);
}
