/* SPDX-License-Identifier: Apache-2.0 */
/* The plan of a scenario as text, printed with a seed that fails. */
#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "tests/sim/scenario.h"

static void print_host(const struct dt_scenario *s, uint32_t host)
{
    const struct dt_host_options *o = &s->plugin.host[host];
    const struct dt_host_settings *settings = &s->settings[host];

    printf("  host %u: soft%u to soft%u, %u paths x %u queue pairs (%s), adaptive above %" PRIu64
           " bytes (0: not), timer 2^%u with %u retries, chunk %u, fence %" PRIu64 " ms, late %" PRIu64
           " ms, dead %" PRIu64 " ms, clock %+.3f s %+" PRId64 " ppm, delays '%s', host path of %" PRIu64
           " bytes%s%s%s\n",
           host, o->device_first, o->device_first + o->device_count - 1, settings->paths,
           settings->qps_per_path, settings->posting, settings->is_adaptive ? settings->ar_threshold : 0,
           settings->timeout_exponent, settings->retry_count, o->chunk_bytes, settings->fence_ms,
           settings->late_ms, settings->dead_ms, (double)o->clock_offset_ns / 1e9, o->clock_drift_ppm,
           settings->inject, settings->hostpath_bytes,
           settings->is_ordered ? ", its host path switched at run time" : "",
           settings->is_held ? ", held at times" : "", settings->is_split ? ", messages split" : "");
}

static void print_flow(const struct dt_scenario *s, uint32_t i)
{
    static const char *const mercy[] = {"", ", may fail if it has to", ", may fail"};
    const struct dt_flow_options *o = &s->flow[i];
    const struct dt_plan_options *plan = &o->plan;

    printf("  flow %u: host %u device %d to host %u device %d, %u messages of up to %u parts and %u bytes", i,
           o->side[0].host, o->side[0].device, o->side[1].host, o->side[1].device, plan->message_count,
           plan->parts_max, plan->bytes_max);
    if (plan->large_count)
        printf(", %u of %u bytes", plan->large_count, plan->large_bytes);
    if (o->irecv_pause_ns_max)
        printf(", up to %" PRIu64 " us between irecvs", (uint64_t)(o->irecv_pause_ns_max / DT_NS_PER_US));
    if (o->refusing_mask)
        printf(", refused by devices %#x", o->refusing_mask);
    printf(", %u at a time%s%s%s\n", o->posted_max, o->is_gpu ? ", GPU" : "",
           o->closes_early ? ", closes early" : "", mercy[o->mercy]);
}

void dt_scenario_print(const struct dt_scenario *s)
{
    const struct dt_sim_options *n = &s->network;
    char text[128];

    printf(
        "  network: latency %.1f+%.1f us, loss %.2f %%, duplicates %.2f %%, reordering %.2f %% by %.1f us, "
        "segments %" PRIu64 ", %u under way; control %.3f ms, verbs up to %.3f ms, queues of %u (0: full)\n",
        (double)n->latency_ns / 1e3, (double)n->jitter_ns / 1e3, n->loss_ppm / 1e4, n->duplicate_ppm / 1e4,
        n->reorder_ppm / 1e4, (double)n->reorder_ns / 1e3, n->segment_bytes_max, n->link_packets_max,
        (double)s->plugin.control_latency_ns / 1e6, (double)s->plugin.job_ns_max / 1e6, s->plugin.qp_wr_max);
    for (uint32_t host = 0; host < DT_HOSTS; host++)
        print_host(s, host);
    for (uint32_t i = 0; i < s->flow_count; i++)
        print_flow(s, i);
    if (s->has_cut_at_setup)
        printf("  the cable of soft%u is out until all are connected\n", s->cut_at_setup);
    for (uint32_t i = 0; i < s->chaos.count; i++) {
        dt_chaos_describe(&s->chaos.list[i], text, sizeof text);
        printf("  fault at %.6f ms for %.6f ms: %s\n", (double)s->chaos.list[i].start_ns / 1e6,
               (double)s->chaos.list[i].duration_ns / 1e6, text);
    }
}
