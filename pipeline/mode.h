/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a device treats its messages. The paper is PipeMorph; docs/pipeline.md compares in detail.
 *
 *   nccl       A flow has a fixed number of slots. A send holds the device until its last slice has a slot,
 * so a slow link holds back the computation behind it: head-of-line blocking (section 3.2). A receive is
 *              posted when the program reaches it.
 *              How its kernels are launched is struct dt_pipeline_launch.
 *   hostpath   A send never holds the device (section 5.2, the sender's side). Receives as above.
 *   delegated  Receives of the whole iteration are posted at its beginning as well (section 5.2, both sides).
 */
#ifndef DETOUR_PIPELINE_MODE_H
#define DETOUR_PIPELINE_MODE_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* name, text */
#define DT_PIPELINE_MODE_LIST(X)        \
    X(DT_PIPELINE_NCCL, "nccl")         \
    X(DT_PIPELINE_HOSTPATH, "hostpath") \
    X(DT_PIPELINE_DELEGATED, "delegated")

enum dt_pipeline_mode {
#define DT_PIPELINE_MODE_ENUM(name, text) name,
    DT_PIPELINE_MODE_LIST(DT_PIPELINE_MODE_ENUM)
#undef DT_PIPELINE_MODE_ENUM
        DT_PIPELINE_MODE_COUNT
};

/* "nccl", ...; NULL for other values. */
const char *dt_pipeline_mode_name(enum dt_pipeline_mode mode);

/* The mode of that name; false if there is none. */
bool dt_pipeline_mode_find(const char *name, enum dt_pipeline_mode *mode);

/*
 * How sends and receives are launched in the mode nccl. docs/pipeline.md names the systems that do so.
 *
 *   sends      Sends are kernels in the stream of the computations; a receive holds nothing.
 *   isend      Each message is a kernel of its own, on a communicator per pair of devices (isend and irecv of
 * PyTorch). batched    The messages between two computations are one kernel, on one communicator for all
 * devices (batch_isend_irecv, as Megatron-LM and Zero Bubble use it).
 *   ...-free   The same, and kernels of other streams overtake one that waits.
 *
 * Without -free, the device has one hardware queue for the launches of all streams
 * (CUDA_DEVICE_MAX_CONNECTIONS=1, which Megatron-LM demands): a kernel that waits for the one before it in
 * its stream holds back what was launched after it, computations included.
 */
struct dt_pipeline_launch {
    const char *name;
    bool has_kernels; /* kernels.h; otherwise the rules of `sends` */
    bool is_per_pair; /* a communicator per pair of devices, not one for all */
    bool batches;
    bool is_free; /* more than one hardware queue */
};

/* The way of that name; NULL if there is none. */
const struct dt_pipeline_launch *dt_pipeline_launch_find(const char *name);

/* The ways, "sends" first; NULL behind the last one. */
const struct dt_pipeline_launch *dt_pipeline_launch_at(unsigned index);

#ifdef __cplusplus
}
#endif

#endif
