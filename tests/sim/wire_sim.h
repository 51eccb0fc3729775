/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The wire `sim`: RNICs of one process on a network with virtual time. One thread, no clock, no randomness
 * but its seed: the same calls give the same run on every machine. Payload is copied when a packet is sent,
 * as a real RNIC reads memory when it sends.
 *
 * Large messages. With segment_bytes_max at the size of a message and block_bytes set, a message is one event
 * of the wire, however long it takes: the wire then carries only a stamp of each block (dt_sim_options), so
 * that 100 MB cost as much as a few small packets. A link with a rate gives both ways the same times: a
 * packet arrives when its last byte does (tests/sim/links_test.cc).
 *
 * Use: dt_sim_create; per RNIC dt_sim_add_port, dt_rnic_create with that wire, dt_sim_attach; then post work,
 * ring with dt_sim_now_ns() and call dt_sim_step() or dt_sim_run_until(). A port per RNIC has its own fault
 * rules (fault.h); directions can be cut and slowed one by one.
 */
#ifndef DETOUR_TESTS_SIM_WIRE_SIM_H
#define DETOUR_TESTS_SIM_WIRE_SIM_H

#include <stdbool.h>
#include <stdint.h>

#include "softrnic/engine.h"
#include "softrnic/fault.h"
#include "softrnic/wire.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_sim;

struct dt_sim_options {
    uint64_t seed;
    uint64_t start_ns;   /* of the clock */
    uint64_t latency_ns; /* one way; of every direction until dt_sim_set_latency */
    uint64_t jitter_ns;  /* up to this much more per packet, order kept */
    /* Faults of every port, per PSN and as often as given: */
    uint32_t loss_ppm;
    uint32_t duplicate_ppm;
    uint32_t reorder_ppm;
    uint64_t reorder_ns;        /* how late a reordered packet or a duplicate comes */
    uint64_t segment_bytes_max; /* wire.h; 0 is one path MTU */
    uint32_t link_packets_max;  /* packets under way per direction before back-pressure; 0 is no limit */
    /*
     * 0: a packet carries its whole payload. Else a payload longer than a block carries only the first
     * DT_SIM_STAMP_BYTES of each block, counted from the packet's start; the bytes in between are neither
     * read nor written. For buffers that hold a pattern in those places only.
     */
    uint64_t block_bytes;
};

#define DT_SIM_STAMP_BYTES 64u

/* A direction between two ports. */
struct dt_sim_link_options {
    uint64_t latency_ns;
    uint64_t jitter_ns;        /* up to this much more per packet, order kept */
    uint64_t rate_bytes_per_s; /* of payload, one packet after the other; 0: unlimited */
    uint64_t serial_ns; /* each message longer than DT_SIM_SERIAL_BYTES occupies the link this much longer */
};

#define DT_SIM_SERIAL_BYTES 4096u

/* NULL when memory is short. */
struct dt_sim *dt_sim_create(const struct dt_sim_options *options);

/* Destroy the RNICs first. */
void dt_sim_destroy(struct dt_sim *sim);

/* A new end of the network with this address; NULL when memory is short. Lives as long as the sim. */
struct dt_wire *dt_sim_add_port(struct dt_sim *sim, const uint8_t gid[16]);

/* Packets for the port go to `rnic` from now on; NULL: they are lost, as with a host that died. */
void dt_sim_attach(struct dt_wire *port, struct dt_rnic *rnic);

/* The port's fault rules for what it sends. */
struct dt_faults *dt_sim_faults(struct dt_wire *port);

/*
 * What a test sees of every packet, and may do to it. All may be NULL; none may call the network, but for
 * dt_sim_cut().
 */
struct dt_sim_watch {
    void *arg;
    /* A packet leaves, after the port's fault rules. False: it is lost. */
    bool (*leaves)(void *arg, struct dt_wire *from, const struct dt_packet *packet);
    /* The RNIC of this port has processed a packet, or what was due by time. */
    void (*acted)(void *arg, struct dt_wire *at);
    /* `bytes` of a packet's payload were written at `to` by the RNIC of this port. */
    void (*landed)(void *arg, struct dt_wire *at, const struct dt_packet *packet, const void *to,
                   uint64_t bytes);
};

/* Replaces the watch before; copied. */
void dt_sim_set_watch(struct dt_sim *sim, const struct dt_sim_watch *watch);

/*
 * One direction is cut, or whole again. Packets whose last byte has left still arrive; on a link with a rate
 * those that wait for it, or are leaving, are lost.
 */
void dt_sim_cut(struct dt_wire *from, struct dt_wire *to, bool is_cut);

/* One direction, for what is sent from now on: all of the link, or its latency alone. */
void dt_sim_set_link(struct dt_wire *from, struct dt_wire *to, const struct dt_sim_link_options *options);
void dt_sim_set_latency(struct dt_wire *from, struct dt_wire *to, uint64_t latency_ns, uint64_t jitter_ns);

uint64_t dt_sim_now_ns(const struct dt_sim *sim);

/* When something happens next; UINT64_MAX when nothing does. */
uint64_t dt_sim_next_ns(const struct dt_sim *sim);

/*
 * Moves the clock to the next thing that happens and lets it happen: one packet arrives, or what is due at an
 * RNIC or in the fault rules. False, and the clock stays, when nothing is left.
 */
bool dt_sim_step(struct dt_sim *sim);

/* Steps through everything up to and including `until_ns`, and leaves the clock there. */
void dt_sim_run_until(struct dt_sim *sim, uint64_t until_ns);

#ifdef __cplusplus
}
#endif

#endif
