/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libdetour-sched: pipeline-parallel schedules that absorb slow links.
 *
 * A model is cut into stages 0..S-1, stages are placed on devices, and one iteration sends N microbatches
 * through them. Every stage does up to three operations per microbatch:
 *
 *   F   forward                        after F of the stage before (its activation has to arrive)
 *   B   gradient of the input          after F of the same stage and B of the stage behind
 *   W   gradient of the weights        after B of the same stage; no other operation waits for it
 *   BW  B and W fused                  like B; its gradient leaves when all of it is done
 *
 * (PyTorch writes I for our B and B for our BW.) A device does one operation at a time. A schedule is the
 * order of operations on each device; its times follow from the order and the profile, by
 * detour_simulate(). docs/schedules.md has the model, the definitions and the algorithms in full.
 *
 * Times are int64 nanoseconds, memory is int64 bytes. Functions keep no global state, read no clock, print
 * nothing and start no thread; the same input gives the same output, bit for bit, unless `should_stop`
 * returns something else. Any number of threads may call at once as long as they use different arenas.
 *
 * Memory: every result is allocated in the arena argument and is valid until that arena is reset or
 * destroyed. Nothing else is allocated.
 *
 * Errors: functions return a detour_status. On anything but DETOUR_OK the outputs are untouched and, if
 * `error` is not NULL, it holds one line with the problem, its position and the expected input.
 *
 * detour/sched_format.h reads and writes files (JSON, CSV, pictures).
 */
#ifndef DETOUR_SCHED_H
#define DETOUR_SCHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DETOUR_API __attribute__((visibility("default")))

/* ---- status and errors ------------------------------------------------------------------------------ */

/* name, value, text */
#define DETOUR_STATUS_LIST(X)                                             \
    X(DETOUR_OK, 0, "success")                                            \
    /* the input */                                                       \
    X(DETOUR_INVALID, 1, "invalid argument")                              \
    X(DETOUR_LIMIT, 2, "number beyond the stated limit")                  \
    X(DETOUR_SYNTAX, 3, "malformed input")                                \
    X(DETOUR_UNSUPPORTED, 4, "not possible for this profile")             \
    X(DETOUR_MEMORY_TOO_SMALL, 5, "no schedule fits in this memory")      \
    /* a schedule that was to be checked or simulated */                  \
    X(DETOUR_MISSING_OP, 16, "operation missing")                         \
    X(DETOUR_DUPLICATE_OP, 17, "operation twice")                         \
    X(DETOUR_UNKNOWN_OP, 18, "operation that does not belong there")      \
    X(DETOUR_DEPENDENCY, 19, "operation before what it needs")            \
    X(DETOUR_DEADLOCK, 20, "operations that wait for each other")         \
    X(DETOUR_OVER_MEMORY, 21, "schedule needs more memory than there is") \
    X(DETOUR_ORDER, 22, "microbatches out of order")                      \
    X(DETOUR_TIMES, 23, "times that the profile does not allow")          \
    /* the machine */                                                     \
    X(DETOUR_NO_MEMORY, 32, "out of memory")                              \
    X(DETOUR_STOPPED, 33, "stopped before a first result")                \
    X(DETOUR_IO, 34, "reading or writing failed")                         \
    X(DETOUR_INTERNAL, 35, "internal error")

enum detour_status {
#define DETOUR_STATUS_ENUM(name, value, text) name = value,
    DETOUR_STATUS_LIST(DETOUR_STATUS_ENUM)
#undef DETOUR_STATUS_ENUM
};

/* The text of a status; "unknown status" for a value outside the list. Never NULL. */
DETOUR_API const char *detour_status_text(enum detour_status status);

enum { DETOUR_ERROR_TEXT_BYTES = 480 };

/* What went wrong, in one line without a newline, cut if it is too long. */
struct detour_error {
    enum detour_status status;
    char text[DETOUR_ERROR_TEXT_BYTES];
};

/* ---- memory ----------------------------------------------------------------------------------------- */

/* Where results live. Grows as needed; used by one thread at a time. */
struct detour_arena;

/* NULL when out of memory. */
DETOUR_API struct detour_arena *detour_arena_create(void);

/* Frees all results in the arena but keeps memory for the next ones. */
DETOUR_API void detour_arena_reset(struct detour_arena *arena);

/* Frees the arena and all results in it. NULL is allowed. */
DETOUR_API void detour_arena_destroy(struct detour_arena *arena);

