/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options of a parallel job that do not depend on what its ranks do. A command (`detour perf`, ...) fills
 * them in; texts belong to the command and outlive the job.
 */
#ifndef DETOUR_JOB_JOB_H
#define DETOUR_JOB_JOB_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bounds the descriptors of the launcher, and a part of an exchange (exchange.h) to 1 KiB, which has to hold
 * a connection handle. */
/* Detour's own limit is a minute (DETOUR_CONNECT_TIMEOUT_MS), and its error has the reason. */
#define DT_JOB_CONNECT_TIMEOUT_S 90
#define DT_JOB_RANKS_MAX         1024

struct dt_job_options {
    const char *command;    /* for messages: "detour perf" */
    unsigned ranks;         /* 1 to DT_JOB_RANKS_MAX */
    int rank;               /* of this process; -1: this process starts all ranks */
    const char *rendezvous; /* HOST:PORT where rank 0 listens for the other ranks; NULL when `rank` is -1 */
    unsigned timeout_s;     /* time limit without progress, of a rank and of a peer inside a frame */
    unsigned
        connect_timeout_s; /* the same of a rank while it connects, above the plugin's own; 0: timeout_s */
    uint64_t
        digest; /* of the command's options that all ranks must have in common; compared at the rendezvous */
    const char *plugin_path; /* the ncclNet plugin that every rank loads */
    const char *log_level;   /* of the plugin's messages, in NCCL_DEBUG's words; NULL: WARN */
};

#ifdef __cplusplus
}
#endif

#endif
