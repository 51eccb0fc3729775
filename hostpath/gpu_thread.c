/* SPDX-License-Identifier: Apache-2.0 */
#include "hostpath/gpu_thread.h"

#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"

/* After a copy was pushed or completed, the thread busy-polls for this long, and then polls at this interval.
 */
#define SPIN_NS  (50 * DT_NS_PER_US)
#define PAUSE_NS (20 * DT_NS_PER_US)

/* A GPU that has not finished by then has failed without an error. */
#define CLOSE_NS (2 * DT_NS_PER_S)

static void *thread_main(void *arg)
{
    struct dt_gpus *gpus = arg;
    uint64_t progress_ns = 0, closing_ns = 0;

    for (;;) {
        bool is_last = dt_load_acquire(&gpus->is_stopping);
        uint64_t now_ns = dt_clock_now_ns();
        bool is_busy;

        closing_ns = is_last && !closing_ns ? now_ns : closing_ns;
        if (dt_gpus_run(gpus, now_ns))
            progress_ns = now_ns;
        is_busy = dt_gpus_is_busy(gpus);
        if (is_last && (!is_busy || now_ns - closing_ns > CLOSE_NS))
            return NULL;
        if (!is_busy) {
            dt_wakeup_wait(&gpus->wake, DT_NEVER_NS);
            progress_ns = dt_clock_now_ns();
        } else if (now_ns - progress_ns < SPIN_NS) {
            dt_cpu_relax();
        } else {
            dt_wakeup_wait(&gpus->wake, now_ns + PAUSE_NS);
        }
    }
}

bool dt_gpu_thread_start(struct dt_gpus *gpus)
{
    int error;

    if (!gpus->has_threads || gpus->is_started)
        return true;
    error = dt_thread_start(&gpus->thread, "detour-gpu", thread_main, gpus);
    if (error)
        dt_warn("gpu-thread", "cannot start the GPU copy thread of the host path: %s", strerror(error));
    gpus->is_started = !error;
    return !error;
}

void dt_gpu_thread_stop(struct dt_gpus *gpus)
{
    if (!gpus->is_started)
        return;
    dt_store_release(&gpus->is_stopping, 1u);
    dt_wakeup_post(&gpus->wake);
    pthread_join(gpus->thread, NULL);
    gpus->is_started = false;
}
