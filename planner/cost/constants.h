/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The constants of the cost model. They were written down before any result of the planner existed and are
 * not tuned: docs/adaptis.md names the commit. Each has its source; `gemm` alone was computed from a
 * measurement.
 */
#ifndef DETOUR_PLANNER_COST_CONSTANTS_H
#define DETOUR_PLANNER_COST_CONSTANTS_H

#ifdef __cplusplus
extern "C" {
#endif

/* A GPU as its data sheet describes it: dense bfloat16, one direction of NVLink, one network port per GPU. */
struct dt_gpu {
    const char *name;
    double flops;          /* per second */
    double memory_bytes_s; /* bandwidth */
    double nvlink_bytes_s;
    double network_bytes_s; /* an assumption: 400 Gb/s beside Hopper, 200 Gb/s beside Ampere */
    double capacity_bytes;
};

#define DT_GPU_H800                                \
    {                                              \
        "h800", 989e12, 3.35e12, 200e9, 50e9, 80e9 \
    }
#define DT_GPU_H100                                \
    {                                              \
        "h100", 989e12, 3.35e12, 450e9, 50e9, 80e9 \
    }
#define DT_GPU_A100                                 \
    {                                               \
        "a100", 312e12, 2.039e12, 300e9, 25e9, 80e9 \
    }

/*
 * Shares of the peak.
 *   gemm       matrix products: W of the 6.2 B model with 24 microbatches in the Zero Bubble paper (Table 9):
 *              4 layers, 3,072 tokens, hidden size 4,096 in 19.927 ms are 0.796 of an A100's peak
 *   attention  "35 % utilization on the H100": FlashAttention-2 as measured by the FlashAttention-3 paper
 * (Shah et al., 2024) scan       the chunks of Mamba-2 are small products like attention's: the same share
 *   memory     of the bandwidth, in kernels that touch each element once: an assumption
 *   network    of NVLink and of the network, for large messages: an assumption
 */
#define DT_SHARE_GEMM      0.80
#define DT_SHARE_ATTENTION 0.35
#define DT_SHARE_SCAN      0.35
#define DT_SHARE_MEMORY    0.80
#define DT_SHARE_NETWORK   0.80

/* No kernel takes less: the rate at which PyTorch launches kernels without graphs. An assumption. */
#define DT_KERNEL_S 5e-6

/* From the end of a send to its arrival at the next device. An assumption: switches, proxy thread, polling.
 */
#define DT_LINK_LATENCY_S 10e-6

/* Bytes of one value: parameters and activations in bfloat16, gradients accumulated in float32, Adam's two
 * moments and a master copy in float32. */
#define DT_BYTES_PARAMETER 2
#define DT_BYTES_GRADIENT  4
#define DT_BYTES_OPTIMIZER 12
#define DT_BYTES_VALUE     2

/*
 * Backward over forward of a fused attention or scan: five matrix products instead of two, because the
 * backward pass computes the scores again (Dao et al., 2022).
 */
#define DT_BACKWARD_OF_FUSED 2.5

/* Chunk length of Mamba-2's scan, its default (Dao and Gu, 2024). */
#define DT_SCAN_CHUNK 256

#ifdef __cplusplus
}
#endif

#endif
