/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/flow_plan.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

#define GUARD_BYTES 32
#define PAGE_BYTES  4096
#define POISON      0xa5
#define SCRIBBLE    0xee

static bool wrong(struct dt_plan *plan, const char *format, ...) __attribute__((format(printf, 2, 3)));

static bool wrong(struct dt_plan *plan, const char *format, ...)
{
    va_list args;

    if (plan->wrong[0])
        return false;
    va_start(args, format);
    vsnprintf(plan->wrong, sizeof plan->wrong, format, args);
    va_end(args);
    return false;
}

/* ---- making ---------------------------------------------------------------------------------------------
 */

static int draw_bytes(struct dt_prng *prng, uint32_t max)
{
    switch (dt_prng_below(prng, 6)) {
    case 0:
        return 0;
    case 1:
        return (int)dt_prng_between(prng, 1, 16);
    case 2: /* around the line of LL128, and the inline limit */
        return (int)dt_min_u64(max, dt_prng_between(prng, 60, 136));
    default:
        return (int)dt_prng_between(prng, 1, max);
    }
}

static void add_part(struct dt_plan *plan, struct dt_prng *prng, uint32_t m, int i, int bytes)
{
    struct dt_plan_part *part = &plan->part[plan->part_count++];

    part->message = m;
    part->tag = (int)dt_prng_below(prng, 1000) * DT_FLOW_PARTS_MAX + i;
    part->bytes = bytes;
    part->capacity = bytes;
    if (dt_prng_chance(prng, 1, 2))
        part->capacity += (int)dt_prng_below(prng, 5000);
    part->send_at = plan->send_bytes;
    part->recv_at = plan->recv_bytes + GUARD_BYTES;
    plan->send_bytes += (uint32_t)bytes;
    plan->recv_bytes = part->recv_at + (uint32_t)part->capacity + GUARD_BYTES;
}

static void add_message(struct dt_plan *plan, struct dt_prng *prng, uint32_t m, bool is_large)
{
    struct dt_plan_message *message = &plan->message[m];
    const struct dt_plan_options *o = &plan->options;

    message->part_first = plan->part_count;
    message->part_count = is_large ? 1 : (int)dt_prng_between(prng, 1, o->parts_max);
    for (int i = 0; i < message->part_count; i++) {
        add_part(plan, prng, m, i, is_large ? (int)o->large_bytes : draw_bytes(prng, o->bytes_max));
        message->order[i] = i;
    }
    for (int i = message->part_count - 1; i > 0; i--) {
        int j = (int)dt_prng_below(prng, (uint64_t)i + 1), kept = message->order[i];

        message->order[i] = message->order[j];
        message->order[j] = kept;
    }
}

static bool make_pools(struct dt_plan *plan, struct dt_prng *prng)
{
    size_t words = plan->send_bytes / sizeof(uint64_t) + 1;

    plan->truth = malloc(words * sizeof(uint64_t));
    plan->send_pool = malloc(words * sizeof(uint64_t));
    /* Whole pages, which nothing else is registered with. */
    plan->recv_pool = aligned_alloc(PAGE_BYTES, dt_align_up(plan->recv_bytes + 1, PAGE_BYTES));
    if (!plan->truth || !plan->send_pool || !plan->recv_pool)
        return false;
    for (size_t i = 0; i < words; i++) {
        uint64_t word = dt_prng_next(prng);

        memcpy(plan->truth + i * sizeof word, &word, sizeof word);
    }
    memcpy(plan->send_pool, plan->truth, words * sizeof(uint64_t));
    memset(plan->recv_pool, POISON, plan->recv_bytes + 1);
    return true;
}

bool dt_plan_make(struct dt_plan *plan, const struct dt_plan_options *options)
{
    struct dt_prng prng;
    uint32_t large_left = options->large_count;

    memset(plan, 0, sizeof *plan);
    plan->options = *options;
    dt_prng_init_stream(&prng, options->seed, 1000 + options->id);
    for (uint32_t m = 0; m < options->message_count; m++) {
        bool is_large = large_left && dt_prng_chance(&prng, large_left, options->message_count - m);

        large_left -= is_large;
        add_message(plan, &prng, m, is_large);
    }
    return make_pools(plan, &prng);
}

