/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/pipeline/checkpoint.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/exit.h"

/* ---- During a run. ---- */

enum dt_pipeline_checkpoint_kind dt_pipeline_checkpoint_due(const struct dt_pipeline_checkpoints *checkpoints,
                                                            uint32_t iterations, bool is_requested)
{
    if (!checkpoints->directory)
        return DT_PIPELINE_CHECKPOINT_NONE;
    if (checkpoints->every && iterations % checkpoints->every == 0)
        return DT_PIPELINE_CHECKPOINT_PERIODIC;
    return is_requested ? DT_PIPELINE_CHECKPOINT_EARLY : DT_PIPELINE_CHECKPOINT_NONE;
}

/* All files of this rank but that one. */
static void remove_others(const char *directory, uint32_t rank, uint32_t iterations)
{
    uint32_t list[DT_CHECKPOINT_LIST_MAX];
    char reason[DT_CHECKPOINT_REASON_BYTES];
    int count = dt_checkpoint_list(directory, rank, list, reason);

    for (int i = 0; i < count; i++) {
        if (list[i] != iterations)
            dt_checkpoint_remove(directory, rank, list[i]);
    }
}

/* The first rank that has a reason; NULL: none has. */
static const char *first_reason(const char (*reasons)[DT_CHECKPOINT_REASON_BYTES], unsigned ranks,
                                unsigned *rank)
{
    for (*rank = 0; *rank < ranks; ++*rank) {
        if (reasons[*rank][0])
            return reasons[*rank];
    }
    return NULL;
}

bool dt_pipeline_checkpoint_save(const struct dt_pipeline_checkpoints *checkpoints,
                                 const struct dt_checkpoint_id *id,
                                 const struct dt_pipeline_parameters *parameters, struct dt_job_link *link,
                                 enum dt_pipeline_checkpoint_kind *kind,
                                 char reason[DT_CHECKPOINT_REASON_BYTES], struct dt_job_error *error)
{
    char mine[DT_CHECKPOINT_REASON_BYTES] = "";
    char(*reasons)[DT_CHECKPOINT_REASON_BYTES] = calloc(link->ranks, sizeof *reasons);
    unsigned rank;

    if (!reasons)
        return dt_job_fail(error, DT_EXIT_FAILED, "rank %u: out of memory", link->rank);
    dt_checkpoint_write(checkpoints->directory, id, parameters, mine);
    if (!dt_job_exchange(link, mine, sizeof mine, reasons, error)) {
        free(reasons);
        return false;
    }
    const char *first = first_reason((const char(*)[DT_CHECKPOINT_REASON_BYTES])reasons, link->ranks, &rank);
    if (first) {
        *kind = DT_PIPELINE_CHECKPOINT_FAILED;
        snprintf(reason, DT_CHECKPOINT_REASON_BYTES, "rank %u: %.*s", rank, DT_CHECKPOINT_REASON_BYTES - 24,
                 first);
        dt_checkpoint_remove(checkpoints->directory, id->rank, id->iterations);
    } else {
        remove_others(checkpoints->directory, id->rank, id->iterations);
    }
    free(reasons);
    return true;
}

/* ---- At the start. ---- */

uint32_t dt_pipeline_checkpoint_newest_of_all(const struct dt_pipeline_checkpoint_offer *offers,
                                              unsigned ranks)
{
    for (uint32_t i = 0; ranks > 0 && i < offers[0].count; i++) {
        unsigned having = 1;

        while (having < ranks) {
            uint32_t k = 0;

            while (k < offers[having].count && offers[having].valid[k] != offers[0].valid[i])
                k++;
            if (k == offers[having].count)
                break;
            having++;
        }
        if (having == ranks)
            return offers[0].valid[i];
    }
    return 0;
}

static bool fail_folder(struct dt_job_error *error, uint32_t rank, const char *reason)
{
    return dt_job_fail(error, DT_EXIT_USAGE, "rank %" PRIu32 ": --checkpoint %s", rank, reason);
}

