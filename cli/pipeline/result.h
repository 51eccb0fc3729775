/* SPDX-License-Identifier: Apache-2.0 */
/* What each rank gives to all ranks after an iteration. */
#ifndef DETOUR_CLI_PIPELINE_RESULT_H
#define DETOUR_CLI_PIPELINE_RESULT_H

#include "cli/pipeline/adapt.h"
#include "cli/pipeline/remedy.h"
#include "pipeline/agreement.h"
#include "pipeline/executor.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_pipeline_result {
    struct dt_executor_account account;
    uint64_t summed_ns; /* the end of its all-reduce; 0: none */
    uint64_t cpu_ns;
    struct dt_pipeline_verdicts verdicts;
    struct dt_pipeline_used used;
    struct dt_agreement_part part;
    struct dt_pipeline_delays proposed; /* of rank 0, as the next: with a proposal or a new remedy */
    struct dt_pipeline_remedy remedy;   /* that was read last */
    bool wants_checkpoint;
};

#ifdef __cplusplus
}
#endif

#endif