/* ---- the profile: what is to be scheduled ----------------------------------------------------------- */

/* Limits. Within them no sum in the library overflows; beyond them a profile is refused (DETOUR_LIMIT). */
#define DETOUR_STAGES_MAX       4096
#define DETOUR_MICROBATCHES_MAX 65536
/* stages times microbatches */
#define DETOUR_CELLS_MAX   2097152
#define DETOUR_TIME_MAX_NS 100000000000
/* of one activation; 1 TiB */
#define DETOUR_BYTES_MAX 1099511627776

enum detour_op_kind { DETOUR_OP_F = 0, DETOUR_OP_B = 1, DETOUR_OP_W = 2, DETOUR_OP_BW = 3 };

/* "F", "B", "W" or "BW"; "?" for other values. */
DETOUR_API const char *detour_op_name(enum detour_op_kind kind);

/* When an activation stops to count against `max_inflight`. */
enum detour_release { DETOUR_RELEASE_B = 0, DETOUR_RELEASE_W = 1 };

/*
 * A stage. Of its memory, F takes `bytes_f` when it starts, the end of B turns that into `bytes_w` (taken
 * at the start of B where it is larger), and the end of W frees those. (M_B and M_W of the Zero Bubble
 * paper.)
 */
struct detour_stage {
    int64_t f_ns;
    int64_t b_ns;
    int64_t w_ns;
    int64_t bw_ns; /* fused B and W; 0 means b_ns + w_ns */
    int64_t bytes_f;
    int64_t bytes_w;
    int64_t offload_ns; /* copying one activation to the host, or back; 0 means that it cannot be offloaded */
    int32_t device;     /* where the stage is placed, in [0, device_count) */
    int32_t max_inflight; /* most microbatches of this stage in memory at once; 0 means no limit */
};

/*
 * The link between stage i and stage i+1. Activations go forward, gradients backward; the directions do not
 * disturb each other. A message leaves when its operation has finished and the message before it on the same
 * link and direction has occupied the link for `serial`; it arrives serial + latency later. Between two
 * stages of one device nothing is sent: all four count as 0 there.
 */
struct detour_link {
    int64_t forward_ns;
    int64_t backward_ns;
    int64_t forward_serial_ns;
    int64_t backward_serial_ns;
};

struct detour_device {
    int64_t capacity_bytes; /* for activations of all its stages together; 0 means no limit */
};

/* Owned by the caller, only read by the library. */
struct detour_profile {
    int32_t stage_count;
    int32_t microbatch_count;
    int32_t device_count;
    enum detour_release release;         /* what max_inflight counts */
    const struct detour_stage *stages;   /* stage_count */
    const struct detour_link *links;     /* stage_count - 1; may be NULL for one stage */
    const struct detour_device *devices; /* device_count; NULL means no limit on any */
};

/*
 * DETOUR_OK when every field is in range, every device has a stage, and memory holds at least one microbatch
 * on its own. All functions below check their profile themselves.
 */
DETOUR_API enum detour_status detour_profile_check(const struct detour_profile *profile,
                                                   struct detour_error *error);

/* ---- the schedule ----------------------------------------------------------------------------------- */

/*
 * On F: its activation is copied to the host as soon as F has finished (one copy out at a time per device, in
 * the order of the F's). It is copied back (again one at a time) so that the copy ends with the operation
 * before its B on the device, or, where that is too short, begins with it; B waits for the copy. In between
 * it takes no device memory.
 */
enum { DETOUR_OP_OFFLOADED = 1 };

struct detour_op {
    int64_t start_ns;
    int64_t finish_ns;
    int32_t microbatch;
    int16_t stage;
    uint8_t kind;  /* enum detour_op_kind */
    uint8_t flags; /* DETOUR_OP_... */
};

/*
 * The operations of device d are ops[first[d]] .. ops[first[d + 1] - 1], in the order in which the device
 * does them. Made by detour_schedule_create() or by a generator; plain data, so readers of files fill it in
 * directly.
 */
struct detour_schedule {
    int32_t stage_count;
    int32_t microbatch_count;
    int32_t device_count;
    bool timed; /* start_ns and finish_ns are set */
    size_t op_count;
    size_t *first;         /* device_count + 1 entries */
    struct detour_op *ops; /* op_count */
};

/*
 * An empty schedule for the profile with room for `op_count` operations: first[] is all 0, ops are zeroed.
 */
DETOUR_API enum detour_status detour_schedule_create(struct detour_arena *arena,
                                                     const struct detour_profile *profile, size_t op_count,
                                                     struct detour_schedule **schedule,
                                                     struct detour_error *error);

