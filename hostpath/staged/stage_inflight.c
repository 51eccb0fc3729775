/* SPDX-License-Identifier: Apache-2.0 */
/* The stage of a sender: bytes in flight, and the decision of DETOUR_HOSTPATH=auto. */
#include "hostpath/staged/stage_inflight.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"

uint64_t dt_stage_message_bytes(const struct dt_send_slot *slot)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < slot->parts; i++)
        bytes += slot->part[i].bytes;
    return bytes;
}

static void log_decision(const struct dt_sender *s, uint64_t bytes, uint64_t service_ns)
{
    const struct dt_connection *c = &s->connection;
    const struct dt_auto *decision = &s->stage->decision;

    if (decision->is_on)
        dt_info(
            "auto-staged",
            "connection %016llx to %s: the link is slow, %llu us for %llu bytes that usually take %llu us: "
            "sends go over the host path",
            (unsigned long long)c->id, c->peer, (unsigned long long)(service_ns / DT_NS_PER_US),
            (unsigned long long)bytes,
            (unsigned long long)(dt_auto_healthy_ns(decision, bytes) / DT_NS_PER_US));
    else
        dt_info("auto-direct", "connection %016llx to %s: the link is no longer slow: sends go directly",
                (unsigned long long)c->id, c->peer);
}

void dt_stage_decide(struct dt_sender *s, uint64_t handed, uint64_t bytes)
{
    const struct dt_ticks *ticks = s->connection.meter.ticks;
    uint64_t now = dt_ticks_now(ticks);
    uint64_t service_ns = dt_ticks_to_ns(ticks, now > handed ? now - handed : 0);

    if (dt_auto_message(&s->stage->decision, bytes, service_ns, dt_ticks_moment_ns(ticks, now)))
        log_decision(s, bytes, service_ns);
}

void dt_stage_inflight_message(struct dt_sender *s, const struct dt_send_slot *slot)
{
    dt_stage_slot(s, slot)->inflight_bytes = dt_stage_inflight_add(s, dt_stage_message_bytes(slot));
}

uint64_t dt_stage_inflight_add(struct dt_sender *s, uint64_t bytes)
{
    return s->stage->inflight_bytes += bytes;
}

void dt_stage_inflight_lost(struct dt_sender *s, uint64_t bytes)
{
    DT_CHECK(s->stage->inflight_bytes >= bytes);
    s->stage->inflight_bytes -= bytes;
}

void dt_stage_inflight_arrived(struct dt_sender *s, uint64_t handed, uint64_t bytes, uint64_t inflight_bytes)
{
    dt_stage_inflight_lost(s, bytes);
    if (dt_stage_mode(s) == DT_HOSTPATH_AUTO)
        dt_stage_decide(s, handed, inflight_bytes);
}
