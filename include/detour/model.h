/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Models in layers: which layers form a stage, on which device a stage lies, and what that costs.
 *
 * detour/sched.h takes stages as given. This header begins one step earlier, with layers, devices and links
 * (struct detour_model). A partition cuts the layers into stages and places the stages on devices (struct
 * detour_partition). detour_model_profile() turns both into the profile that every function of detour/sched.h
 * takes; detour_model_evaluate() is the performance model: Algorithm 1 of AdaPtis (arXiv 2509.23722), on the
 * exact simulator.
 *
 * The rules of detour/sched.h hold: int64 nanoseconds and bytes, results in the caller's arena, no global
 * state, no clock, no thread, one line of text for each error.
 */
#ifndef DETOUR_MODEL_H
#define DETOUR_MODEL_H

#include "detour/sched.h"
#include "detour/sched_format.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Limits. Within them no sum in the library overflows; beyond them a model is refused (DETOUR_LIMIT). */
#define DETOUR_LAYERS_MAX         4096
#define DETOUR_MODEL_DEVICES_MAX  256
#define DETOUR_MODEL_NAME_BYTES   64 /* of a name or a layer type, with its NUL */
#define DETOUR_SPEED_PERMILLE_MAX 1000000
#define DETOUR_BANDWIDTH_MAX      1000000000000000 /* bytes per second */
#define DETOUR_MODEL_REPLICAS_MAX 65536

/* ---- the model -------------------------------------------------------------------------------------- */

/*
 * One layer, for one microbatch, on a device of nominal speed. With tensor or data parallelism the times and
 * the bytes are those of one rank: the largest one, where ranks differ.
 */
struct detour_layer {
    const char *type; /* for people and pictures: "attention", "mamba", ...; printable ASCII */
    int64_t f_ns;
    int64_t b_ns;
    int64_t w_ns;
    int64_t bw_ns; /* fused B and W; 0 means b_ns + w_ns */
    int64_t parameter_bytes;
    int64_t gradient_bytes;     /* of the parameters, as accumulated over the microbatches */
    int64_t optimizer_bytes;    /* state of the optimizer, with master copies of the parameters */
    int64_t activation_bytes;   /* held from the start of F to the end of B */
    int64_t activation_w_bytes; /* held from the end of B to the end of W */
    int64_t message_bytes;      /* activation sent to the next layer; its gradient has the same size */
};

struct detour_model_device {
    int64_t capacity_bytes; /* of all memory; 0 means no limit */
    int32_t speed_permille; /* of nominal: 500 takes twice the layers' times; at least 1 */
};

/*
 * One direction between two devices. A message occupies the link for its bytes / bandwidth and arrives
 * `latency_ns` after that. Where `blocks_sender`, the sending device computes nothing while its message
 * occupies the link: no overlap of communication and computing.
 */
struct detour_model_link {
    int64_t latency_ns;
    int64_t bytes_per_s; /* 0 means that a message occupies the link for no time */
    bool blocks_sender;
};

/*
 * Replicas of the whole pipeline (data parallelism), which share the optimizer: after its last operation, a
 * device sums up its gradients with the same device of all replicas and gets the new parameters, each in
 * count - 1 steps around a ring, in which it sends 1 / count of the bytes.
 */
struct detour_model_replicas {
    int32_t count;       /* 0 and 1: no replicas, nothing is exchanged */
    int64_t latency_ns;  /* of a step */
    int64_t bytes_per_s; /* of a device to its neighbor; 0: no time but the latency */
};

/*
 * Stage i has the layers first_layer[i] .. first_layer[i + 1] - 1, at least one, and lies on device[i]. Every
 * device has a stage. Any placement is possible: one stage for each device, interleaved, waves, others.
 */
struct detour_partition {
    int32_t stage_count;
    const int32_t *first_layer; /* stage_count + 1: begins with 0, ascends, ends with layer_count */
    const int32_t *device;      /* stage_count */
};

/* Owned by the caller, only read by the library. */
struct detour_model {
    const char *name; /* printable ASCII */
    int32_t layer_count;
    int32_t device_count;
    int32_t microbatch_count;
    const struct detour_layer *layers;         /* layer_count */
    const struct detour_model_device *devices; /* device_count */
    /* From device a to device b: links[a * device_count + b]. NULL: messages take no time. */
    const struct detour_model_link *links;
    /* Parts that a search leaves alone: a stage_count of 0 and pointers that are NULL are free. */
    struct detour_partition fixed;
    struct detour_model_replicas replicas; /* zero: none */
};