/* ---- simulate and validate -------------------------------------------------------------------------- */

struct detour_device_report {
    int64_t first_start_ns;
    int64_t last_finish_ns;
    int64_t busy_ns;
    int64_t idle_ns; /* between its first start and its last finish */
    int64_t peak_bytes;
};

struct detour_stage_report {
    int32_t warmup;        /* F's before the stage's first B or BW */
    int32_t peak_inflight; /* most microbatches in memory at once, counted by the profile's `release` */
};

/*
 * Slack of a direction: `local` is the longest by which its messages could each come later without moving
 * the start of any operation; `total` is the longest by which one of them, whichever it is, could come later
 * without moving the makespan. Both are minima over the messages; DETOUR_TIME_MAX_NS where nothing is sent.
 */
struct detour_link_report {
    int64_t forward_local_slack_ns;
    int64_t forward_total_slack_ns;
    int64_t backward_local_slack_ns;
    int64_t backward_total_slack_ns;
};

struct detour_report {
    int64_t makespan_ns;     /* first start to last finish over all devices */
    int64_t longest_span_ns; /* the longest first start to last finish of one device */
    int32_t longest_span_device;
    double bubble_ratio_makespan;         /* ADAPTRA: idle share of devices times makespan */
    double bubble_ratio_span;             /* Zero Bubble: 1 - busiest device / longest span */
    struct detour_device_report *devices; /* device_count */
    struct detour_stage_report *stages;   /* stage_count */
    struct detour_link_report *links;     /* stage_count - 1 */
};

/*
 * Computes the times of a schedule exactly: each operation starts as soon as its device is free and what it
 * needs has arrived. Writes start_ns and finish_ns of every operation, sets `timed`, and, if `report` is not
 * NULL, describes the result. Cost: linear in the number of operations.
 *
 * DETOUR_DEADLOCK with the cycle in the error text when operations wait for each other; the statuses of
 * detour_validate() for a missing, doubled or foreign operation. Memory limits are reported
 * (peak_bytes, peak_inflight) but not enforced.
 */
DETOUR_API enum detour_status detour_simulate(struct detour_arena *arena,
                                              const struct detour_profile *profile,
                                              struct detour_schedule *schedule, struct detour_report **report,
                                              struct detour_error *error);

/*
 * Checks that a schedule can be executed: every F, and every B with its W or BW, exactly once and on its
 * device; nothing before what it needs; no cycle; memory limits held; sends and receives of each pair of
 * devices in an order that cannot deadlock; F's of the last stage in the order of the microbatches (losses
 * are collected in that order). If the schedule is timed, the times are checked too. Returns the first
 * problem found; the error text names device, position and operation.
 */
DETOUR_API enum detour_status detour_validate(struct detour_arena *arena,
                                              const struct detour_profile *profile,
                                              const struct detour_schedule *schedule,
                                              struct detour_error *error);

/* ---- messages in the order ------------------------------------------------------------------------------
 */

/* What a device does one after the other once sends and receives are written out. */
enum detour_action_kind {
    DETOUR_ACTION_F = 0, /* the first four are enum detour_op_kind */
    DETOUR_ACTION_B = 1,
    DETOUR_ACTION_W = 2,
    DETOUR_ACTION_BW = 3,
    DETOUR_ACTION_SEND_F = 4, /* `stage` is the sending or receiving stage itself, as in PyTorch's CSV */
    DETOUR_ACTION_RECV_F = 5,
    DETOUR_ACTION_SEND_B = 6,
    DETOUR_ACTION_RECV_B = 7,
    DETOUR_ACTION_WAIT_F = 8, /* until the message of RECV_F has arrived; `stage` is the receiving stage */
    DETOUR_ACTION_WAIT_B = 9,
    DETOUR_ACTION_OFFLOAD = 10, /* begins to copy the activation of F to the host */
    DETOUR_ACTION_RELOAD = 11,  /* begins to copy it back; B or BW waits for the copy */
};

struct detour_action {
    int32_t microbatch;
    int16_t stage;
    uint8_t kind;  /* enum detour_action_kind */
    uint8_t flags; /* 0 */
};

/* "F", "BW", "SEND_F", ...; "?" for other values. */
DETOUR_API const char *detour_action_name(enum detour_action_kind kind);