/* The valid files of this rank; they are read for that. */
static bool make_offer(const struct dt_pipeline_checkpoints *checkpoints, const struct dt_checkpoint_id *id,
                       struct dt_pipeline_parameters *parameters, struct dt_pipeline_checkpoint_offer *offer,
                       struct dt_job_error *error)
{
    struct dt_checkpoint_id one = *id;
    uint32_t list[DT_CHECKPOINT_LIST_MAX];
    char reason[DT_CHECKPOINT_REASON_BYTES];
    int count = dt_checkpoint_list(checkpoints->directory, id->rank, list, reason);

    *offer = (struct dt_pipeline_checkpoint_offer){.files = count > 0 ? (uint32_t)count : 0};
    if (count < 0)
        return fail_folder(error, id->rank, reason);
    for (int i = 0; checkpoints->resumes && i < count; i++) {
        one.iterations = list[i];
        if (dt_checkpoint_read(checkpoints->directory, &one, parameters, reason))
            offer->valid[offer->count++] = list[i];
        else if (!offer->reason[0])
            memcpy(offer->reason, reason, sizeof reason);
    }
    return true;
}

static bool has_files(const struct dt_pipeline_checkpoint_offer *offers, unsigned ranks)
{
    for (unsigned i = 0; i < ranks; i++) {
        if (offers[i].files > 0)
            return true;
    }
    return false;
}

/* There are files, and no checkpoint that all have: the first rank without a valid one is the reason. */
static bool fail_resume(const struct dt_pipeline_checkpoint_offer *offers, unsigned ranks,
                        struct dt_job_error *error)
{
    for (unsigned i = 0; i < ranks; i++) {
        if (offers[i].count == 0)
            return dt_job_fail(error, DT_EXIT_USAGE,
                               "--resume: there is no checkpoint that all ranks have: rank %u: %s", i,
                               offers[i].reason[0] ? offers[i].reason : "it has none");
    }
    return dt_job_fail(
        error, DT_EXIT_USAGE,
        "--resume: there is no checkpoint that all ranks have: they are of different iterations");
}

static bool choose(const struct dt_pipeline_checkpoints *checkpoints, struct dt_checkpoint_id *id,
                   struct dt_pipeline_parameters *parameters,
                   const struct dt_pipeline_checkpoint_offer *offers, unsigned ranks,
                   struct dt_job_error *error)
{
    char reason[DT_CHECKPOINT_REASON_BYTES];

    id->iterations = 0;
    if (!has_files(offers, ranks))
        return true;
    if (!checkpoints->resumes)
        return dt_job_fail(error, DT_EXIT_USAGE,
                           "--checkpoint %s: there are checkpoints of an earlier run; continue it with "
                           "--resume, or remove them",
                           checkpoints->directory);
    id->iterations = dt_pipeline_checkpoint_newest_of_all(offers, ranks);
    if (id->iterations == 0)
        return fail_resume(offers, ranks, error);
    if (!dt_checkpoint_read(checkpoints->directory, id, parameters, reason))
        return fail_folder(error, id->rank, reason);
    return true;
}

bool dt_pipeline_checkpoint_begin(const struct dt_pipeline_checkpoints *checkpoints,
                                  struct dt_checkpoint_id *id, struct dt_pipeline_parameters *parameters,
                                  struct dt_job_link *link, struct dt_job_error *error)
{
    struct dt_pipeline_checkpoint_offer mine, *offers;
    bool is_good;

    id->iterations = 0;
    if (!checkpoints->directory)
        return true;
    offers = calloc(link->ranks, sizeof *offers);
    if (!offers)
        return dt_job_fail(error, DT_EXIT_FAILED, "rank %u: out of memory", link->rank);
    is_good = make_offer(checkpoints, id, parameters, &mine, error) &&
              dt_job_exchange(link, &mine, sizeof mine, offers, error) &&
              choose(checkpoints, id, parameters, offers, link->ranks, error);
    /* All ranks have read theirs before any removes what is newer and not of all ranks. */
    is_good = is_good && dt_job_exchange(link, NULL, 0, NULL, error);
    if (is_good && id->iterations > 0)
        remove_others(checkpoints->directory, id->rank, id->iterations);
    free(offers);
    return is_good;
}