void dt_plan_free(struct dt_plan *plan)
{
    free(plan->truth);
    free(plan->send_pool);
    free(plan->recv_pool);
}

/* ---- the truth ------------------------------------------------------------------------------------------
 */

/* The last part whose buffer, with its guard, begins at or before `at`; the first one if there is none. */
static const struct dt_plan_part *part_at(const struct dt_plan *plan, uint64_t at)
{
    uint32_t low = 0, high = plan->part_count;

    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;

        if (plan->part[middle].recv_at - GUARD_BYTES <= at)
            low = middle;
        else
            high = middle;
    }
    return &plan->part[low];
}

static bool check_landing(struct dt_plan *plan, uint64_t at, uint64_t bytes)
{
    const struct dt_plan_part *part = part_at(plan, at);
    uint64_t offset = at - part->recv_at;
    int index = (int)(part - plan->part) - (int)plan->message[part->message].part_first;

    if (!plan->is_registered)
        return wrong(plan, "written after deregMr: message %u, part %d", part->message, index);
    if (at < part->recv_at || offset + bytes > (uint64_t)part->bytes)
        return wrong(plan, "written outside: message %u, part %d, %llu bytes at %lld", part->message, index,
                     (unsigned long long)bytes, (long long)offset);
    if (!plan->message[part->message].is_open)
        return wrong(plan, "written while its irecv is not open: message %u, part %d, %llu bytes at %llu",
                     part->message, index, (unsigned long long)bytes, (unsigned long long)offset);
    if (memcmp(plan->recv_pool + at, plan->truth + part->send_at + offset, bytes) != 0)
        return wrong(plan, "written with other bytes than were sent: message %u, part %d, %llu bytes at %llu",
                     part->message, index, (unsigned long long)bytes, (unsigned long long)offset);
    return true;
}

bool dt_plan_landed(struct dt_plan *plan, const void *to, uint64_t bytes)
{
    uintptr_t at = (uintptr_t)to;

    if (at - (uintptr_t)plan->send_pool < plan->send_bytes) {
        wrong(plan, "a send buffer was written");
        return true;
    }
    if (at - (uintptr_t)plan->recv_pool >= plan->recv_bytes)
        return false;
    check_landing(plan, at - (uintptr_t)plan->recv_pool, bytes);
    return true;
}

static bool is_all(const uint8_t *at, uint8_t value, size_t bytes)
{
    return bytes == 0 || (at[0] == value && memcmp(at, at + 1, bytes - 1) == 0);
}

bool dt_plan_is_there(const struct dt_plan *plan, const struct dt_plan_part *part)
{
    return memcmp(plan->recv_pool + part->recv_at, plan->truth + part->send_at, (size_t)part->bytes) == 0;
}

bool dt_plan_check(struct dt_plan *plan, uint32_t m, bool is_there)
{
    for (int i = 0; i < plan->message[m].part_count; i++) {
        const struct dt_plan_part *part = dt_plan_part(plan, m, i);
        const uint8_t *at = plan->recv_pool + part->recv_at;
        size_t bytes = is_there ? (size_t)part->bytes : 0;

        if (is_there && !dt_plan_is_there(plan, part))
            return wrong(plan, "wrong bytes received: message %u, part %d", m, i);
        if (!is_all(at - GUARD_BYTES, POISON, GUARD_BYTES) ||
            !is_all(at + bytes, POISON, (size_t)part->capacity - bytes + GUARD_BYTES))
            return wrong(plan, "bytes around the payload were changed: message %u, part %d", m, i);
    }
    return true;
}

void dt_plan_scribble(struct dt_plan *plan, const struct dt_plan_part *part)
{
    memset(plan->send_pool + part->send_at, SCRIBBLE, (size_t)part->bytes);
}
