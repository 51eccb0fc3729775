/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Schedules and profiles as files: readers and writers of libdetour-sched. They work on memory, not on
 * files: a reader takes the whole text, a writer returns it. docs/sched-cli.md describes the formats.
 *
 * Readers are strict: they refuse unknown input with one line that begins with `name` (the caller's name of
 * the input, usually its path) and gives the place (JSON path, or row and column), the text found there, and
 * the form that would be right. `name`, `text` and `profile` are only read during the call; the text need not
 * end with a NUL.
 *
 * The rules of detour/sched.h hold: results lie in the arena, no global state, any number of threads.
 */
#ifndef DETOUR_SCHED_FORMAT_FORMAT_H
#define DETOUR_SCHED_FORMAT_FORMAT_H

#include "detour/sched.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a writer made; `data` ends with a NUL that `bytes` does not count. */
struct detour_text {
    size_t bytes;
    const char *data;
};

/* ---- limits, beyond which a reader answers DETOUR_LIMIT ---------------------------------------------- */

#define DETOUR_INPUT_BYTES_MAX 268435456
/* Of a time in a schedule: 11 days. JSON numbers hold nanoseconds exactly up to here. */
#define DETOUR_SCHEDULE_TIME_MAX_NS 1000000000000000

/* ---- profile ---------------------------------------------------------------------------------------- */

/* Reads a profile and checks it with detour_profile_check(). */
DETOUR_API enum detour_status detour_profile_from_json(struct detour_arena *arena, const char *name,
                                                       const char *text, size_t bytes,
                                                       struct detour_profile **profile,
                                                       struct detour_error *error);

/* What detour_profile_from_json() reads back as the same profile. */
DETOUR_API enum detour_status detour_profile_to_json(struct detour_arena *arena,
                                                     const struct detour_profile *profile,
                                                     struct detour_text *text, struct detour_error *error);

/* ---- measured delays --------------------------------------------------------------------------------- */

/* Where the ranks of a job run: rank r on device[r]. Several ranks of a device are its tensor or data
 * parallelism. */
struct detour_ranks {
    int32_t count;
    const int32_t *device;
};

/*
 * Reads what is known about slow links, by link number or by pairs of ranks, and applies it to the profile of
 * healthy links: `measured` is that profile with each direction of a link as slow as its slowest entry.
 * `ranks` NULL means that rank r is device r. Pairs of ranks between which no stage sends, and entries whose
 * verdict is "healthy", change nothing. Members that this reader does not know are ignored, so that
 * `detour stat --json` may contain more.
 */
DETOUR_API enum detour_status
detour_delays_from_json(struct detour_arena *arena, const struct detour_profile *healthy,
                        const struct detour_ranks *ranks, const char *name, const char *text, size_t bytes,
                        struct detour_profile **measured, struct detour_error *error);

/* ---- schedule: readers ------------------------------------------------------------------------------ */

/* `algorithm` of a plan that was read from a file that does not name its algorithm. */
#define DETOUR_ALGORITHM_EXTERNAL DETOUR_ALGORITHM_COUNT

/*
 * Reads a schedule in the native JSON format. The plan's schedule is timed if the file has times. Checked
 * here: that every operation exists in the profile, is there once and on its device. Everything else is
 * detour_validate()'s.
 *
 * If `planned` is not NULL it becomes the profile the file was made for: `profile` with the link times that
 * the file records; or NULL, if the file records none.
 */
DETOUR_API enum detour_status detour_plan_from_json(struct detour_arena *arena,
                                                    const struct detour_profile *profile, const char *name,
                                                    const char *text, size_t bytes, struct detour_plan **plan,
                                                    struct detour_profile **planned,
                                                    struct detour_error *error);

/*
 * Reads the CSV of PyTorch's pipelining runtime (torch.distributed.pipelining, 2.6 and later), compute_only
 * or compute_comms: one row per device, in each cell STAGE KIND MICROBATCH, where I is our B and B our BW.
 * Refuses what PyTorch would misread or what would give wrong gradients without a word: characters behind an
 * action, blank lines, doubled actions, microbatches that do not exist, F's of the last stage out of order.
 * Sends and receives of compute_comms are checked (detour_program_check()) and then dropped, as are UNSHARD,
 * RESHARD, REDUCE_GRAD and the WAIT_... of 2.15; (F;B)OVERLAP_F_B is read as its parts one after the other.
 * The schedule is not timed.
 */