/* DETOUR_OK when every field is in range. All functions below check their model themselves. */
DETOUR_API enum detour_status detour_model_check(const struct detour_model *model,
                                                 struct detour_error *error);

/* DETOUR_OK for a checked model's partition that has the form above and keeps what the model fixes. */
DETOUR_API enum detour_status detour_partition_check(const struct detour_model *model,
                                                     const struct detour_partition *partition,
                                                     struct detour_error *error);

/* ---- placements -------------------------------------------------------------------------------------- */

enum detour_placement {
    DETOUR_PLACEMENT_SEQUENTIAL = 0,  /* stage i on device i; as many stages as devices */
    DETOUR_PLACEMENT_INTERLEAVED = 1, /* 0 1 2 0 1 2: virtual stages (Narayanan et al., 2021) */
    DETOUR_PLACEMENT_WAVE = 2,        /* 0 1 2 2 1 0: a V, or the waves of Hanayo (Liu et al., 2023) */
    DETOUR_PLACEMENT_COUNT = 3,
};

/* "sequential", "interleaved", "wave". NULL for other values. */
DETOUR_API const char *detour_placement_name(enum detour_placement placement);

/* The placement of that name into *placement; false if there is none. */
DETOUR_API bool detour_placement_find(const char *name, enum detour_placement *placement);

/*
 * Writes the device of each of `stage_count` stages to device[]. DETOUR_UNSUPPORTED unless stage_count is a
 * multiple of device_count (for SEQUENTIAL: equal to it).
 */
DETOUR_API enum detour_status detour_placement_fill(enum detour_placement placement, int32_t stage_count,
                                                    int32_t device_count, int32_t *device,
                                                    struct detour_error *error);

/* ---- from layers to stages --------------------------------------------------------------------------- */

/*
 * The profile of the partition (AdaPtis, Algorithm 1, steps 1 and 2):
 *
 *   times      sums over the stage's layers, divided by the device's speed, rounded up; where a link blocks
 *              its sender, plus the time that the stage's message occupies the link
 *   links      latency, and bytes / bandwidth as serial time (0 where the link blocks its sender)
 *   bytes_f    sum of activation_bytes; bytes_w: sum of activation_w_bytes
 *   capacity   of the device, less parameters, gradients and optimizer state of its layers
 *
 * DETOUR_MEMORY_TOO_SMALL where a device cannot hold its layers and one microbatch.
 */
DETOUR_API enum detour_status detour_model_profile(struct detour_arena *arena,
                                                   const struct detour_model *model,
                                                   const struct detour_partition *partition,
                                                   struct detour_profile **profile,
                                                   struct detour_error *error);

/* ---- the performance model --------------------------------------------------------------------------- */

/*
 * The time of a device from the iteration's begin to its end, and its memory.
 *
 *   makespan = compute + exposed + bubble           for every device
 *
 * Communication is the time in which a message to the device is on its way, or the device is blocked by a
 * message of its own; it is overlapped where the device computes, exposed where it does not. With C_d =
 * compute + overlapped + exposed this is the paper's T_d = C_d + BubbleTime(d) - OverlapTime(d).
 */
struct detour_device_performance {
    int64_t compute_ns;
    int64_t bubble_ns; /* idle, and no message to the device is on its way */
    int64_t overlapped_ns;
    int64_t exposed_ns;
    int64_t static_bytes;     /* parameters and optimizer state */
    int64_t gradient_bytes;   /* G_d: of the parameters */
    int64_t activation_bytes; /* A_d: the peak over the iteration */
    int64_t peak_bytes;       /* M_d: sum of the three above */
    bool fits;                /* peak_bytes within the device's capacity */
    int64_t exchange_ns;      /* with its replicas, after its last operation; in none of the times above */
};

struct detour_performance {
    int64_t makespan_ns;
    int64_t iteration_ns; /* to the end of the last exchange between replicas; without any, the makespan */
    double bubble_ratio;  /* bubble and exposed communication, of all devices, over devices times makespan */
    int32_t slowest_device;                    /* with the largest compute_ns */
    bool fits;                                 /* on every device */
    struct detour_device_performance *devices; /* device_count */
};

/*
 * Simulates a schedule of the partition's profile, whose operations' times it writes, and describes the
 * result. Memory limits are reported (`fits`), not enforced, so that a schedule that needs too much memory
 * can be described, too. Statuses: those of detour_simulate().
 */
DETOUR_API enum detour_status
detour_model_evaluate(struct detour_arena *arena, const struct detour_model *model,
                      const struct detour_partition *partition, struct detour_schedule *schedule,
                      struct detour_performance **performance, struct detour_error *error);

