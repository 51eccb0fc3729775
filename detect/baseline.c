/* SPDX-License-Identifier: Apache-2.0 */
#include "detect/baseline.h"

#include <stdbool.h>
#include <string.h>

#include "base/check.h"
#include "base/util.h"

#define SCALE_SHIFT_MAX 20 /* a baseline is scaled by at most 2^20: no overflow for up to 4 hours */

void dt_baseline_init(struct dt_baseline *baseline, const struct dt_baseline_rule *rule)
{
    memset(baseline, 0, sizeof *baseline);
    baseline->rule = rule;
}

static uint32_t class_of(uint64_t bytes)
{
    return bytes ? (uint32_t)dt_min_u64(63 - (uint64_t)__builtin_clzll(bytes), DT_BASELINE_CLASSES - 1) : 0;
}

static bool is_known(const struct dt_baseline *baseline, uint32_t class)
{
    return baseline->messages[class] >= baseline->rule->known_messages;
}

void dt_baseline_learn(struct dt_baseline *baseline, uint64_t bytes, uint64_t service_ns)
{
    uint32_t class = class_of(bytes);
    uint64_t *healthy_ns = &baseline->service_ns[class];

    service_ns = dt_max_u64(service_ns, 1);
    if (!is_known(baseline, class))
        *healthy_ns = baseline->messages[class]++ ? dt_min_u64(*healthy_ns, service_ns) : service_ns;
    else if (service_ns > *healthy_ns)
        *healthy_ns += (service_ns - *healthy_ns) >> baseline->rule->shift;
    else
        *healthy_ns -= (*healthy_ns - service_ns) >> baseline->rule->shift;
    DT_CHECK(*healthy_ns > 0 && baseline->messages[class] <= baseline->rule->known_messages);
}

uint64_t dt_baseline_ns(const struct dt_baseline *baseline, uint64_t bytes)
{
    uint32_t class = class_of(bytes);

    for (uint32_t below = 0; below <= class; below++)
        if (is_known(baseline, class - below))
            return baseline->service_ns[class - below] << dt_min_u64(below, SCALE_SHIFT_MAX);
    return 0;
}

uint64_t dt_baseline_above_ns(const struct dt_baseline *baseline, uint64_t bytes)
{
    for (uint32_t class = class_of(bytes) + 1; class < DT_BASELINE_CLASSES; class ++)
        if (is_known(baseline, class))
            return baseline->service_ns[class];
    return 0;
}