/* Laid out like struct detour_schedule. */
struct detour_program {
    int32_t device_count;
    size_t action_count;
    size_t *first;                 /* device_count + 1 entries */
    struct detour_action *actions; /* action_count */
};

/*
 * Writes sends, receives, waits and copies to and from the host into a schedule: each send right behind the
 * operation that made its data, each receive in the order in which its peer sends (so that it is posted
 * before it is needed), each wait right before the operation that uses the message. No message between stages
 * of one device. An OFFLOAD follows its F, a RELOAD precedes the operation before its B. (AdaPtis section 4.4
 * has the same instructions.)
 */
DETOUR_API enum detour_status detour_program_create(struct detour_arena *arena,
                                                    const struct detour_profile *profile,
                                                    const struct detour_schedule *schedule,
                                                    struct detour_program **program,
                                                    struct detour_error *error);

/*
 * Runs a program on the strictest common transport: between two devices messages of both directions take
 * place one after the other, in the order in which each side posts them (NCCL with one communicator per
 * pair); posting does not block, an operation waits for its receive, with or without a WAIT before it.
 * DETOUR_DEADLOCK, with the cycle or the two actions that do not match, when it cannot finish;
 * DETOUR_DEPENDENCY for a copy without what it copies, and for a backward while its activation is on the
 * host.
 */
DETOUR_API enum detour_status detour_program_check(struct detour_arena *arena,
                                                   const struct detour_profile *profile,
                                                   const struct detour_program *program,
                                                   struct detour_error *error);

/*
 * A copy of the schedule that does not deadlock: where all devices wait for one another, an operation whose
 * input is there is brought forward, the one nearest to the begin of its device's list; *moved is how often.
 * With *moved 0 it is the same schedule, with its times; else it is not timed. Neither memory limits nor the
 * order of the last stage are part of it: detour_validate() has these. Statuses of detour_validate() for a
 * missing, doubled or foreign operation, and for a backward before its own forward.
 */
DETOUR_API enum detour_status detour_schedule_repair(struct detour_arena *arena,
                                                     const struct detour_profile *profile,
                                                     const struct detour_schedule *schedule,
                                                     struct detour_schedule **repaired, int32_t *moved,
                                                     struct detour_error *error);

/* What detour_program_repair() found and did. */
struct detour_repair {
    int32_t moved;                         /* computations that were brought forward */
    char problem[DETOUR_ERROR_TEXT_BYTES]; /* of detour_program_check(); "": the program had none */
};

/*
 * A program with the same computations that detour_program_check() accepts: they keep their order, except for
 * what detour_schedule_repair() moves; sends, receives and waits, whether out of order or missing, are laid
 * out anew by detour_program_create(), with each receive as early as its peer sends. (AdaPtis section 4.4,
 * Figure 7, steps 3 and 4.)
 */
DETOUR_API enum detour_status detour_program_repair(struct detour_arena *arena,
                                                    const struct detour_profile *profile,
                                                    const struct detour_program *program,
                                                    struct detour_program **repaired,
                                                    struct detour_repair *repair, struct detour_error *error);

/* ---- generate --------------------------------------------------------------------------------------- */

enum detour_algorithm {
    DETOUR_ALGORITHM_AUTO = 0,
    DETOUR_ALGORITHM_GPIPE = 1,
    DETOUR_ALGORITHM_1F1B = 2,
    DETOUR_ALGORITHM_INTERLEAVED = 3,
    DETOUR_ALGORITHM_ZB_H1 = 4,
    DETOUR_ALGORITHM_ZB_H2 = 5,
    DETOUR_ALGORITHM_ZB_V = 6,
    DETOUR_ALGORITHM_ZB = 7,
    DETOUR_ALGORITHM_ADAPTRA = 8,
    DETOUR_ALGORITHM_ADAPTRA_INITIAL = 9,
    DETOUR_ALGORITHM_BEAM = 10,
    DETOUR_ALGORITHM_EXACT = 11,
    DETOUR_ALGORITHM_HANAYO = 12,
    DETOUR_ALGORITHM_COUNT = 13,
};

/* "auto", "gpipe", ...: the names of the command line. NULL for other values. */
DETOUR_API const char *detour_algorithm_name(enum detour_algorithm algorithm);

/* One line on what the algorithm is; NULL for other values. */
DETOUR_API const char *detour_algorithm_summary(enum detour_algorithm algorithm);

/* The algorithm of that name into *algorithm; false if there is none. */
DETOUR_API bool detour_algorithm_find(const char *name, enum detour_algorithm *algorithm);

