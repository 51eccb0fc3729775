/* SPDX-License-Identifier: Apache-2.0 */
#include "detect/surge.h"

#include <string.h>

static const struct dt_baseline_rule baseline_rule = {.known_messages = 8, .shift = 4};

void dt_surge_init(struct dt_surge *surge)
{
    memset(surge, 0, sizeof *surge);
    dt_baseline_init(&surge->baseline, &baseline_rule);
}

static bool is_slow(uint64_t service_ns, uint64_t baseline_ns)
{
    return baseline_ns > 0 && service_ns > DT_SURGE_FACTOR * baseline_ns &&
           service_ns > baseline_ns + DT_SURGE_EXTRA_NS;
}

static void count_slow(struct dt_surge *surge, uint64_t service_ns, uint64_t baseline_ns)
{
    surge->slow_ns = service_ns;
    surge->slow_baseline_ns = baseline_ns;
    surge->healthy_run = 0;
}

void dt_surge_message(struct dt_surge *surge, uint64_t bytes, uint64_t service_ns, uint64_t now_ns)
{
    uint64_t baseline_ns = dt_baseline_ns(&surge->baseline, bytes);

    if (is_slow(service_ns, baseline_ns)) {
        bool overlaps = surge->slow_run > 0 && now_ns - service_ns < surge->slow_run_until_ns;

        count_slow(surge, service_ns, baseline_ns);
        if (overlaps)
            return;
        surge->slow_run_until_ns = now_ns;
        if (++surge->slow_run >= DT_SURGE_ON_MESSAGES)
            surge->is_on = true;
        return;
    }
    surge->slow_run = 0;
    if (surge->healthy_run++ == 0)
        surge->healthy_run_since_ns = now_ns;
    if (surge->healthy_run >= DT_SURGE_OFF_MESSAGES &&
        now_ns - surge->healthy_run_since_ns >= DT_SURGE_OFF_NS)
        surge->is_on = false;
    dt_baseline_learn(&surge->baseline, bytes, service_ns);
}

void dt_surge_waiting(struct dt_surge *surge, uint64_t bytes, uint64_t since_ns, uint64_t now_ns)
{
    uint64_t baseline_ns = dt_baseline_ns(&surge->baseline, bytes);

    if (now_ns > since_ns && baseline_ns > 0 && now_ns - since_ns > baseline_ns + DT_SURGE_OVERDUE_NS &&
        is_slow(now_ns - since_ns, baseline_ns)) {
        count_slow(surge, now_ns - since_ns, baseline_ns);
        surge->is_on = true;
    }
}
