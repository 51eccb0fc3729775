/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Faults with a beginning and an end in virtual time, and what carries them out on the simulated devices,
 * verbs, control network and hosts.
 */
#ifndef DETOUR_TESTS_SIM_CHAOS_H
#define DETOUR_TESTS_SIM_CHAOS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/sim/plugin_sim.h"

#ifdef __cplusplus
extern "C" {
#endif

enum dt_chaos_kind {
    /* On the wire: */
    DT_CHAOS_CUT,  /* nothing passes between two devices (or one and all), one way or both; no event */
    DT_CHAOS_LOSS, /* some of what a device sends is lost: `chance_ppm` of the kinds in `ops` */
    DT_CHAOS_DROP, /* the next `count` packets of the kinds in `ops`, after `skip`, are lost */
    DT_CHAOS_LATE, /* `chance_ppm` of what a device sends comes delay_ns late */
    /* The device: */
    DT_CHAOS_PORT_DOWN,   /* with events */
    DT_CHAOS_FLAP,        /* down and up `count` times */
    DT_CHAOS_DEATH,       /* for good */
    DT_CHAOS_DEATH_BLIND, /* the same, and the last completions before it never came out */
    /* Its driver: */
    DT_CHAOS_HANG, /* the control thread's verb does not return */
    DT_CHAOS_MODIFY_FAILS,
    DT_CHAOS_MODIFY_LIES,
    DT_CHAOS_MODIFY_DENIES,
    DT_CHAOS_CREATE_FAILS,
    DT_CHAOS_NO_FLUSH,
    DT_CHAOS_CQ_SILENT,
    DT_CHAOS_EVENTS_HELD,
    /* The hosts: */
    DT_CHAOS_STOP,     /* the whole process stands still; its devices go on */
    DT_CHAOS_APP_STOP, /* NCCL does not call */
    /* The control network: */
    DT_CHAOS_CONTROL_HOLD,  /* nothing passes, and comes later */
    DT_CHAOS_CONTROL_SLOW,  /* latency delay_ns */
    DT_CHAOS_CONTROL_BREAK, /* one stream ends: `stream_fault` */
    /* The swarm draws those above; these are drawn apart (passing.h). */
    DT_CHAOS_SWARM_KINDS,
    DT_CHAOS_FREEZE = DT_CHAOS_SWARM_KINDS, /* the machine stands still, its devices too */
    DT_CHAOS_HALF_SILENT,                   /* half of the device's completion queues are silent for good */
    DT_CHAOS_KILL, /* the process ends without a word; its devices, duration_ns before or after its streams */
    DT_CHAOS_MIGRATE,      /* drained by the operator; for good if duration_ns is DT_NEVER_NS (orders.h) */
    DT_CHAOS_CONTROL_GONE, /* the control network passes nothing any more; no end is notified (gone.h) */
    DT_CHAOS_REMOVED,      /* the device leaves the system, and returns anew (returns.h) */
    DT_CHAOS_QPS_FAIL,     /* the device moves its queue pairs to ERR, once; no event (breaks.h) */
    DT_CHAOS_RECEIVES_LATE /* it writes the completions of receives later, those of sends at once */
};

struct dt_chaos {
    enum dt_chaos_kind kind;
    uint64_t start_ns; /* since the connections are there */
    uint64_t
        start_packet; /* not 0: instead, when this many packets have left since then, this one included */
    uint32_t start_closed; /* not 0: instead, start_ns after this many ends of connections were closed */
    uint64_t duration_ns;  /* of what has an end */
    uint32_t host;
    uint32_t device;    /* of the network's */
    uint32_t other;     /* CUT: the other device; == device: all others */
    bool is_in, is_out; /* CUT: directions */
    uint32_t ops;       /* mask of DT_FAULT_OP */
    uint32_t chance_ppm;
    uint32_t count;
    uint32_t skip;
    uint64_t delay_ns;
    uint64_t which; /* CONTROL_BREAK: stream */
    enum dt_stream_fault stream_fault;
    enum dt_stream_death stream_death; /* KILL: how its streams end */
    bool is_device_first;              /* KILL */
};

#define DT_CHAOS_MAX 32

struct dt_chaos_run {
    struct dt_chaos list[DT_CHAOS_MAX];
    uint32_t count;
    uint64_t origin_ns;
    uint64_t packets;            /* that have left since then */
    uint64_t control_latency_ns; /* when it is well */
    struct {
        uint32_t first, count;
    } devices[DT_HOSTS]; /* of the hosts */
    struct {
        uint64_t next_ns; /* when something is to be done about it; DT_NEVER_NS: it is over */
        uint32_t step;
        uint32_t rule; /* of fault.h */
    } state[DT_CHAOS_MAX];
    uint64_t stopped_until_ns[DT_HOSTS];
    uint64_t app_stopped_until_ns[DT_HOSTS];
    bool is_killed[DT_HOSTS];
    bool is_killed_silently[DT_HOSTS]; /* no peer is notified */
    bool is_device_dead[16];
    bool is_control_gone;
};

/* Nothing passes between the device and all others, before the faults begin; and again. */
void dt_chaos_cut_off(uint32_t device, bool is_cut);

/* The connections are there: starts the clock of the faults. */
void dt_chaos_start(struct dt_chaos_run *run, uint64_t now_ns);

/* When something begins or ends next; DT_NEVER_NS when all is over, or nothing has been started. */
uint64_t dt_chaos_next_ns(const struct dt_chaos_run *run);

/* Begins and ends what is due. */
void dt_chaos_progress(struct dt_chaos_run *run, uint64_t now_ns);

/*
 * A packet leaves: begins what was waiting for it. A cut is there at once, and a DROP that waited for it
 * takes it; everything else follows with the next dt_chaos_progress(). False: the packet is lost.
 */
bool dt_chaos_packet(struct dt_chaos_run *run, uint64_t now_ns);

/* So many ends of connections are closed by now: starts the time of what was waiting for it. */
void dt_chaos_closed(struct dt_chaos_run *run, uint32_t ends, uint64_t now_ns);

/* One line about a fault. */
void dt_chaos_describe(const struct dt_chaos *fault, char *text, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
