/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes links slow and RNICs fail: injection rules (delay/rule.h) of this rank, for the messages that it
 * sends to a peer or for a device, set and removed between iterations over the process's own command socket.
 */
#ifndef DETOUR_CLI_PIPELINE_RULES_H
#define DETOUR_CLI_PIPELINE_RULES_H

#include "cli/pipeline/slow.h"
#include "detour/sched.h"
#include "job/error.h"
#include "job/plugin.h"
#include "obs/command.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How a rank's process is called in injection rules: "host:pid". */
struct dt_pipeline_process {
    char name[80];
};

void dt_pipeline_process_self(struct dt_pipeline_process *process);

/* Both are of one machine, and so share a clock. */
bool dt_pipeline_process_is_near(const struct dt_pipeline_process *a, const struct dt_pipeline_process *b);

struct dt_pipeline_rules {
    struct dt_pipeline_position position;        /* of this rank */
    int32_t devices;                             /* of one replica */
    const struct dt_pipeline_process *processes; /* [rank] */
    int64_t numbers[DT_PIPELINE_SLOW_MAX];       /* [slow link] of its rule in force; 0: none */
    char nic[32];                                /* of --kill, as the plugin names it */
    int64_t kill_number;                         /* its rule in force */
    int64_t kill_after_ns;                       /* from the beginning of its iteration */
};

/* A line for this process's own command socket (obs/command.h). False with the reason in *error. Blocks. */
bool dt_pipeline_rules_order(const char *line, char answer[DT_COMMAND_ANSWER_BYTES],
                             struct dt_job_error *error);

/* The rule of a slow link for its messages to `peer`, as text. */
enum { DT_PIPELINE_RULE_BYTES = 160 };
void dt_pipeline_rule_text(const struct dt_pipeline_slow_link *link, const struct dt_pipeline_process *peer,
                           char text[DT_PIPELINE_RULE_BYTES]);

/* The RNIC of --kill exists; its name goes to the rules. */
bool dt_pipeline_rules_find_kill(struct dt_pipeline_rules *rules, const struct dt_pipeline_kill *kill,
                                 const struct dt_job_plugin *plugin, struct dt_job_error *error);

/*
 * Sets, for the whole run, the delays that the profile's links give the messages of this rank; links between
 * the same two devices must have the same. False with the reason in *error. Blocks.
 */
bool dt_pipeline_rules_start(const struct dt_pipeline_rules *rules, const struct detour_profile *profile,
                             struct dt_job_error *error);

/* The delay of messages between two devices that the profile has, as latency or as serial time; 0: none. */
int64_t dt_pipeline_profile_delay_ns(const struct detour_profile *profile, int32_t from, int32_t to,
                                     bool serial);

/* Sets the rules as they are to be in `iteration`. False with the reason in *error. Blocks. */
bool dt_pipeline_rules_set(struct dt_pipeline_rules *rules, const struct dt_pipeline_slow *slow,
                           uint32_t iteration, struct dt_job_error *error);

#ifdef __cplusplus
}
#endif

#endif
