/* SPDX-License-Identifier: Apache-2.0 */
#include "pipeline/agreement.h"

#include "base/check.h"

/* What the parts of a round mean for the proposal. */
enum event {
    EVENT_NOTHING,   /* no proposal */
    EVENT_PROPOSAL,  /* a new one, in time */
    EVENT_MISSING,   /* confirmations are missing, and there is still time */
    EVENT_CONFIRMED, /* all confirm, and its iteration is not the next one */
    EVENT_DUE,       /* all confirm, and its iteration is the next one */
    EVENT_FAILED,    /* a digest differs, or the time is over */
    EVENT_COUNT
};

struct transition {
    enum dt_agreement_state next;
    enum dt_agreement_action action;
};

#define STAY_IDLE                            \
    {                                        \
        DT_AGREEMENT_IDLE, DT_AGREEMENT_KEEP \
    }
#define GIVE_UP                                 \
    {                                           \
        DT_AGREEMENT_IDLE, DT_AGREEMENT_DISCARD \
    }

/* Once agreed, nothing but the iteration is awaited: parts of later rounds cannot take an agreement back. */
static const struct transition table[DT_AGREEMENT_STATE_COUNT][EVENT_COUNT] = {
    [DT_AGREEMENT_IDLE] = {[EVENT_NOTHING] = STAY_IDLE,
                           [EVENT_PROPOSAL] = {DT_AGREEMENT_PROPOSED, DT_AGREEMENT_PREPARE},
                           [EVENT_MISSING] = STAY_IDLE,
                           [EVENT_CONFIRMED] = STAY_IDLE,
                           [EVENT_DUE] = STAY_IDLE,
                           [EVENT_FAILED] = STAY_IDLE},
    [DT_AGREEMENT_PROPOSED] = {[EVENT_NOTHING] = GIVE_UP,
                               [EVENT_PROPOSAL] = {DT_AGREEMENT_PROPOSED, DT_AGREEMENT_PREPARE},
                               [EVENT_MISSING] = {DT_AGREEMENT_PROPOSED, DT_AGREEMENT_KEEP},
                               [EVENT_CONFIRMED] = {DT_AGREEMENT_AGREED, DT_AGREEMENT_KEEP},
                               [EVENT_DUE] = {DT_AGREEMENT_IDLE, DT_AGREEMENT_ADOPT},
                               [EVENT_FAILED] = GIVE_UP},
    [DT_AGREEMENT_AGREED] = {[EVENT_NOTHING] = {DT_AGREEMENT_AGREED, DT_AGREEMENT_KEEP},
                             [EVENT_PROPOSAL] = {DT_AGREEMENT_AGREED, DT_AGREEMENT_KEEP},
                             [EVENT_MISSING] = {DT_AGREEMENT_AGREED, DT_AGREEMENT_KEEP},
                             [EVENT_CONFIRMED] = {DT_AGREEMENT_AGREED, DT_AGREEMENT_KEEP},
                             [EVENT_DUE] = {DT_AGREEMENT_IDLE, DT_AGREEMENT_ADOPT},
                             [EVENT_FAILED] = GIVE_UP},
};

uint32_t dt_agreement_propose(struct dt_agreement *agreement, uint32_t iteration)
{
    if (agreement->own.number)
        return 0;
    agreement->own = (struct dt_agreement_part){.number = agreement->last + 1, .iteration = iteration};
    return agreement->own.number;
}

void dt_agreement_prepared(struct dt_agreement *agreement, uint64_t digest)
{
    DT_CHECK(digest != 0);
    if (agreement->state == DT_AGREEMENT_PROPOSED)
        agreement->own.digest = digest;
}

uint32_t dt_agreement_count_change(struct dt_agreement *agreement)
{
    DT_CHECK(agreement->state == DT_AGREEMENT_IDLE && !agreement->own.number);
    return agreement->adopted = ++agreement->last;
}

/* All parts confirm rank 0's proposal; *differs: two confirmations have different digests. */
static int all_confirm(const struct dt_agreement_part *parts, size_t ranks, int *differs)
{
    uint64_t digest = 0;
    int all = 1;

    *differs = 0;
    for (size_t i = 0; i < ranks; i++) {
        if (parts[i].number != parts[0].number || !parts[i].digest) {
            all = 0;
            continue;
        }
        *differs |= digest && parts[i].digest != digest;
        digest = parts[i].digest;
    }
    return all;
}

static enum event event_of(const struct dt_agreement *agreement, const struct dt_agreement_part *parts,
                           size_t ranks, uint32_t next_iteration)
{
    const struct dt_agreement_part *proposal = &parts[0];
    int differs;

    if (!proposal->number)
        return EVENT_NOTHING;
    if (proposal->number > agreement->last)
        return proposal->iteration > next_iteration ? EVENT_PROPOSAL : EVENT_FAILED;
    int all = all_confirm(parts, ranks, &differs);
    if (differs || next_iteration > proposal->iteration || (!all && next_iteration == proposal->iteration))
        return EVENT_FAILED;
    if (!all)
        return EVENT_MISSING;
    return next_iteration == proposal->iteration ? EVENT_DUE : EVENT_CONFIRMED;
}

enum dt_agreement_action dt_agreement_round(struct dt_agreement *agreement,
                                            const struct dt_agreement_part *parts, size_t ranks,
                                            uint32_t next_iteration)
{
    enum event event = event_of(agreement, parts, ranks, next_iteration);
    const struct transition *transition = &table[agreement->state][event];

    DT_CHECK(ranks > 0);
    if (event == EVENT_PROPOSAL && transition->action == DT_AGREEMENT_PREPARE)
        agreement->own =
            (struct dt_agreement_part){.number = parts[0].number, .iteration = parts[0].iteration};
    if (parts[0].number > agreement->last)
        agreement->last = parts[0].number;
    if (transition->action == DT_AGREEMENT_ADOPT) {
        DT_CHECK(agreement->own.number > agreement->adopted && agreement->own.digest != 0);
        agreement->adopted = agreement->own.number;
    }
    agreement->state = transition->next;
    if (agreement->state == DT_AGREEMENT_IDLE)
        agreement->own = (struct dt_agreement_part){0};
    return transition->action;
}
