/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a pipeline program in virtual time: the executor of pipeline/ on every host of a cluster, its messages
 * through the plugin's entry points, with the calls that NCCL makes (isend, irecv, iflush, test). The same
 * executor as in `detour pipeline`, which waits on a real clock; here times are exact and repeatable, and a
 * message of 100 MB is cheap (wire_sim.h).
 *
 * What the modes (pipeline/mode.h) mean here:
 *   nccl       sends and receives use GPU memory directly.
 *   hostpath   sends are staged (DETOUR_HOSTPATH=on): a send is complete when its copy from the GPU is.
 * Receives use GPU memory directly. delegated  also, receives use host memory and are copied to the GPU
 * afterwards; a message has arrived when that copy ends (PipeMorph section 5.2 and figure 12).
 */
#ifndef DETOUR_TESTS_SIM_PIPELINE_SIM_H
#define DETOUR_TESTS_SIM_PIPELINE_SIM_H

#include <stdbool.h>
#include <stdint.h>

#include "pipeline/executor.h"
#include "pipeline/gradients.h"
#include "pipeline/grid.h"
#include "pipeline/shares.h"
#include "tests/sim/stream_sim.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Of every replica of the pipeline. */
#define DT_PIPELINE_SIM_EVERY_REPLICA (-1)

/*
 * Both directions of a link, slowed by a rule of injection at each sender (delay/rule.h). Between replicas, a
 * serial link carries message_bytes of gradients per delay_ns, as it would carry a message.
 */
struct dt_pipeline_slow_link {
    int32_t link;      /* between stage `link` and the next one */
    int32_t replica;   /* of the pipeline */
    bool is_dp;        /* instead, between device `link` of `replica` and that of the next one in the ring */
    uint64_t delay_ns; /* of a message */
    bool is_serial;    /* messages take the delay one after the other, not each for itself */
};

/* Computations of a device take longer. */
struct dt_pipeline_slow_device {
    int32_t device;
    int32_t replica; /* or DT_PIPELINE_SIM_EVERY_REPLICA */
    uint32_t permille;
};

/*
 * How long the messages of an iteration took, the mean of each link and direction: from when both ends were
 * ready, the send ordered and the receive posted, to the arrival. So the plugin measures as well.
 */
struct dt_pipeline_sim_transit {
    uint64_t forward_ns[DT_SIM_HOSTS_MAX]; /* [link]; 0: within a device */
    uint64_t backward_ns[DT_SIM_HOSTS_MAX];
};

/* The schedule for a number of microbatches: the profile's. */
struct dt_pipeline_sim_variant {
    struct detour_profile profile;
    const struct detour_program *program;
};

struct dt_pipeline_sim_options {
    const struct detour_profile *profile; /* computing times and placement */
    const struct detour_program *program;
    int32_t replicas;        /* device d of replica r is host r * devices + d; 0: one */
    uint64_t gradient_bytes; /* replicas > 1: of a device, which sums them up over the replicas */
    /* replicas > 1: other numbers of microbatches than the profile's, with the schedule for each number. */
    struct dt_pipeline_shares shares;
    const struct dt_pipeline_sim_variant *variants;
    size_t variant_count;
    enum dt_pipeline_mode mode;
    uint64_t message_bytes;
    uint64_t slice_bytes; /* executor.h, as the next; gradients are cut in every mode, into other slices */
    uint32_t slots;
    const struct dt_pipeline_launch *launch; /* nccl; NULL: "sends" */
    uint64_t rate_bytes_per_s;               /* of each direction between two hosts */
    uint64_t latency_ns;
    bool has_own_links; /* instead, between the devices of two stages that of the profile's link (the last one
                           between the same two): its latency, and a rate at which a message takes its serial
                           time */
    uint64_t to_host_bytes_per_s; /* of a GPU's copies */
    uint64_t to_gpu_bytes_per_s;
    uint64_t pool_bytes; /* DETOUR_HOSTPATH_BYTES */
    const struct dt_pipeline_slow_link *slow;
    uint32_t slow_count;
    const struct dt_pipeline_slow_device *slow_device;
    uint32_t slow_device_count;
    const char
        *effect; /* of the rules on slow links, as delay/rule.h has it, instead of delay_ns; NULL: none */
    uint32_t iteration_count;
    uint64_t seed;
    /* After each iteration: the program of the next one; NULL: the first one. NULL: no call. */
    const struct detour_program *(*after)(void *arg, uint32_t iteration,
                                          const struct dt_pipeline_sim_transit *transit);
    void *after_arg;
    uint64_t spoiled_send; /* one byte of this send, counted from 1 in each iteration, is wrong; 0: of none */
};

/* An iteration begins on all devices at the same instant. */
struct dt_pipeline_sim_result {
    uint64_t iteration_ns; /* to the end of the last computation or all-reduce of any device */
    uint64_t pipeline_ns;  /* to the end of the last computation */
    uint64_t complete_ns;  /* to the completion of the last message */
    /* Sums over the devices (dt_executor_account). */
    uint64_t compute_ns;
    uint64_t wait_ns;
    uint64_t held_ns;
    uint64_t transfers;
};

enum { DT_PIPELINE_SIM_TEXT_BYTES = 256 };

/*
 * results: iteration_count entries. False: `failure` has one line, which names the device and the message
 * where it concerns one.
 */
bool dt_pipeline_sim_run(const struct dt_pipeline_sim_options *options,
                         struct dt_pipeline_sim_result *results, char failure[DT_PIPELINE_SIM_TEXT_BYTES]);

#ifdef __cplusplus
}
#endif

#endif
