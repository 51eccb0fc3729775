/* SPDX-License-Identifier: Apache-2.0 */
#include "detect/surge.h"

#include <string.h>

#include "base/util.h"

#define LEARN_SHIFT 4 /* a healthy message's share in what is usual: 1/16 */

void dt_surge_init(struct dt_surge *surge)
{
    memset(surge, 0, sizeof *surge);
}

static uint32_t class_of(uint64_t bytes)
{
    return bytes ? (uint32_t)dt_min_u64(64 - (uint64_t)__builtin_clzll(bytes), DT_SURGE_CLASSES - 1) : 0;
}

/* What a message of the class should take; 0: nothing is known. */
static uint64_t usual_ns(const struct dt_surge *surge, uint32_t class)
{
    for (uint32_t below = 0; below <= class; below++)
        if (surge->known[class - below] >= DT_SURGE_LEARN)
            return surge->usual_ns[class - below] << dt_min_u64(below, 20);
    return 0;
}

static bool is_slow(uint64_t service_ns, uint64_t usual)
{
    return usual > 0 && service_ns > DT_SURGE_FACTOR * usual && service_ns > usual + DT_SURGE_EXTRA_NS;
}

/* The first messages of a class by the fastest, since set-up makes some slow; later ones little by little. */
static void learn(struct dt_surge *surge, uint32_t class, uint64_t service_ns)
{
    uint64_t *usual = &surge->usual_ns[class];

    if (surge->known[class] < DT_SURGE_LEARN) {
        *usual = surge->known[class]++ ? dt_min_u64(*usual, service_ns) : service_ns;
        *usual = dt_max_u64(*usual, 1);
    } else if (service_ns > *usual) {
        *usual += (service_ns - *usual) >> LEARN_SHIFT;
    } else {
        *usual -= (*usual - service_ns) >> LEARN_SHIFT;
    }
}

void dt_surge_message(struct dt_surge *surge, uint64_t bytes, uint64_t service_ns, uint64_t now_ns)
{
    uint32_t class = class_of(bytes);
    uint64_t usual = usual_ns(surge, class);

    if (is_slow(service_ns, usual)) {
        surge->slow_ns = service_ns;
        surge->usual_of_slow_ns = usual;
        surge->well_in_row = 0;
        if (surge->slow_in_row > 0 && now_ns - service_ns < surge->slow_until_ns)
            return;
        surge->slow_until_ns = now_ns;
        if (++surge->slow_in_row >= DT_SURGE_ON_MESSAGES)
            surge->is_on = true;
        return;
    }
    surge->slow_in_row = 0;
    if (surge->well_in_row++ == 0)
        surge->well_since_ns = now_ns;
    if (surge->well_in_row >= DT_SURGE_OFF_MESSAGES && now_ns - surge->well_since_ns >= DT_SURGE_OFF_NS)
        surge->is_on = false;
    learn(surge, class, service_ns);
}

void dt_surge_waiting(struct dt_surge *surge, uint64_t bytes, uint64_t since_ns, uint64_t now_ns)
{
    uint64_t usual = usual_ns(surge, class_of(bytes));

    if (now_ns > since_ns && usual > 0 && now_ns - since_ns > usual + DT_SURGE_OVERDUE_NS &&
        is_slow(now_ns - since_ns, usual)) {
        surge->slow_ns = now_ns - since_ns;
        surge->usual_of_slow_ns = usual;
        surge->is_on = true;
        surge->well_in_row = 0;
    }
}