/* ---- models of known families ------------------------------------------------------------------------- */

enum detour_family {
    DETOUR_FAMILY_GEMMA = 0,      /* AdaPtis, Table 5; shapes of Gemma 3 (arXiv 2503.19786) */
    DETOUR_FAMILY_DEEPSEEK = 1,   /* AdaPtis, Table 5; shapes of DeepSeek-V2-Lite (arXiv 2405.04434) */
    DETOUR_FAMILY_NEMOTRON_H = 2, /* AdaPtis, Table 5; shapes of Nemotron-H-8B (arXiv 2504.03624) */
    DETOUR_FAMILY_GPT = 3, /* the models of the Zero Bubble paper (arXiv 2401.10241): 1.5, 6.2 and 14.6 B */
    DETOUR_FAMILY_COUNT = 4,
};

enum detour_model_size {
    DETOUR_MODEL_SMALL = 0,
    DETOUR_MODEL_MEDIUM = 1,
    DETOUR_MODEL_LARGE = 2,
    DETOUR_MODEL_SIZE_COUNT = 3,
};

/* "gemma", "deepseek", "nemotron-h", "gpt"; "small", "medium", "large". NULL for other values. */
DETOUR_API const char *detour_family_name(enum detour_family family);
DETOUR_API const char *detour_model_size_name(enum detour_model_size size);

/* The value of that name; false if there is none. */
DETOUR_API bool detour_family_find(const char *name, enum detour_family *family);
DETOUR_API bool detour_model_size_find(const char *name, enum detour_model_size *size);

/* 0 and NULL are the default of every field. */
struct detour_family_options {
    enum detour_family family;
    enum detour_model_size size;
    const char *gpu;          /* "h800" (default), "h100", "a100" */
    int32_t sequence_tokens;  /* of one sequence; 0 means 2048 */
    int32_t batch_sequences;  /* of one microbatch; 0 means 1 */
    int32_t microbatch_count; /* 0 means 16 */
    int32_t device_count;     /* pipeline parallelism; 0 means 4 */
    int32_t tensor_parallel;  /* GPUs that share each layer; 0 means 1 */
    int32_t expert_parallel;  /* GPUs that share the experts of a layer; 0 means 1 */
    int32_t data_parallel;    /* replicas, which share the optimizer's state; 0 means 1 */
};

/*
 * A model from published architecture figures, by a cost model of FLOPs and bytes. docs/adaptis.md has the
 * formulas, and how far their times are from measured ones: a profile of the user's own is better.
 */
DETOUR_API enum detour_status detour_model_of_family(struct detour_arena *arena,
                                                     const struct detour_family_options *options,
                                                     struct detour_model **model, struct detour_error *error);

/* ---- model files ------------------------------------------------------------------------------------- */

/*
 * Reads a model (docs/adaptis.md has the format) and checks it with detour_model_check(). As strict as the
 * readers of detour/sched_format.h: one line with `name`, the place, what is there and what would be right.
 */
DETOUR_API enum detour_status detour_model_from_json(struct detour_arena *arena, const char *name,
                                                     const char *text, size_t bytes,
                                                     struct detour_model **model, struct detour_error *error);

/* What detour_model_from_json() reads back as the same model. */
DETOUR_API enum detour_status detour_model_to_json(struct detour_arena *arena,
                                                   const struct detour_model *model, struct detour_text *text,
                                                   struct detour_error *error);

/* The part of a model that is not measured layer by layer; used where the file has none. 0: see each field.
 */
struct detour_measured_options {
    int32_t device_count;     /* 0: the file has "devices" */
    int32_t microbatch_count; /* 0: the file has "microbatches" */
    int64_t capacity_bytes;   /* of each device; 0: no limit */
    int64_t bytes_per_s;      /* of each link; 0: messages occupy it for no time */
    int64_t latency_ns;
};

/*
 * A model from measured times: a model file in which each time may also be an array of samples, of which the
 * median counts; "parameters" may stand for the bytes of parameters, gradients and optimizer (2, 4 and 12 for
 * each); and "bw_ms" alone is enough for B and W: W is then taken to last as long as F, at most half of it.
 */
DETOUR_API enum detour_status detour_model_from_measured(struct detour_arena *arena,
                                                         const struct detour_measured_options *options,
                                                         const char *name, const char *text, size_t bytes,
                                                         struct detour_model **model,
                                                         struct detour_error *error);

#ifdef __cplusplus
}
#endif

#endif
