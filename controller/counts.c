/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/counts.h"

#include <string.h>

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

bool dt_counts_is_held(const struct dt_counts *counts, int64_t time_ns)
{
    return time_ns < counts->held_until_ns;
}
