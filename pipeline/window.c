/* SPDX-License-Identifier: Apache-2.0 */
#include "pipeline/window.h"

#include "base/check.h"

static void check(const struct dt_pipeline_window *window)
{
    DT_CHECK(window->completed <= window->posted && window->posted <= window->reached &&
             window->reached <= window->total && window->posted - window->completed <= window->slots);
}

void dt_pipeline_window_open(struct dt_pipeline_window *window, uint64_t total, uint64_t slots)
{
    DT_CHECK(dt_pipeline_window_is_done(window));
    *window = (struct dt_pipeline_window){.total = total, .slots = slots ? slots : UINT64_MAX};
}

void dt_pipeline_window_reach(struct dt_pipeline_window *window, uint64_t count)
{
    window->reached += count;
    check(window);
}

static bool has_slot(const struct dt_pipeline_window *window)
{
    return window->posted - window->completed < window->slots;
}

bool dt_pipeline_window_can_post(const struct dt_pipeline_window *window)
{
    return window->posted < window->reached && has_slot(window);
}

uint64_t dt_pipeline_window_post(struct dt_pipeline_window *window)
{
    uint64_t number = window->posted++;

    check(window);
    return number;
}

uint64_t dt_pipeline_window_complete(struct dt_pipeline_window *window, uint64_t now_ns)
{
    if (window->posted < window->reached && !has_slot(window))
        window->freed_ns = now_ns;
    uint64_t number = window->completed++;
    check(window);
    return number;
}

bool dt_pipeline_window_is_done(const struct dt_pipeline_window *window)
{
    return window->completed == window->total;
}
