/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Findings of the judge as records of the store, and the end of those that an earlier controller has left
 * open. Without a record of their end, readers of the stream show them as slow for as long as the store keeps
 * the records.
 *
 * Owner: one thread, that of the controller.
 */
#ifndef DETOUR_CONTROLLER_FINDINGS_H
#define DETOUR_CONTROLLER_FINDINGS_H

#include <stdbool.h>

#include "controller/judge.h"
#include "controller/record.h"
#include "controller/store.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_finding_record dt_findings_record(const struct dt_finding *finding, int64_t time_ns);

/* Both are about the same part of the job. A link is the same in both directions: a finding names the slower
 * one, which may differ between two controllers. */
bool dt_findings_is_same(const struct dt_finding_record *a, const struct dt_finding_record *b);

typedef void dt_findings_func(void *arg, const struct dt_finding_record *record);

/*
 * Calls `end` with the record of the end, at `time_ns`, of each finding that is open in the stream and not
 * among the `count` ones of this controller; for at most DT_JUDGE_FINDINGS. Returns the store's status, or
 * DT_NO_MEMORY; then nothing has been called.
 */
enum dt_status dt_findings_end_left(struct dt_store *store, const struct dt_finding *findings, uint32_t count,
                                    int64_t time_ns, dt_findings_func *end, void *arg);

#ifdef __cplusplus
}
#endif

#endif