/*
 * Asked now and then by long computations (at least once per 1,000 nodes); true means: finish with the best
 * so far. Called on the thread of the call.
 */
typedef bool detour_should_stop_func(void *arg);

/* Zero is the default of every field. */
struct detour_options {
    enum detour_algorithm algorithm;
    int32_t beam_width;   /* states kept per step by `beam`; 0 lets it choose within the budget */
    uint64_t node_budget; /* search nodes that `auto`, `beam`, `exact` and replanning may expand; 0 means
                             about 100 ms of work */
    detour_should_stop_func *should_stop; /* NULL: never */
    void *should_stop_arg;
    const int32_t
        *warmup;        /* F's before the first B per stage, for ADAPTRA; NULL: computed from the profile */
    int32_t group_size; /* microbatches per round of `interleaved`; 0 means one per device */
};

/*
 * The node budget that takes about `budget_us` microseconds on one core of a present server
 * (docs/benchmarks.md names it): the same number on every machine. At least 1; NULL counts as the smallest
 * profile.
 */
DETOUR_API uint64_t detour_node_budget(const struct detour_profile *profile, uint64_t budget_us);

struct detour_plan {
    struct detour_schedule *schedule; /* timed */
    enum detour_algorithm algorithm;  /* that made it; for AUTO the one that won */
    bool proven_optimal;              /* makespan_ns == lower_bound_ns */
    int64_t makespan_ns;
    int64_t longest_span_ns;
    int64_t lower_bound_ns; /* no schedule of this profile has a smaller makespan */
    uint64_t nodes;         /* search nodes expanded */
};

/*
 * Makes a schedule. `options` may be NULL (AUTO). The result always passes detour_validate(). GPipe, 1F1B,
 * interleaved, ZB-H1, ZB-H2 and ZB-V have a fixed memory need and answer DETOUR_MEMORY_TOO_SMALL where it is
 * not there; DETOUR_UNSUPPORTED where an algorithm needs another placement. Stopped by should_stop: the best
 * so far, or DETOUR_STOPPED if there is none yet.
 */
DETOUR_API enum detour_status detour_generate(struct detour_arena *arena,
                                              const struct detour_profile *profile,
                                              const struct detour_options *options, struct detour_plan **plan,
                                              struct detour_error *error);

/* A makespan that no schedule of the profile with separate B and W goes below (memory limits included). */
DETOUR_API enum detour_status detour_lower_bound(struct detour_arena *arena,
                                                 const struct detour_profile *profile,
                                                 int64_t *lower_bound_ns, struct detour_error *error);

/* ---- tolerance -------------------------------------------------------------------------------------- */

/* Directions of a link, or'ed. */
enum { DETOUR_FORWARD = 1, DETOUR_BACKWARD = 2, DETOUR_BOTH_WAYS = 3 };

/* A corner of the curve: from here to the next corner the makespan grows by `slope` per unit of delay. */
struct detour_curve_point {
    int64_t delay_ns; /* added to every message of the link, on top of the profile's latency */
    int64_t makespan_ns;
    int64_t slope; /* how often a critical path crosses the link; beyond the last point: up to delay_ns_max */
};

struct detour_curve {
    size_t point_count; /* at least 1; the first has delay_ns 0 */
    struct detour_curve_point *points;
};

/*
 * Makespan as a function of the extra delay of one link, with the order of the schedule kept, for delays in
 * [0, delay_ns_max]. It is convex and piecewise linear; the points give it exactly for every whole nanosecond
 * (a corner between two of them shows as two points, one nanosecond apart). A delay changes nothing on a link
 * between two stages of one device.
 */
DETOUR_API enum detour_status detour_delay_curve(struct detour_arena *arena,
                                                 const struct detour_profile *profile,
                                                 const struct detour_schedule *schedule, int32_t link,
                                                 int directions, int64_t delay_ns_max,
                                                 struct detour_curve **curve, struct detour_error *error);

/*
 * For each link (stage_count - 1 entries) the largest extra delay, in the given directions, up to which the
 * iteration grows by no more than the delay itself; at most delay_ns_max.
 */
DETOUR_API enum detour_status detour_tolerance(struct detour_arena *arena,
                                               const struct detour_profile *profile,
                                               const struct detour_schedule *schedule, int directions,
                                               int64_t delay_ns_max, int64_t **tolerable_ns,
                                               struct detour_error *error);

/* ---- adapt ------------------------------------------------------------------------------------------ */