DETOUR_API enum detour_status detour_plan_from_csv(struct detour_arena *arena,
                                                   const struct detour_profile *profile, const char *name,
                                                   const char *text, size_t bytes, struct detour_plan **plan,
                                                   struct detour_error *error);

/* JSON if the first character that is not white space is '{', else CSV. `planned` is NULL after CSV. */
DETOUR_API enum detour_status detour_plan_read(struct detour_arena *arena,
                                               const struct detour_profile *profile, const char *name,
                                               const char *text, size_t bytes, struct detour_plan **plan,
                                               struct detour_profile **planned, struct detour_error *error);

/*
 * detour_plan_read() of a schedule that may deadlock, with its order repaired (detour_schedule_repair()) and
 * its messages, if it has any, dropped without regard to their order, since the writers lay them out anew.
 * repair->problem is the deadlock; "": there was none.
 */
DETOUR_API enum detour_status
detour_plan_read_repaired(struct detour_arena *arena, const struct detour_profile *profile, const char *name,
                          const char *text, size_t bytes, struct detour_plan **plan,
                          struct detour_repair *repair, struct detour_error *error);

/* ---- schedule: writers ------------------------------------------------------------------------------ */

enum detour_format {
    DETOUR_FORMAT_JSON = 0, /* native; read back by detour_plan_from_json() */
    DETOUR_FORMAT_CSV = 1,  /* PyTorch, compute_only */
    DETOUR_FORMAT_CSV_COMMS =
        2,                   /* PyTorch 2.10 and later, compute_comms: sends, receives, REDUCE_GRAD, waits */
    DETOUR_FORMAT_TRACE = 3, /* Chrome trace events, for Perfetto */
    DETOUR_FORMAT_SVG = 4,   /* a Gantt chart in one file: operations, messages, memory */
    DETOUR_FORMAT_TEXT = 5,  /* a Gantt chart for the terminal */
};

/* "json", "csv", "csv-comms", "trace", "svg", "text". NULL for other values. */
DETOUR_API const char *detour_format_name(enum detour_format format);

/* The format of that name into *format; false if there is none. */
DETOUR_API bool detour_format_find(const char *name, enum detour_format *format);

/* What detour_adapt() or detour_replan() decided and by which rules. */
struct detour_adapt_note {
    const struct detour_adaptation *adaptation; /* after replan: as the caller fills it in */
    const struct detour_adapt_options *options; /* NULL: unknown */
    const size_t *started;                      /* after replan: of each device; else NULL */
    int64_t now_ns;                             /* after replan */
};

/* One line on why, for people: "keep: the links are as planned". Never NULL. */
DETOUR_API const char *detour_adapt_verdict_text(enum detour_adapt_verdict verdict);

/* A message between stages on two devices, as a run has seen it. */
struct detour_message {
    int64_t ready_ns;  /* the operation that makes it has finished */
    int64_t depart_ns; /* it is sent */
    int64_t arrive_ns; /* the receiver has it */
    int32_t from_stage;
    int32_t to_stage; /* the next stage for an activation, the one before for a gradient */
    int32_t microbatch;
};

/* What a run of a plan has measured. The times begin with the run. */
struct detour_measured {
    const struct detour_schedule *schedule; /* timed: the plan's operations at the times of the run */
    size_t message_count;
    const struct detour_message *messages;
};

/* Zero is the default of every field. */
struct detour_format_options {
    bool ascii;          /* TEXT: no characters beyond ASCII */
    bool color;          /* TEXT: ANSI colors */
    int32_t columns;     /* TEXT: the maximum width in columns; 0: wide enough to name every microbatch */
    int32_t torch_minor; /* CSV_COMMS: for PyTorch 2.N, N from 10 on; 0: the newest known form, 15 */
    const char *title;   /* SVG and TEXT: the first line; NULL: a description of the plan */
    const struct detour_report *report;     /* JSON: adds a member "report" with it */
    const struct detour_adapt_note *adapt;  /* JSON: adds a member "adapt" with it */
    const struct detour_measured *measured; /* SVG and TRACE: shows it above the plan */
};

/*
 * Writes a plan whose schedule is timed (untimed is enough for the CSV formats). `options` may be NULL.
 * Other values of the plan are written as they are and not checked against its schedule.
 */
DETOUR_API enum detour_status detour_plan_write(struct detour_arena *arena,
                                                const struct detour_profile *profile,
                                                const struct detour_plan *plan, enum detour_format format,
                                                const struct detour_format_options *options,
                                                struct detour_text *text, struct detour_error *error);

#ifdef __cplusplus
}
#endif

#endif
