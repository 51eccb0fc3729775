/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/pause.h"

#include "base/atomics.h"

uint64_t dt_setup_pause_take(struct dt_setup_pause *pause, uint64_t now_ns)
{
    uint64_t ended_ns = dt_load_relaxed(&pause->ended_ns);

    /* Threads that come at the same time may both pause: each of them is a loop of its own. */
    if (ended_ns && now_ns < ended_ns + DT_SETUP_PAUSE_NS)
        return 0;
    dt_store_relaxed(&pause->ended_ns, now_ns + DT_SETUP_PAUSE_NS);
    return DT_SETUP_PAUSE_NS;
}
