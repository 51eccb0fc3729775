/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/validate.h"

#include <stdio.h>

#include "base/check.h"
#include "base/clock.h"

void dt_validate_begin(struct dt_validate *validate, int64_t hold, uint64_t now_ns)
{
    DT_CHECK(validate->state == DT_VALIDATE_IDLE);
    *validate = (struct dt_validate){.state = DT_VALIDATE_HOLDING,
                                     .hold = hold,
                                     .until_ns = dt_deadline_ns(now_ns, DT_VALIDATE_ANSWERS_NS)};
}

void dt_validate_acknowledged(struct dt_validate *validate, int64_t number)
{
    if (validate->state == DT_VALIDATE_HOLDING && number == validate->hold)
        validate->answers++;
}

/* Hosts without ranks of the job, and those whose agent is down, do not answer or have nothing to hold. */
static enum dt_status start(struct dt_validate *validate, const struct dt_validate_funcs *funcs, void *arg,
                            const struct detour_validation *links, size_t hosts, uint64_t now_ns,
                            struct dt_validate_report *report)
{
    if (validate->answers < hosts && now_ns < validate->until_ns)
        return DT_AGAIN;
    if (!funcs->start(arg, links, report->reason)) {
        validate->state = DT_VALIDATE_IDLE;
        return DT_SYSTEM;
    }
    validate->state = DT_VALIDATE_RUNNING;
    validate->until_ns = dt_deadline_ns(now_ns, DT_VALIDATE_LIMIT_NS);
    return DT_AGAIN;
}

enum dt_status dt_validate_step(struct dt_validate *validate, const struct dt_validate_funcs *funcs,
                                void *arg, const struct detour_validation *links, size_t hosts,
                                uint64_t now_ns, struct dt_validate_report *report)
{
    enum dt_status status;

    DT_CHECK(validate->state != DT_VALIDATE_IDLE);
    report->slow_count = 0;
    report->reason[0] = '\0';
    if (validate->state == DT_VALIDATE_HOLDING)
        return start(validate, funcs, arg, links, hosts, now_ns, report);
    status = funcs->poll(arg, report);
    if (status == DT_AGAIN && now_ns >= validate->until_ns) {
        dt_validate_stop(validate, funcs, arg);
        snprintf(report->reason, sizeof report->reason, "the command has not ended within %llu s",
                 DT_VALIDATE_LIMIT_NS / DT_NS_PER_S);
        return DT_SYSTEM;
    }
    if (status != DT_AGAIN)
        validate->state = DT_VALIDATE_IDLE;
    return status;
}

void dt_validate_stop(struct dt_validate *validate, const struct dt_validate_funcs *funcs, void *arg)
{
    if (validate->state == DT_VALIDATE_RUNNING)
        funcs->stop(arg);
    validate->state = DT_VALIDATE_IDLE;
}

static bool has_end(const struct dt_validate_slow *slow, int32_t rank)
{
    return slow->rank == rank || (slow->kind == DETOUR_SLOW_LINK && slow->peer == rank);
}

static bool confirms(const struct dt_validate_slow *slow, const struct dt_suspect *suspect)
{
    switch (suspect->kind) {
    case DT_FINDING_DEVICE:
        return slow->kind == DETOUR_SLOW_COMPUTE && slow->rank == suspect->rank;
    case DT_FINDING_NIC:
        return slow->kind != DETOUR_SLOW_COMPUTE && has_end(slow, suspect->rank);
    case DT_FINDING_LINK:
        if (slow->kind == DETOUR_SLOW_NETWORK)
            return slow->rank == suspect->rank || slow->rank == suspect->peer;
        return slow->kind == DETOUR_SLOW_LINK && has_end(slow, suspect->rank) && has_end(slow, suspect->peer);
    default:
        return false;
    }
}

const struct dt_validate_slow *dt_validate_find(const struct dt_validate_report *report,
                                                const struct dt_suspect *suspect)
{
    for (size_t i = 0; i < report->slow_count; i++) {
        if (confirms(&report->slow[i], suspect))
            return &report->slow[i];
    }
    return NULL;
}
