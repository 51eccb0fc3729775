/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the ranks of a pipeline change the schedule together. There are rounds, one between two iterations:
 * each rank gives a part, and gets the parts of all ranks or is out of the job. All ranks therefore decide on
 * the same parts, and change the schedule for the same iteration or not at all:
 *
 *   round k        rank 0's part has a proposal: schedule N, from iteration I > k + 1 on
 *   until k + 1    each rank prepares schedule N
 *   round k + 1..  each rank's part confirms N, with the digest of what it prepared
 *   round r < I    all parts confirm N with one digest: agreed; every rank uses it from iteration I on
 *
 * A confirmation that is missing when iteration I begins, or a digest that differs, discards the proposal on
 * all ranks. A rank that dies ends its round for all, and with it the job (job/). One proposal at a time.
 *
 * Pure. The table in agreement.c has every state and event.
 */
#ifndef DETOUR_PIPELINE_AGREEMENT_H
#define DETOUR_PIPELINE_AGREEMENT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A rank's contribution to a round. Zero: nothing is proposed or confirmed. */
struct dt_agreement_part {
    uint32_t number;    /* of the proposal; counted from 1 */
    uint32_t iteration; /* from which it is to be used */
    uint64_t digest;    /* of the prepared schedule, not 0; 0: not prepared yet (rank 0: just proposed) */
};

enum dt_agreement_state {
    DT_AGREEMENT_IDLE,
    DT_AGREEMENT_PROPOSED,
    DT_AGREEMENT_AGREED,
    DT_AGREEMENT_STATE_COUNT
};

/* What the rank does after a round. */
enum dt_agreement_action {
    DT_AGREEMENT_KEEP,    /* nothing new */
    DT_AGREEMENT_PREPARE, /* prepare the proposed schedule, then call dt_agreement_prepared() */
    DT_AGREEMENT_ADOPT,   /* use the prepared schedule from the next iteration on */
    DT_AGREEMENT_DISCARD  /* forget the prepared schedule, if there is one */
};

/* One rank's view. Starts zeroed. */
struct dt_agreement {
    enum dt_agreement_state state;
    struct dt_agreement_part own; /* for the next round */
    uint32_t adopted;             /* number of the schedule in use; 0: the first one */
    uint32_t last;                /* the highest number seen */
};

/* Rank 0: a new proposal, to be in the next round. `iteration`: see above. Returns its number; 0: one is
 * pending. */
uint32_t dt_agreement_propose(struct dt_agreement *agreement, uint32_t iteration);

/* The schedule of the pending proposal is prepared. Digest: not 0. No effect unless one is pending. */
void dt_agreement_prepared(struct dt_agreement *agreement, uint64_t digest);

/*
 * Every rank, after the same round and without a pending proposal: it uses another schedule from the next
 * iteration on, which follows from what that round has given to all. Returns the number of that schedule.
 */
uint32_t dt_agreement_count_change(struct dt_agreement *agreement);

/* The round before `next_iteration` has given these parts, by rank. */
enum dt_agreement_action dt_agreement_round(struct dt_agreement *agreement,
                                            const struct dt_agreement_part *parts, size_t ranks,
                                            uint32_t next_iteration);

#ifdef __cplusplus
}
#endif

#endif
