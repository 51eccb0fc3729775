/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The wire `sim`: RNICs of one process on a network with virtual time. One thread, no clock, no randomness
 * but its seed: the same calls give the same run on every machine. Payload is copied when a packet is sent,
 * as a real RNIC reads memory when it sends.
 *
 * Use: dt_sim_create; per RNIC dt_sim_add_port, dt_rnic_create with that wire, dt_sim_attach; then post work,
 * ring with dt_sim_now_ns() and call dt_sim_step() or dt_sim_run_until(). A port per RNIC has its own fault
 * rules (fault.h); directions can be cut and slowed one by one.
 */
#ifndef DETOUR_SOFTRNIC_WIRE_SIM_H
#define DETOUR_SOFTRNIC_WIRE_SIM_H

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
};

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
 * What a test sees of every packet, and may do to it. Both may be NULL; neither may call the network, but for
 * dt_sim_cut().
 */
struct dt_sim_watch {
    void *arg;
    /* A packet leaves, after the port's fault rules. False: it is lost. */
    bool (*leaves)(void *arg, struct dt_wire *from, const struct dt_packet *packet);
    /* `bytes` of a packet's payload were written at `to` by the RNIC of this port. */
    void (*landed)(void *arg, struct dt_wire *at, const struct dt_packet *packet, const void *to,
                   uint64_t bytes);
};

/* Replaces the watch before; copied. */
void dt_sim_set_watch(struct dt_sim *sim, const struct dt_sim_watch *watch);

/* One direction: cut (what is under way still arrives), or another latency for what is sent from now on. */
void dt_sim_cut(struct dt_wire *from, struct dt_wire *to, bool is_cut);
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
