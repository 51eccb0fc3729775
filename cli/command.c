/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/command.h"

#include <stddef.h>

#include "cli/doctor.h"
#include "cli/inject.h"
#include "cli/nic.h"
#include "cli/perf.h"
#include "cli/sched.h"
#include "cli/stat.h"

const struct dt_command dt_commands[] = {
    {"perf", "run a communication pattern through a network plugin as NCCL does, check and time it",
     dt_perf_command},
    {"stat",
     "what running processes have sent and received, and which links are slow; for people and machines",
     dt_stat_command},
    {"doctor", "look at this machine: devices, GIDs, backups, settings, limits, NCCL; and what is wrong",
     dt_doctor_command},
    {"nic", "list the RNICs of running processes, act on software ones: link down, up, packet loss",
     dt_nic_command},
    {"inject", "make messages of running processes late and their devices fail, by rules; record, replay",
     dt_inject_command},
    {"sched", "pipeline schedules that absorb slow links: plan, simulate, check, adapt, compare",
     dt_sched_command},
    {NULL, NULL, NULL},
};
