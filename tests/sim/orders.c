/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/orders.h"

#include "base/clock.h"
#include "base/prng.h"
#include "tests/sim/draw.h"

#define ORDERS_MAX 4

void dt_orders_draw(struct dt_scenario *s)
{
    struct dt_prng prng;
    uint32_t count;

    dt_prng_init_stream(&prng, s->seed, 1009);
    if (s->profile != DT_PROFILE_FAILOVER || !dt_draw_one_in(&prng, 6))
        return;
    count = (uint32_t)dt_prng_between(&prng, 1, ORDERS_MAX);
    for (uint32_t i = 0; i < count; i++) {
        struct dt_chaos *f = &s->chaos.list[s->chaos.count++];
        uint32_t host = (uint32_t)dt_prng_below(&prng, DT_HOSTS);
        const struct dt_host_options *o = &s->plugin.host[host];

        *f = (struct dt_chaos){.kind = DT_CHAOS_MIGRATE, .host = host};
        f->device = o->device_first + (uint32_t)dt_prng_below(&prng, o->device_count);
        f->start_ns = dt_draw_log(&prng, DT_NS_PER_US, 500 * DT_NS_PER_MS);
        f->duration_ns =
            dt_draw_one_in(&prng, 2) ? DT_NEVER_NS : dt_draw_log(&prng, DT_NS_PER_US, 10 * DT_NS_PER_S);
    }
}
