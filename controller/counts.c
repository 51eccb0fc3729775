/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/counts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/util.h"

void dt_counts_findings(struct dt_counts *counts, const struct dt_finding *findings, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (findings[i].state == DT_FINDING_NEW)
            counts->found[findings[i].kind]++;
    }
}

void dt_counts_adopt(struct dt_counts *counts, const struct dt_decision *decision)
{
    counts->decided_ns = decision->time_ns;
    if (decision->kind == DT_DECISION_HOLD) {
        counts->held_until_ns = decision->time_ns > INT64_MAX - decision->hold_ns
                                    ? INT64_MAX
                                    : decision->time_ns + decision->hold_ns;
        memcpy(counts->held_host, decision->host, sizeof counts->held_host);
    }
    if (decision->kind == DT_DECISION_RELEASE &&
        (!decision->host[0] || !strcmp(decision->host, counts->held_host)))
        counts->held_until_ns = 0;
}

void dt_counts_decision(struct dt_counts *counts, const struct dt_decision *decision)
{
    if (decision->kind == DT_DECISION_REMEDY)
        counts->remedied[decision->step]++;
    else
        counts->decided[decision->kind]++;
    dt_counts_adopt(counts, decision);
}

bool dt_counts_has_line(uint64_t times)
{
    return times <= 4 || dt_is_power_of_two(times);
}

bool dt_counts_loss(struct dt_counts *counts, uint64_t no_room)
{
    const uint64_t observations = counts->observations;
    const bool is_overrun = observations >= DT_STORE_STREAM_RECORDS, is_crowded = no_room > counts->no_room;

    counts->overruns += is_overrun;
    counts->crowded += is_crowded;
    counts->no_room = no_room;
    counts->observations = 0;
    if (is_overrun && dt_counts_has_line(counts->overruns)) {
        snprintf(counts->loss, sizeof counts->loss,
                 "a round has read %" PRIu64 " observations, as many as the store keeps (%d): others may be "
                 "lost (%" PRIu64
                 " such rounds so far); expected: fewer, by a longer `detour agent --period`",
                 observations, DT_STORE_STREAM_RECORDS, counts->overruns);
        return true;
    }
    if (is_crowded && dt_counts_has_line(counts->crowded)) {
        snprintf(counts->loss, sizeof counts->loss,
                 "reports of links or ranks are dropped, since the tables of the judge are full (%" PRIu64
                 " so far)",
                 no_room);
        return true;
    }
    return false;
}

bool dt_counts_is_held(const struct dt_counts *counts, int64_t time_ns)
{
    return time_ns < counts->held_until_ns;
}
