/* SPDX-License-Identifier: Apache-2.0 */
#include "detect/processor.h"

#include <math.h>

/* The part of a sum that is left after this time. */
static double left_after(double seconds)
{
    return exp2(-seconds / DT_PROCESSOR_HALF_S);
}

void dt_processor_thread_add(struct dt_processor_thread *thread, const struct dt_processor_times *times,
                             uint64_t now_ns)
{
    const struct dt_processor_times last = thread->last;
    double seconds = (double)(now_ns - thread->last_ns) / 1e9;

    if (thread->last_ns == 0 || now_ns < thread->last_ns || times->run_ns < last.run_ns ||
        times->wait_ns < last.wait_ns) {
        *thread = (struct dt_processor_thread){.last = *times, .last_ns = now_ns};
        return;
    }
    double left = left_after(seconds);

    thread->run_s = thread->run_s * left + (double)(times->run_ns - last.run_ns) / 1e9;
    thread->wait_s = thread->wait_s * left + (double)(times->wait_ns - last.wait_ns) / 1e9;
    thread->window_s = thread->window_s * left + seconds;
    thread->last = *times;
    thread->last_ns = now_ns;
}

void dt_processor_flight_add(struct dt_processor_flight *flight, uint64_t service_ns, bool is_overdue,
                             uint64_t now_ns)
{
    double seconds = (double)(now_ns - flight->last_ns) / 1e9;

    if (flight->last_ns == 0 || now_ns < flight->last_ns || service_ns < flight->last_service_ns) {
        *flight = (struct dt_processor_flight){.last_service_ns = service_ns, .last_ns = now_ns};
        return;
    }
    double left = left_after(seconds), service_s = (double)(service_ns - flight->last_service_ns) / 1e9;

    flight->busy_s = flight->busy_s * left + (is_overdue ? seconds : fmin(service_s, seconds));
    flight->window_s = flight->window_s * left + seconds;
    flight->last_service_ns = service_ns;
    flight->last_ns = now_ns;
}

/* The seconds of each second that messages of this connection may have waited for the thread. */
static double share(const struct dt_processor_thread *thread, double busy)
{
    double wanted = (thread->run_s + thread->wait_s) / thread->window_s;

    return wanted > 0 ? thread->wait_s / thread->window_s * fmin(1, busy / wanted) : 0;
}

double dt_processor_part(const struct dt_processor_thread *const *threads, uint32_t count,
                         const struct dt_processor_flight *flight, double factor)
{
    double waited = 0;

    if (!(factor > 1) || !(flight->window_s > 0) || !(flight->busy_s > 0))
        return 0;
    double busy = flight->busy_s / flight->window_s;

    for (uint32_t i = 0; i < count; i++) {
        if (threads[i]->window_s > 0)
            waited += share(threads[i], busy);
    }
    return waited / (busy * (1 - 1 / factor));
}
