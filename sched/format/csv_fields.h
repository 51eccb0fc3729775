/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words of PyTorch's pipelining CSV (torch/distributed/pipelining/schedules.py, _ComputationType and
 * _Action.from_str). The reader and the writer share this table.
 */
#ifndef DETOUR_SCHED_FORMAT_CSV_FIELDS_H
#define DETOUR_SCHED_FORMAT_CSV_FIELDS_H

#include <stddef.h>
#include <stdint.h>

#include "sched/format/format.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The first eight are enum detour_action_kind. */
enum dt_csv_kind {
    DT_CSV_F = DETOUR_ACTION_F,
    DT_CSV_I = DETOUR_ACTION_B,
    DT_CSV_W = DETOUR_ACTION_W,
    DT_CSV_B = DETOUR_ACTION_BW,
    DT_CSV_SEND_F = DETOUR_ACTION_SEND_F,
    DT_CSV_RECV_F = DETOUR_ACTION_RECV_F,
    DT_CSV_SEND_B = DETOUR_ACTION_SEND_B,
    DT_CSV_RECV_B = DETOUR_ACTION_RECV_B,
    DT_CSV_WAIT_SEND_F,
    DT_CSV_WAIT_SEND_B,
    DT_CSV_UNSHARD, /* from here on without a microbatch */
    DT_CSV_RESHARD,
    DT_CSV_REDUCE_GRAD,
    DT_CSV_WAIT_REDUCE_GRAD,
    DT_CSV_KIND_COUNT,
};

/* By kind: "F", "I", "W", "B", "SEND_F", ... */
extern const char *const dt_csv_names[DT_CSV_KIND_COUNT];

/* An action and where it stands. */
struct dt_csv_action {
    int32_t row; /* from 0: the device */
    int32_t column;
    int32_t microbatch;
    int16_t stage;
    uint8_t kind;
};

struct dt_csv_table {
    size_t action_count;
    struct dt_csv_action *actions; /* row by row */
    int32_t row_count;
    bool has_comms; /* something else than computations: compute_comms */
};

/* The input, for error lines. */
struct dt_csv_reader {
    struct detour_arena *arena;
    struct detour_error *error;
    const char *name;
};

/*
 * Parses the text: grammar only, no meaning. Stages are below DETOUR_STAGES_MAX, microbatches below
 * DETOUR_MICROBATCHES_MAX. DETOUR_SYNTAX or DETOUR_LIMIT with row and column, both counted from 1.
 */
enum detour_status dt_csv_parse(const struct dt_csv_reader *reader, const char *text, size_t bytes,
                                struct dt_csv_table *table);

/* "NAME: row R, column C: ACTION message"; returns `status`. */
enum detour_status dt_csv_fail(const struct dt_csv_reader *reader, const struct dt_csv_action *action,
                               enum detour_status status, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/*
 * detour_plan_from_csv(); with `repair`, a deadlock of the file's messages is noted there and not refused.
 */
enum detour_status dt_plan_from_csv(struct detour_arena *arena, const struct detour_profile *profile,
                                    const char *name, const char *text, size_t bytes,
                                    struct detour_repair *repair, struct detour_plan **plan,
                                    struct detour_error *error);

#ifdef __cplusplus
}
#endif

#endif