/* When a change is worth it. Zero is the default of every field. */
struct detour_adapt_options {
    struct detour_options generate;
    /* A time of the profile has changed when it differs from the planned one by more than both of these. */
    int64_t change_ns_min;
    int32_t change_permille_min; /* of the longest F or B next to it; 0 means 50 */
    int32_t confirm_count;       /* calls in a row that must agree before the schedule changes; 0 means 1 */
    int32_t gain_permille_min;   /* of the makespan that the present schedule would have; 0 means 10 */
    int64_t switch_cost_ns;      /* what changing the schedule costs once */
    int32_t horizon_iterations;  /* over which that must pay; 0 means 100 */
    bool allow_offload;          /* activations may go to the host where memory limits the schedule */
};

/* What a caller keeps between calls; starts zeroed. */
struct detour_adapt_state {
    int32_t changed_count; /* calls in a row that found a change */
};

enum detour_adapt_verdict {
    DETOUR_ADAPT_KEEP_UNCHANGED = 0,   /* everything is as planned */
    DETOUR_ADAPT_KEEP_UNCONFIRMED = 1, /* changed, but not for confirm_count calls yet */
    DETOUR_ADAPT_KEEP_NO_GAIN = 2,     /* no schedule found that pays for the change */
    DETOUR_ADAPT_CHANGE = 3,
};

struct detour_adaptation {
    enum detour_adapt_verdict verdict;
    struct detour_plan *plan;      /* NULL unless CHANGE */
    int64_t planned_makespan_ns;   /* of the present schedule under the planned times */
    int64_t present_makespan_ns;   /* of the present schedule under the measured times */
    int64_t candidate_makespan_ns; /* of the best new one under the measured times; 0 if none was sought */
    int32_t offloaded;             /* activations that the new schedule moves to the host */
};

/*
 * Decides whether measured delays call for a new schedule. `planned` is the profile for which the present
 * schedule was made, `measured` the same one with links (or stages) as they are now. The caller keeps using
 * `planned` until the verdict is CHANGE; `measured` takes its place then. So a delay that comes and goes
 * within confirm_count calls, or that differs too little, or for which there is no remedy, changes nothing.
 *
 * With allow_offload, limits on memory are relaxed step by step, and activations of the resulting schedules
 * are offloaded (DETOUR_OP_OFFLOADED), those first that are needed last, until the real limits hold.
 */
DETOUR_API enum detour_status detour_adapt(struct detour_arena *arena, const struct detour_profile *planned,
                                           const struct detour_profile *measured,
                                           const struct detour_schedule *present,
                                           const struct detour_adapt_options *options,
                                           struct detour_adapt_state *state,
                                           struct detour_adaptation **adaptation, struct detour_error *error);

/*
 * The best continuation of an iteration that is in progress. The first started[d] operations of each device
 * of `present` have started by `now_ns` and keep their place and their start_ns and finish_ns, which are what
 * was measured (of the one that is running: expected). The rest is ordered again for `measured`; nothing new
 * starts before now_ns. Messages travel with the times of `measured`, including those in progress. Searches
 * within the options' budget; never worse than continuing with `present` or with the plan of ADAPTRA. The
 * plan's makespan counts from the iteration's first start, and its lower bound is that of the continuation.
 * Because the past need not agree with the profile, the result may fail detour_validate() with DETOUR_TIMES,
 * and with nothing else.
 *
 * DETOUR_UNSUPPORTED if a stage has taken microbatches out of order, DETOUR_DEPENDENCY if an operation is
 * recorded as started before its inputs, DETOUR_TIMES if the past is not in the past.
 */
DETOUR_API enum detour_status detour_replan(struct detour_arena *arena, const struct detour_profile *measured,
                                            const struct detour_schedule *present, const size_t *started,
                                            int64_t now_ns, const struct detour_options *options,
                                            struct detour_plan **plan, struct detour_error *error);

/*
 * Computes the times of an iteration that is in progress and continues with `schedule`: as detour_simulate()
 * does, but the first started[d] operations of each device keep the times they have, and nothing else starts
 * before now_ns. Arguments and statuses are those of detour_replan(). `makespan_ns` may be NULL.
 */
DETOUR_API enum detour_status detour_simulate_from(struct detour_arena *arena,
                                                   const struct detour_profile *measured,
                                                   struct detour_schedule *schedule, const size_t *started,
                                                   int64_t now_ns, int64_t *makespan_ns,
                                                   struct detour_error *error);

#ifdef __cplusplus
}
#endif

#endif
